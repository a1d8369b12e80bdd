"""The time and cost of a game until its equilibrium."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfl.measures.base import Measure
from simfl.runs.runfolder import LoadedRun

REASON = "equilibrium"


@dataclass(frozen=True)
class EquilibriumReached(Measure):
    """Rounds, simulated seconds, joules and bytes to the equilibrium of FL Games.

    The paper (arXiv 2211.00184) counts only rounds; a round of parallel play sends N times as much
    as one of sequential play, and takes about as long.
    """

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """reached (1 yes, 0 cut short), rounds, time_s, energy_j, bytes, and accuracies there.

        client_energy_j is the clients' part of energy_j. If it was not reached, all figures are
        those of the last round: a lower bound. train_accuracy is the ensemble's on its players'
        data, test_accuracy on the test set. Empty for a run without this criterion.
        """
        train = run.evaluations[run.evaluations["on"] == "train"]
        if train.empty:
            return {}
        last, tested = run.rounds.iloc[-1], run.rounds["accuracy"].dropna()
        return {
            "reached": float(str(run.manifest["reason"]).startswith(REASON)),
            "rounds": float(last["version"]),
            "time_s": float(last["time_s"]),
            "energy_j": float(last["energy_j"]),
            "client_energy_j": float(last["client_energy_j"]),
            "bytes": float(last["bytes"]),
            "train_accuracy": float(train["accuracy"].iloc[-1]),
            "test_accuracy": float(tested.iloc[-1]) if len(tested) else float("nan"),
        }


def calibrated_threshold(run: LoadedRun, warm_start: int, margin: float = 0.02) -> float:
    """A threshold for `equilibrium.threshold`, from a run that had none.

    Slightly above the low side of the oscillation (advice of IRM Games, Ahuja et al. 2020): the 5th
    percentile of training accuracy after the warm start, plus `margin`. Raises ValueError if no
    round follows the warm start. Test accuracy is not used.
    """
    train = run.evaluations[run.evaluations["on"] == "train"]
    after = train.loc[train["version"] > warm_start, "accuracy"].to_numpy(dtype=float)
    if not after.size:
        raise ValueError(f"warm_start: found {warm_start}, but the run has no later round")
    return float(np.percentile(after, 5)) + margin
