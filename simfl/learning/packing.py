"""Objects full of tensors as a header and one flat run of bytes.

A tensor that occurs several times is packed once, and is one object again after unpacking.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import torch
from torch import Tensor

ALIGNMENT = 64
"""Bytes: every tensor starts on a cache line, where kernels give the bits they give elsewhere."""


RUN_BYTES = 1 << 18
"""Neighbours are copied out of the flat run in pieces of about so many bytes: fewer copies, yet a
tensor that is kept keeps little else alive."""


def _packed_tensor(place: int) -> Tensor:
    """Stands in a header for the tensor of this place; what unpickles it knows the tensors."""
    raise RuntimeError(f"tensor {place} can be unpacked by `unpack` alone")


class _Packer(pickle.Pickler):
    """Pickles tensors as places in `tensors`."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.tensors: list[Tensor] = []

    def reducer_override(self, found: Any) -> Any:
        """A tensor's place, asked once per tensor; NotImplemented leaves the rest to pickle."""
        if not isinstance(found, Tensor):
            return NotImplemented
        self.tensors.append(found)
        return _packed_tensor, (len(self.tensors) - 1,)


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, tensors: list[Tensor]) -> None:
        super().__init__(file)
        self.tensors = tensors

    def find_class(self, module: str, name: str) -> Any:
        """What a header names; places become their tensors."""
        if name == _packed_tensor.__name__ and module == __name__:
            return self.tensors.__getitem__
        return super().find_class(module, name)


Layout = list[tuple[torch.dtype, torch.Size, int]]
"""Per tensor: dtype, shape, offset in bytes."""


def pack(value: Any) -> tuple[bytes, Layout, list[Tensor], int]:
    """What `unpack` needs, the tensors to be written by `write`, and how many bytes they take.

    Raises what pickle raises for objects that it cannot handle.
    """
    file = io.BytesIO()
    packer = _Packer(file)
    packer.dump(value)
    layout: Layout = []
    end = 0
    for tensor in packer.tensors:
        layout.append((tensor.dtype, tensor.shape, end))
        end += -(-tensor.numel() * tensor.element_size() // ALIGNMENT) * ALIGNMENT
    return file.getvalue(), layout, packer.tensors, end


def write(flat: Tensor, layout: Layout, tensors: list[Tensor]) -> None:
    """Copy the tensors into `flat` (bytes, uint8)."""
    for place, tensor in zip(_views(flat, layout), tensors, strict=True):
        place.copy_(tensor.detach())


def unpack(header: bytes, layout: Layout, flat: Tensor, *, share: bool = False) -> Any:
    """The value again; its tensors are copies, or with `share` views of `flat`."""
    tensors = _views(flat, layout) if share else _copies(flat, layout)
    return _Unpacker(io.BytesIO(header), tensors).load()


def _copies(flat: Tensor, layout: Layout) -> list[Tensor]:
    copies: list[Tensor] = []
    while (first := len(copies)) < len(layout):
        start, after = layout[first][2], first + 1
        while after < len(layout) and layout[after][2] - start < RUN_BYTES:
            after += 1
        last_dtype, last_shape, last = layout[after - 1]
        run = flat[start : last + last_shape.numel() * last_dtype.itemsize].clone()
        moved = [(dtype, shape, at - start) for dtype, shape, at in layout[first:after]]
        copies += _views(run, moved)
    return copies


def _views(flat: Tensor, layout: Layout) -> list[Tensor]:
    return [
        flat[start : start + shape.numel() * dtype.itemsize].view(dtype).view(shape)
        for dtype, shape, start in layout
    ]
