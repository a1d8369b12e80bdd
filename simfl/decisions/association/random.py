"""Clients are assigned to edge servers at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from simfl.common.arrays import IntArray
from simfl.decisions.base import Association
from simfl.decisions.views import AssociationView


@dataclass(frozen=True)
class Random(Association):
    """Deals a random permutation of the clients out in turn: sizes differ by at most one."""

    looks_at_places: ClassVar[bool] = False

    def decide(
        self, view: AssociationView, rng: np.random.Generator
    ) -> tuple[IntArray, dict[str, Any]]:
        """No edge server stays empty if there are enough clients."""
        edges = view.edge_position_m.shape[0]
        return rng.permutation(np.arange(view.clients.size) % edges), {}
