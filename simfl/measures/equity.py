"""Equity: egalitarian and equity-based fairness between clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from simfl.measures.base import Measure
from simfl.measures.inequality import entropy, equity_ratio, gini, jain_index
from simfl.measures.per_client import require_one_each
from simfl.runs.runfolder import LoadedRun


@dataclass(frozen=True)
class Equity(Measure):
    """Equality between clients of their served models' utilities on their own training data, or on
    what `data.client_test_share` keeps of it for testing.

    Core stability compares a client with its possible alternatives; these figures compare clients
    with one another.
    """

    of: Annotated[
        Literal["utility", "accuracy", "loss"],
        "the compared value; utility is `offset` - loss, as in CoreFed",
    ] = "utility"
    offset: Annotated[
        float | tuple[float, ...], "> 0", "M: one for all clients, or a list with one for each"
    ] = 3.0

    def check_clients(self, client_count: int) -> None:
        """Checks that a list of offsets has one entry per client."""
        require_one_each("offset", self.offset, client_count)

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """worst, mean, variance (population), jain_index, gini, entropy and equity_ratio.

        The last four are NaN if a value is negative, such as a regression's R^2 may be; clients
        without a known R^2 are left out. Empty if no client is served: no version was made, or
        nothing is learned.
        """
        if "served_loss" not in run.clients:
            return {}
        values = self._values(run)
        if not values.size:
            return {}
        return {
            "worst": float(values.max() if self.of == "loss" else values.min()),
            "mean": float(values.mean()),
            "variance": float(values.var()),
            "jain_index": jain_index(values),
            "gini": gini(values),
            "entropy": entropy(values),
            "equity_ratio": equity_ratio(values),
        }

    def _values(self, run: LoadedRun) -> np.ndarray:
        if self.of == "accuracy":
            return run.clients["served_accuracy"].dropna().to_numpy(dtype=float)
        losses = run.clients["served_loss"].to_numpy(dtype=float)
        return losses if self.of == "loss" else np.asarray(self.offset) - losses
