"""How much a model goes by a feature that labels do not follow from."""

from __future__ import annotations

from dataclasses import dataclass

from simfl.measures.base import Measure
from simfl.runs.runfolder import LoadedRun


@dataclass(frozen=True)
class SpuriousReliance(Measure):
    """Accuracy on the test set, and on the same examples with the spurious feature flipped.

    On data whose feature mostly disagrees with the label at test time, flipping it makes it agree:
    a model that goes by it is much better then, one that does not is as good as before.
    """

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """test_accuracy, flipped_accuracy and their distance `reliance`; 0.8 of a colour detector.

        Of the last evaluated version; nothing where the data set has no such feature.
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
