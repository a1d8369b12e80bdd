"""Outputs of fixed layers, computed once for each row.

A loss that runs the global model beside the one that trains, or trains a head alone, asks for the
same values in every pass over a client's rows. They are remembered by row. A row has the value that
was computed first, at whatever place of a batch, so that a job's bits do not depend on its company.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor


class Standing:
    """Remembers by row, for some tensors that live as long as this does.

    `tensors` are those: of others it cannot be told whether they are what they were. `count` is
    how many rows there are in all.
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
        """What `compute` makes, by means of these tensors, of the rows at `places` (jobs, rows).

        Its values are (jobs, rows, ...), each of its row and its job's tensors alone; where `valid`
        is 0 they do not count.
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
        """The values at these places, of which those that are not there yet are computed."""
        wanted = places.flatten()
        if not self._whole:
            self._put(wanted, valid.flatten(), compute)
        assert self._values is not None
        return self._values.index_select(0, wanted).view(*places.shape, *self._values.shape[1:])

    def _put(self, wanted: Tensor, valid: Tensor, compute: Callable[[], Tensor]) -> None:
        """Holds the values of those of the wanted rows that count and are not there yet."""
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
