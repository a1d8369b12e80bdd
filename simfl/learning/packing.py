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


class _Packer(pickle.Pickler):
    """Pickles tensors as places in `tensors`."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.places: dict[int, int] = {}
        self.tensors: list[Tensor] = []

    def persistent_id(self, found: Any) -> int | None:
        """The place of a tensor; None leaves everything else to pickle."""
        if not isinstance(found, Tensor):
            return None
        if id(found) not in self.places:
            self.places[id(found)] = len(self.tensors)
            self.tensors.append(found)
        return self.places[id(found)]


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, tensors: list[Tensor]) -> None:
        super().__init__(file)
        self.tensors = tensors

    def persistent_load(self, place: Any) -> Tensor:
        found: Tensor = self.tensors[place]
        return found


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
    views = _views(flat, layout)
    tensors = views if share else [view.clone() for view in views]
    return _Unpacker(io.BytesIO(header), tensors).load()


def _views(flat: Tensor, layout: Layout) -> list[Tensor]:
    return [
        flat[start : start + shape.numel() * dtype.itemsize].view(dtype).view(shape)
        for dtype, shape, start in layout
    ]
