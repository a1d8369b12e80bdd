"""What agents get of the models that runs end with: utilities, sums of ratios, blocking tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pandas as pd

from paper.experiments import Trial
from paper.tables import COLUMNS
from simfl.assembly.simulation import Options
from simfl.measures.core.blocking import against, blocking, least_margin_possible, ratio_sum
from simfl.measures.core.bootstrap import Bootstrap
from simfl.measures.inequality import gini, jain_index
from simfl.runs.execution import federation_of
from simfl.streams import Streams

DRAWS = 200
"""Bootstrap draws of the agents' examples behind an interval."""


@dataclass(frozen=True, eq=False)
class Served:
    """A run and what its agents lose under its final model.

    `train`: per agent the loss of each of its training examples; `test`: of those of its share of
    the test set, with its own noise on them (nats).
    """

    trial: Trial
    train: Sequence[np.ndarray]
    test: Sequence[np.ndarray]

    def utilities(self, offset: float, *, on_test: bool = False) -> np.ndarray:
        """u_i = M - L_i, shape (agents,); NaN for an agent without examples."""
        losses = self.test if on_test else self.train
        return offset - np.array([one.mean() if one.size else np.nan for one in losses])


def serve(trials: Iterable[Trial], options: Options) -> list[Served]:
    """The losses of every run that did not diverge, on its data dealt out again."""
    found = []
    for trial in trials:
        if trial.run.manifest["status"] == "diverged":
            continue
        federation = federation_of(trial.run.path, options)
        model, tests = federation.losses(), federation.losses(of_tests=True)
        found.append(Served(trial, model.per_example(model.theta), tests.per_example(model.theta)))
    return found


def by_seed(served: Iterable[Served]) -> Iterator[tuple[str, int, dict[str, Served]]]:
    """Data set, seed, and the runs of that seed by name."""

    def key(one: Served) -> tuple[str, int]:
        return one.trial.data, one.trial.seed

    for (data, seed), runs in groupby(sorted(served, key=key), key):
        yield data, seed, {one.trial.name: one for one in runs}


def pair_margin(own: np.ndarray, other: np.ndarray) -> float:
    """The exact test of one other model, of both models' utilities: 1 - max_S (|S|/n) min_S ratio.

    Negative: some coalition gains by the other model. NaN where a utility is not positive.
    """
    return blocking(own, other).margin if (own > 0).all() else np.nan


def fairness(
    served: Iterable[Served],
    offsets: Mapping[str, float],
    baseline: str = "fedavg",
    method: str = "corefed",
) -> pd.DataFrame:
    """Utilities, how they compare with the baseline's, and whether another run's model blocks.

    `offsets` are M by data set. Per run: agent_0, agent_1, ..., mean, product, worst, variance,
    jain_index, gini; test_mean and test_worst on the agents' test shares; ratio =
    sum_i u_i(baseline) / u_i with its 90 % bootstrap interval ratio_low to ratio_high;
    worst_off_gain of the agent that is worst off under the baseline; blocking_margin of the exact
    test of all other runs of the seed, blocking_margin_fedavg of the baseline's model alone (for
    the baseline, of that of `method`), and least_margin_possible. Where a utility is not positive,
    ratios and margins are NaN.
    """
    rows = []
    for data, seed, runs in by_seed(served):
        offset = offsets[data]
        utilities = {name: one.utilities(offset) for name, one in runs.items()}
        for name, own in utilities.items():
            figures = _utilities(own) | _on_tests(runs[name].utilities(offset, on_test=True))
            others = {other: u for other, u in utilities.items() if other != name}
            positive = bool((own > 0).all())
            if others:
                margin = against(own, others).margin if positive else np.nan
                figures["blocking_margin"] = margin
            opposite = method if name == baseline else baseline
            if opposite in others:
                figures["blocking_margin_fedavg"] = pair_margin(own, utilities[opposite])
            least = least_margin_possible(own, offset) if positive else np.nan
            figures["least_margin_possible"] = least
            if baseline in others:
                base = utilities[baseline]
                figures["worst_off_gain"] = own[base.argmin()] - base.min()
                figures |= _ratio(runs[name], runs[baseline], offset, positive)
            rows += [(data, name, seed, figure, float(value)) for figure, value in figures.items()]
    return pd.DataFrame(rows, columns=COLUMNS)


def _utilities(own: np.ndarray) -> dict[str, float]:
    return {f"agent_{agent}": value for agent, value in enumerate(own)} | {
        "mean": own.mean(),
        "product": own.prod(),
        "worst": own.min(),
        "variance": own.var(),
        "jain_index": jain_index(own),
        "gini": gini(own),
    }


def _on_tests(own: np.ndarray) -> dict[str, float]:
    return {"test_mean": float(np.nanmean(own)), "test_worst": float(np.nanmin(own))}


def _ratio(own: Served, base: Served, offset: float, positive: bool) -> dict[str, float]:
    if not positive:
        return dict.fromkeys(("ratio", "ratio_low", "ratio_high"), np.nan)
    rng = Streams(own.trial.seed).generator("bootstrap")
    offsets = np.full(len(own.train), offset)
    low, high = Bootstrap(rng, DRAWS).of_losses([own.train, base.train], offsets, ratio_sum)
    ratio = ratio_sum(own.utilities(offset), base.utilities(offset))
    return {"ratio": ratio, "ratio_low": low, "ratio_high": high}
