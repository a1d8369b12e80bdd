"""Clients stay with the edge server that the population assigned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from simfl.common.arrays import IntArray
from simfl.decisions.base import Association
from simfl.decisions.views import AssociationView


@dataclass(frozen=True)
class Initial(Association):
    """The home edge of each client: contiguous blocks of equal size."""

    looks_at_places: ClassVar[bool] = False

    def decide(
        self, view: AssociationView, rng: np.random.Generator
    ) -> tuple[IntArray, dict[str, Any]]:
        """`view.home_edge`."""
        return view.home_edge, {}
