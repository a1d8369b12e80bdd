"""Outputs of fixed layers, computed once for each row.

A loss that also runs the global model, or that trains only a head, needs the same values in every
pass over a client's rows. They are remembered by row. A row keeps the value that was computed
first, wherever it was in a batch, so a job's bits do not depend on the other jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor


class RowCache:
    """Remembers values by row, for tensors that live as long as this object.

    `tensors` are those: of other tensors it is unknown whether they have changed. `count` is the
    total number of rows.
    """

    def __init__(self, tensors: Iterable[Tensor], count: int) -> None:
        self._known = {tensor.data_ptr(): tensor for tensor in tensors}
        self._count = count
        self._rows: dict[Any, _Rows] = {}

    def values(
        self,
        tensors: Sequence[Tensor],
        places: Tensor,
        valid: Tensor,
        compute: Callable[[], Tensor],
    ) -> Tensor:
        """The values that `compute` derives from these tensors, for the rows at `places` (jobs,
        rows).

        They are (jobs, rows, ...); each depends only on its row and its job's tensors. Values where
        `valid` is 0 are not remembered.
        """
        if not all(tensor.data_ptr() in self._known for tensor in tensors):
            return compute()
        key = tuple([(one.data_ptr(), one.shape[1:], one.stride()) for one in tensors])
        versions = [one._version for one in tensors]
        rows = self._rows.get(key)
        if rows is None or rows.versions != versions:
            rows = self._rows[key] = _Rows(versions, self._count)
        return rows.taken(places, valid, compute)


class _Rows:
    """The values of rows under one state of some tensors."""

    def __init__(self, versions: list[int], count: int) -> None:
        self.versions = versions
        self._count = count
        self._held: Tensor | None = None
        self._whole = False
        self._values: Tensor | None = None

    def taken(self, places: Tensor, valid: Tensor, compute: Callable[[], Tensor]) -> Tensor:
        """The values at these places; missing ones are computed."""
        wanted = places.flatten()
        if not self._whole:
            self._put(wanted, valid.flatten(), compute)
        assert self._values is not None
        return self._values.index_select(0, wanted).view(*places.shape, *self._values.shape[1:])

    def _put(self, wanted: Tensor, valid: Tensor, compute: Callable[[], Tensor]) -> None:
        """Store the values of those wanted rows that are valid and missing."""
        if self._held is None:
            self._held = torch.zeros(self._count, dtype=torch.bool, device=wanted.device)
        new = ((valid != 0) & ~self._held[wanted]).nonzero().squeeze(1)
        if not len(new):
            return
        made = compute().flatten(0, 1)
        if self._values is None:
            self._values = made.new_zeros(self._count, *made.shape[1:])
        self._values.index_copy_(0, wanted[new], made.index_select(0, new))
        self._held[wanted[new]] = True
        self._whole = bool(self._held.all())
