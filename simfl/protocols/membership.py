"""The clients of a run: their data sizes and edge servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from simfl.common.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Membership:
    """Training examples and edge server of each client; `association` names the rule.

    Edge servers are numbered 0 to `num_edges` - 1; some may have no clients.
    """

    num_examples: IntArray
    edge: IntArray
    num_edges: int
    association: Mapping[str, Any]

    @cached_property
    def all_clients(self) -> IntArray:
        """The numbers of all clients."""
        return np.arange(self.edge.size)

    @cached_property
    def edges(self) -> Sequence[int]:
        """Edge servers that have clients, ascending."""
        return [int(index) for index in np.unique(self.edge)]

    @cached_property
    def _members(self) -> Mapping[int, IntArray]:
        return {index: np.flatnonzero(self.edge == index) for index in self.edges}

    def of(self, edge: int) -> IntArray:
        """The clients of an edge server."""
        return self._members[edge]

    @property
    def edge_examples(self) -> FloatArray:
        """Training examples behind each edge server, including those without clients."""
        return np.bincount(self.edge, self.num_examples, minlength=self.num_edges).astype(float)
