"""Possible ranges of the shipped measures' figures, to bound their intervals.

They are listed here, not with the measures, because the measures import the training libraries,
which printing a study's tables does not need. For users' own measures, names decide
(`figures.bounds_of`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum


class Kind(Enum):
    """What kind of value a figure has in each run."""

    SHARE = "in [0, 1]"
    YES_OR_NO = "1 or 0"
    AMOUNT = "at least 0"
    PERCENT = "in [-100, 100]"
    ANY = "any number"

    @property
    def bounds(self) -> tuple[float, float]:
        """The possible range."""
        return _BOUNDS[self]


_BOUNDS = {
    Kind.SHARE: (0.0, 1.0),
    Kind.YES_OR_NO: (0.0, 1.0),
    Kind.AMOUNT: (0.0, math.inf),
    Kind.PERCENT: (-100.0, 100.0),
    Kind.ANY: (-math.inf, math.inf),
}

_OF_A_QUESTION = {
    "stable": Kind.YES_OR_NO,
    "only_all_block": Kind.YES_OR_NO,
    "margin": Kind.ANY,
    "blocking_margin": Kind.ANY,
    "low": Kind.ANY,
    "high": Kind.ANY,
}
QUESTIONS = ("certificate", "proportional", "pareto", "coalitions", "pseudo_core")
"""Of `core_stability`."""

KINDS: Mapping[str, Mapping[str, Kind]] = {
    "accuracy_spread": {
        "accuracy_mean": Kind.SHARE,
        "accuracy_worst": Kind.SHARE,
        "accuracy_std": Kind.AMOUNT,
    },
    "coalition_stability": {
        "mean_js_before": Kind.AMOUNT,
        "mean_js_after": Kind.AMOUNT,
        "switches": Kind.AMOUNT,
        "rising_switches": Kind.AMOUNT,
        "moves_looked_at": Kind.AMOUNT,
        "improving_moves": Kind.AMOUNT,
    },
    "collaborative_fairness": {
        "fairness": Kind.PERCENT,
        "bounded": Kind.YES_OR_NO,
        "bounded_share": Kind.SHARE,
        "reward_max": Kind.SHARE,
        "reward_min": Kind.SHARE,
        "contribution_max": Kind.SHARE,
        "ordered_pairs": Kind.SHARE,
    },
    "core_stability": {
        **dict.fromkeys(
            ("utility_min", "utility_mean", "utility_product", "least_margin_possible"), Kind.ANY
        ),
        **{f"{one}_{what}": kind for one in QUESTIONS for what, kind in _OF_A_QUESTION.items()},
    },
    "edge_participation": {
        "decisions": Kind.AMOUNT,
        "share_min": Kind.SHARE,
        "share_max": Kind.SHARE,
        "surplus_min": Kind.ANY,
    },
    "efficiency": {
        "relative_latency_sum": Kind.AMOUNT,
        "relative_latency_mean": Kind.AMOUNT,
        "utility_mean": Kind.ANY,
        "efficiency_mean": Kind.ANY,
        "efficiency_gap": Kind.ANY,
        "efficiency_gap_bound": Kind.ANY,
    },
    "equilibrium_reached": {
        "reached": Kind.YES_OR_NO,
        "rounds": Kind.AMOUNT,
        "time_s": Kind.AMOUNT,
        "energy_j": Kind.AMOUNT,
        "client_energy_j": Kind.AMOUNT,
        "bytes": Kind.AMOUNT,
        "train_accuracy": Kind.SHARE,
        "test_accuracy": Kind.SHARE,
    },
    "equity": {
        "worst": Kind.ANY,
        "mean": Kind.ANY,
        "variance": Kind.AMOUNT,
        "jain_index": Kind.SHARE,
        "gini": Kind.SHARE,
        "entropy": Kind.SHARE,
        "equity_ratio": Kind.SHARE,
    },
    "estimation_error": {
        "mean_error_s": Kind.ANY,
        "mean_absolute_error_s": Kind.AMOUNT,
        "mean_absolute_relative_error": Kind.AMOUNT,
    },
    "latency_calibration": {
        "predictions": Kind.AMOUNT,
        "inside_interval": Kind.SHARE,
        "relative_error": Kind.AMOUNT,
    },
    "lime_masks": {
        "on_stroke": Kind.SHARE,
        "stroke_share": Kind.SHARE,
    },
    "model_selection": {
        "validation_accuracy": Kind.SHARE,
        "validation_loss": Kind.AMOUNT,
        "best_validation_accuracy": Kind.SHARE,
        "test_accuracy_at_best": Kind.SHARE,
        "version_at_best": Kind.AMOUNT,
    },
    "nash_gap": {
        "nash_gap": Kind.ANY,
        "nash_gap_mean": Kind.ANY,
    },
    "oscillation": {
        "step_std": Kind.AMOUNT,
        "amplitude": Kind.AMOUNT,
        "frequency_per_round": Kind.SHARE,
    },
    "participation": {
        "jain_index": Kind.SHARE,
        "turns_min": Kind.AMOUNT,
        "turns_max": Kind.AMOUNT,
    },
    "perplexity": {
        "final": Kind.AMOUNT,
        "lowest": Kind.AMOUNT,
    },
    "privacy": {
        "epsilon": Kind.AMOUNT,
        "epsilon_sampled": Kind.AMOUNT,
        "delta": Kind.SHARE,
        "releases": Kind.AMOUNT,
    },
    "round_latency": {
        "latency_mean_s": Kind.AMOUNT,
        "latency_cov": Kind.AMOUNT,
        "arrival_gap_cov": Kind.AMOUNT,
    },
    "spurious_reliance": {
        "test_accuracy": Kind.SHARE,
        "flipped_accuracy": Kind.SHARE,
        "reliance": Kind.SHARE,
    },
    "staleness_distribution": {
        "mean": Kind.AMOUNT,
        "highest": Kind.AMOUNT,
        "fresh_share": Kind.SHARE,
    },
    "virtual_queues": {
        "longest": Kind.AMOUNT,
        "last_over_rounds": Kind.AMOUNT,
        "growth_of_owed": Kind.ANY,
        "log_error": Kind.ANY,
    },
    "waiting": {
        "idle_time_share": Kind.SHARE,
        "idle_energy_share": Kind.SHARE,
    },
}
"""Measure -> figure -> its kind."""


def kind_of(metric: str) -> Kind | None:
    """The kind of `measure.figure` of a shipped measure; None for every other figure."""
    measure, _, figure = metric.partition(".")
    return KINDS[measure].get(figure) if measure in KINDS else None
