"""Packs objects with tensors into a header and one flat block of bytes.

A tensor that occurs several times is packed once, and is one object again after unpacking. The
tensors of one object are adjacent and are copied out as one block, whose memory they then share.
"""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

ALIGNMENT = 64
"""Bytes: every tensor starts on a cache line, so that kernels give the same bits as elsewhere."""


def _packed_tensor(place: int) -> Tensor:
    """Represents the tensor at this index in a header; the unpickler replaces it."""
    raise RuntimeError(f"tensor {place} can be unpacked by `unpack` alone")


class _Packer(pickle.Pickler):
    """Pickles tensors as indices into `tensors`."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.tensors: list[Tensor] = []

    def reducer_override(self, found: Any) -> Any:
        """The index of a tensor, requested once per tensor; NotImplemented leaves other objects to
        pickle.
        """
        if not isinstance(found, Tensor):
            return NotImplemented
        self.tensors.append(found)
        return _packed_tensor, (len(self.tensors) - 1,)


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, tensors: list[Tensor]) -> None:
        super().__init__(file)
        self.tensors = tensors

    def find_class(self, module: str, name: str) -> Any:
        """The object that a header names; indices become their tensors."""
        if name == _packed_tensor.__name__ and module == __name__:
            return self.tensors.__getitem__
        return super().find_class(module, name)


Run = list[tuple[torch.dtype, torch.Size, int]]
"""For each tensor first used by an object: dtype, shape, offset in bytes."""

Layout = list[Run]


def pack(values: Sequence[Any]) -> tuple[bytes, Layout, list[Tensor], int]:
    """The header and layout for `unpack`, the tensors for `write`, and their total bytes.

    Raises the errors of pickle for objects that cannot be pickled.
    """
    header, tensors, counts = separated(values)
    layout: Layout = []
    end = packed = 0
    for count in counts:
        run, end = laid_out(tensors[packed : packed + count], end)
        layout.append(run)
        packed += count
    return header, layout, tensors, end


def separated(values: Sequence[Any]) -> tuple[bytes, list[Tensor], list[int]]:
    """The values without tensors, the tensors, and how many of them each value is the first to use.

    Raises the errors of pickle for objects that cannot be pickled.
    """
    file = io.BytesIO()
    packer = _Packer(file)
    counts = []
    for value in values:
        before = len(packer.tensors)
        packer.dump(value)
        counts.append(len(packer.tensors) - before)
    return file.getvalue(), packer.tensors, counts


def joined(header: bytes, tensors: list[Tensor], values: int) -> list[Any]:
    """The inverse of `separated`, for this many values."""
    unpacker = _Unpacker(io.BytesIO(header), tensors)
    return [unpacker.load() for _ in range(values)]


def laid_out(tensors: Sequence[Tensor], start: int = 0) -> tuple[Run, int]:
    """Offsets of adjacent tensors from byte `start` on, and where they end."""
    run, end = [], start
    for tensor in tensors:
        run.append((tensor.dtype, tensor.shape, end))
        end += -(-tensor.numel() * tensor.element_size() // ALIGNMENT) * ALIGNMENT
    return run, end


def write(flat: Tensor, layout: Layout, tensors: list[Tensor]) -> None:
    """Copy the tensors into `flat` (bytes, uint8)."""
    places = [view for run in layout for view in _views(flat, run)]
    for place, tensor in zip(places, tensors, strict=True):
        place.copy_(tensor.detach())


def unpack(header: bytes, layout: Layout, flat: Tensor, *, share: bool = False) -> list[Any]:
    """The objects again; their tensors are copies or, with `share`, views of `flat`."""
    read = _views if share else copies
    tensors = [tensor for run in layout for tensor in read(flat, run)]
    return joined(header, tensors, len(layout))


def copies(flat: Tensor, run: Run) -> list[Tensor]:
    """The tensors of one run, copied as one block."""
    if not run:
        return []
    (_, _, start), (dtype, shape, last) = run[0], run[-1]
    end = last + shape.numel() * dtype.itemsize
    piece = flat[start : -(-end // ALIGNMENT) * ALIGNMENT].clone()
    return _views(piece, [(dtype, shape, at - start) for dtype, shape, at in run])


def _views(flat: Tensor, run: Run) -> list[Tensor]:
    """Views of the tensors of a run, with one call each, since models have many small tensors."""
    typed: dict[torch.dtype, Tensor] = {}
    views = []
    for dtype, shape, start in run:
        if dtype not in typed:
            typed[dtype] = flat[: len(flat) // ALIGNMENT * ALIGNMENT].view(dtype)
        whole = typed[dtype]
        at = whole.storage_offset() + start // dtype.itemsize
        views.append(whole.as_strided(shape, _strides(shape), at))
    return views


@lru_cache(maxsize=1024)
def _strides(shape: torch.Size) -> tuple[int, ...]:
    """Strides, in values, of a contiguous tensor."""
    wide = [max(1, size) for size in shape]
    return tuple(math.prod(wide[axis + 1 :]) for axis in range(len(wide)))
