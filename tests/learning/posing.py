"""A CPU that poses as an accelerator with little memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from simfl.learning.devices import PRECISIONS, ComputeDevice


class Posing(ComputeDevice):
    """Computes on the CPU in cohorts padded for `total_bytes` of memory.

    Of these, others occupy all but `free_bytes`: what needs more is refused as CUDA refuses it.
    `streamed_bytes` counts what was brought there of what stays in this machine's memory.
    """

    kind = "posing"
    precisions = PRECISIONS

    def __init__(self, total_bytes: float, free_bytes: float | None = None) -> None:
        super().__init__("cpu")
        self.total_bytes = int(total_bytes)
        self.free_bytes = self.total_bytes if free_bytes is None else int(free_bytes)
        self.claims: list[float] = []
        self.refused = 0
        self.streamed_bytes = 0
        self._there: list[Tensor] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return Posing, (self.total_bytes, self.free_bytes)

    def claim(self, needed_bytes: float) -> None:
        """As CUDA's allocator does, but by the count."""
        if needed_bytes > self.free_bytes:
            self.refused += 1
            raise torch.OutOfMemoryError(f"posing: out of memory for {needed_bytes:.0f} bytes")
        self.claims.append(needed_bytes)

    def moved(self, tensor: Tensor) -> Tensor:
        """From now on it is there."""
        self._there.append(tensor)
        return tensor

    def taken(self, source: Tensor, rows: Tensor) -> Tensor:
        """Rows of what is not there are counted."""
        taken = super().taken(source, rows)
        if not any(source is one for one in self._there):
            self.streamed_bytes += taken.numel() * taken.itemsize
        return taken
