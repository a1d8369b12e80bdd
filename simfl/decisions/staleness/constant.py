"""A late model counts as much as a fresh one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from simfl.common.arrays import IntArray
from simfl.decisions.base import Staleness


@dataclass(frozen=True)
class Constant(Staleness):
    """`value` for any staleness."""

    value: Annotated[float, "> 0", "<= 1", "mixing share"] = 1.0

    def share(self, staleness: IntArray | int) -> Any:
        """`value`, in the shape of `staleness`."""
        return self.value + 0.0 * np.asarray(staleness)
