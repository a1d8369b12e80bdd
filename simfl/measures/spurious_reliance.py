"""How much a model relies on a spurious feature."""

from __future__ import annotations

from dataclasses import dataclass

from simfl.measures.base import Measure
from simfl.runs.runfolder import LoadedRun


@dataclass(frozen=True)
class SpuriousReliance(Measure):
    """Accuracy on the test set, and on the same examples with the spurious feature flipped.

    If the feature mostly disagrees with the label at test time, flipping makes it agree: a model
    that relies on it becomes much better, one that does not stays the same.
    """

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """test_accuracy, flipped_accuracy and their distance `reliance`; 0.8 for a colour detector.

        For the last evaluated version; empty if the data set has no such feature.
        """
        scores = run.evaluations[run.evaluations["client"].isna()]
        flipped = scores[scores["on"] == "flipped"]
        if flipped.empty:
            return {}
        last = flipped.iloc[-1]
        same = (scores["on"] == "test") & (scores["version"] == last["version"])
        test = float(scores.loc[same, "accuracy"].iloc[0])
        return {
            "test_accuracy": test,
            "flipped_accuracy": float(last["accuracy"]),
            "reliance": abs(float(last["accuracy"]) - test),
        }
