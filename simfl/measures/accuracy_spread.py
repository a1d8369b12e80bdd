"""How differently well clients are served."""

from __future__ import annotations

from dataclasses import dataclass

from simfl.measures.base import Measure
from simfl.runs.runfolder import LoadedRun


@dataclass(frozen=True)
class AccuracySpread(Measure):
    """The accuracy of what each client is served, on its own data, at the end of the run."""

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """accuracy_mean, accuracy_worst and accuracy_std (population) over clients.

        Of a regression, whose accuracy is R^2, over those whose R^2 is a number. Nothing where
        nobody is served: no version was made, or nothing is learned.
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
