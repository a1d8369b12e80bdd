"""How equally well clients are served: what egalitarian and equity-based fairness look at."""

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
    """Comparisons between clients of what each is served at the end, on its own training data.

    Core stability compares a client with what it could have; these compare clients with one
    another.
    """

    of: Annotated[
        Literal["utility", "accuracy", "loss"], "utility is `offset` - loss, as CoreFed's"
    ] = "utility"
    offset: Annotated[float | tuple[float, ...], "> 0", "M: one for all clients, or each"] = 3.0

    def check_clients(self, client_count: int) -> None:
        """A list of offsets has one for each client."""
        require_one_each("offset", self.offset, client_count)

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """worst, mean, variance (population), jain_index, gini, entropy and equity_ratio.

        The last four are NaN where a value is negative, as accuracies of a regression (R^2) may be;
        clients whose R^2 is no number are left out. Nothing where nobody is served: no version was
        made, or nothing is learned.
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
