"""Accuracy on the server's validation set, to choose settings and versions by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simfl.measures.base import Measure
from simfl.runs.runfolder import LoadedRun


@dataclass(frozen=True)
class ModelSelection(Measure):
    """Accuracy on the server's validation set (`data.validation_share`), by which settings and
    versions are chosen, so that the test set influences no choice.

    An algorithm that aggregates by validation data (FedSAC) has seen them: choose with care.
    """

    needs_validation: ClassVar[bool] = True

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """validation_accuracy and validation_loss of the last evaluated version, the highest
        validation accuracy over versions (best_validation_accuracy), and of the first version that
        has it test_accuracy_at_best and its number version_at_best.

        Means over clients' models if each is served its own. Empty if nothing is learned.
        """
        scores = run.evaluations[run.evaluations["client"].isna()]
        on = {name: scores[scores["on"] == name] for name in ("validation", "test")}
        both = on["validation"].merge(on["test"], on="version", suffixes=("", "_test"))
        if both.empty or both["accuracy"].isna().all():
            return {}
        rows = both.to_dict("records")
        last, best = rows[-1], rows[int(np.nanargmax(both["accuracy"]))]
        return {
            "validation_accuracy": float(last["accuracy"]),
            "validation_loss": float(last["loss"]),
            "best_validation_accuracy": float(best["accuracy"]),
            "test_accuracy_at_best": float(best["accuracy_test"]),
            "version_at_best": float(best["version"]),
        }
