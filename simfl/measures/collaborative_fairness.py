"""Collaborative fairness: whether rewards match contributions (FedSAC, arXiv 2405.18291).

    c        contributions: test accuracy of the model a client trains alone   `contribution`
    theta*   rewards: test accuracy of what a client gets in the end           `reward_accuracy`
    gamma    100 Pearson(c, theta*)                                            `fairness`

Definition 1 (bounded collaborative fairness) reads c_i < theta*_i < (c_i + max theta*) / 2. As
printed, the best-rewarded client cannot satisfy it, so the upper bound is not applied to it; if
several have the best reward, it is not applied to the best contributor among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray
from simfl.measures.base import Measure
from simfl.runs.runfolder import LoadedRun


@dataclass(frozen=True)
class CollaborativeFairness(Measure):
    """How well rewards match contributions, both as accuracies on the test set.

    Algorithms that serve all clients the same model are scored after one more local epoch of each
    client.
    """

    needs_contributions: ClassVar[bool] = True

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """Pearson correlation, bounded fairness, accuracies, and Theorem 1's order of losses.

        fairness: 100 Pearson(contribution, reward), NaN if either is the same for all; bounded: 1
        if the rewards of all clients are within their bounds; bounded_share: the share of such
        clients; reward_max, reward_min, contribution_max: accuracies; ordered_pairs: the share of
        pairs c_i >= c_j with loss_i <= loss_j.
        """
        if "contribution" not in run.clients:
            return {}
        contribution = run.clients["contribution"].to_numpy(dtype=float)
        reward = run.clients["reward_accuracy"].to_numpy(dtype=float)
        loss = run.clients["reward_loss"].to_numpy(dtype=float)
        bounded = within_bounds(contribution, reward)
        return {
            "fairness": pearson_percent(contribution, reward),
            "bounded": float(bounded.all()),
            "bounded_share": float(bounded.mean()),
            "reward_max": float(reward.max()),
            "reward_min": float(reward.min()),
            "contribution_max": float(contribution.max()),
            "ordered_pairs": ordered_pairs(contribution, loss),
        }


def pearson_percent(contribution: FloatArray, reward: FloatArray) -> float:
    """100 times Pearson's correlation; NaN if one of the two does not vary."""
    if len(contribution) < 2 or np.ptp(contribution) == 0 or np.ptp(reward) == 0:
        return float("nan")
    return 100.0 * float(np.corrcoef(contribution, reward)[0, 1])


def within_bounds(contribution: FloatArray, reward: FloatArray) -> BoolArray:
    """Whether each client's reward is above its contribution and below the upper bound."""
    best = reward == reward.max()
    exempt = best & (contribution == contribution[best].max())
    below = reward < (contribution + reward.max()) / 2
    bounded: BoolArray = (reward > contribution) & (below | exempt)
    return bounded


def ordered_pairs(contribution: FloatArray, loss: FloatArray) -> float:
    """The share of pairs c_i >= c_j, i not j, whose losses are ordered the other way round."""
    pairs = contribution[:, None] >= contribution[None, :]
    np.fill_diagonal(pairs, False)
    if not pairs.any():
        return float("nan")
    return float((loss[:, None] <= loss[None, :])[pairs].mean())
