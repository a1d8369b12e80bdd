"""Each client joins the edge server closest to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simfl.common.arrays import IntArray
from simfl.decisions.base import Association
from simfl.decisions.views import AssociationView


@dataclass(frozen=True)
class Nearest(Association):
    """The nearest edge server (Euclidean), ties to the lowest number; some may stay empty."""

    def decide(
        self, view: AssociationView, rng: np.random.Generator
    ) -> tuple[IntArray, dict[str, Any]]:
        """The argmin over edge servers of the distance in metres."""
        offsets = view.position_m[:, None, :] - view.edge_position_m[None, :, :]
        nearest: IntArray = (offsets**2).sum(axis=-1).argmin(axis=1)
        return nearest, {}
