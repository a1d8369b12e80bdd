"""The spread of accuracies over clients."""

from __future__ import annotations

from dataclasses import dataclass

from simfl.measures.base import Measure
from simfl.runs.runfolder import LoadedRun


@dataclass(frozen=True)
class AccuracySpread(Measure):
    """The accuracy of each client's served model on its own training examples, or on those that
    `data.client_test_share` keeps for testing, at the end of the run.
    """

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """accuracy_mean, accuracy_worst and accuracy_std (population) over clients.

        For a regression (accuracy is R^2), over clients with a known R^2. Empty if no client is
        served: no version was made, or nothing is learned.
        """
        if "served_accuracy" not in run.clients:
            return {}
        accuracy = run.clients["served_accuracy"].dropna()
        if accuracy.empty:
            return {}
        return {
            "accuracy_mean": float(accuracy.mean()),
            "accuracy_worst": float(accuracy.min()),
            "accuracy_std": float(accuracy.std(ddof=0)),
        }
