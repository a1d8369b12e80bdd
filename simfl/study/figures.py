"""The figures that a study compares, with units and possible values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from simfl.assembly import registry
from simfl.common.arrays import FloatArray
from simfl.study.kinds import Kind, kind_of
from simfl.study.targets import target_of

Bounds = tuple[float, float]

SHARE: Bounds = (0.0, 1.0)
AMOUNT: Bounds = (0.0, math.inf)
CORRELATION_PERCENT: Bounds = (-100.0, 100.0)
ANYTHING: Bounds = (-math.inf, math.inf)


@dataclass(frozen=True)
class Figure:
    """What a column holds, its unit, and its possible range.

    `learned`: it says how good a model is.
    """

    what: str
    unit: str
    bounds: Bounds
    learned: bool = False


FIGURES = {
    "accuracy": Figure("last test accuracy", "share", SHARE, learned=True),
    "best_accuracy": Figure("highest test accuracy", "share", SHARE, learned=True),
    "loss": Figure("last test loss", "1", AMOUNT, learned=True),
    "versions": Figure("global versions", "count", AMOUNT),
    "time_s": Figure("simulated seconds", "s", AMOUNT),
    "energy_j": Figure("joules of all machines", "J", AMOUNT),
    "client_energy_j": Figure("joules of clients", "J", AMOUNT),
    "client_active_j": Figure("joules of clients beyond idle power", "J", AMOUNT),
    "server_energy_j": Figure("joules of edge servers and the cloud", "J", AMOUNT),
    "carbon_gco2": Figure("grams of CO2 equivalent of all machines' electricity", "g", AMOUNT),
    "electricity_cost": Figure("price of all machines' electricity", "money", ANYTHING),
    "battery_level": Figure("mean level of the clients' batteries at the end", "share", SHARE),
    "lowest_battery_level": Figure("lowest of these levels", "share", SHARE),
    "emptied_clients": Figure("clients whose batteries ran empty", "count", AMOUNT),
    "bytes": Figure("bytes that arrived, over all links", "B", AMOUNT),
    "backhaul_bytes": Figure("bytes of these over the backhaul", "B", AMOUNT),
    "latency_cv": Figure("coefficient of variation of the time between versions", "1", AMOUNT),
    "staleness": Figure("mean staleness of all merged updates, versions", "versions", AMOUNT),
    "jain_participation": Figure(
        "Jain's index of updates per client, without dropped ones", "1", SHARE
    ),
    "merged_updates": Figure("clients' updates that servers merged", "count", AMOUNT),
    "client_rounds": Figure("client rounds that ended", "count", AMOUNT),
    "wasted_rounds": Figure("client rounds that brought no merged update", "count", AMOUNT),
    "wasted_active_j": Figure(
        "joules of these beyond idle power, with radios' tails after the rounds", "J", AMOUNT
    ),
    "worst_client_accuracy": Figure(
        "lowest accuracy of what a client is served, on its own training examples (or those of"
        " data.client_test_share)",
        "share",
        SHARE,
        learned=True,
    ),
    "wall_s": Figure("seconds that computing the run took", "s", AMOUNT),
    "jobs_trained": Figure("local trainings that were computed", "count", AMOUNT),
    "jobs_reused": Figure(
        "local trainings that were looked up: another run had computed them", "count", AMOUNT
    ),
    "warnings": Figure("how many kinds of warnings the run has", "count", AMOUNT),
}
"""The figures in every row of a study's table."""

BESIDE_VALIDATION = {
    "model_selection.validation_accuracy": "accuracy",
    "model_selection.validation_loss": "loss",
    "model_selection.best_validation_accuracy": "model_selection.test_accuracy_at_best",
}
"""Figure of the validation set -> that of the same versions on the test set."""

UNIT_ENDINGS = {"_s": "s", "_j": "J", "_b": "B"}
"""Endings of names that include the unit."""

SHARE_ENDINGS = (
    "share",
    "share_min",
    "share_max",
    "accuracy",
    "accuracy_mean",
    "accuracy_worst",
    "jain_index",
    "gini",
    "reward_max",
    "reward_min",
    "contribution_max",
    "ordered_pairs",
    "inside_interval",
    "on_stroke",
)
"""Endings of names of figures in [0, 1] that no shipped measure (`kinds.py`) defines."""

YES_OR_NO_ENDINGS = ("reached", "bounded", "stable", "blocked", "only_all_block", "first")
"""Endings of names of figures that are 1 or 0 for each run."""

AMOUNT_ENDINGS = ("_s", "_j", "bytes")
"""Endings of names of figures that are at least 0; an `error` is excepted, since it has a sign."""


def is_learned(metric: str) -> bool:
    """Whether a figure depends on what is learned; a user's own measure is assumed to."""
    if metric in FIGURES:
        return FIGURES[metric].learned
    measure, dot, _ = metric.partition(".")
    if dot and target_of(metric) is None:
        shipped: Any = registry.shipped("measures", measure)
        return shipped is None or bool(shipped.learned)
    return "accuracy" in metric or "loss" in metric


def on_test_set(metric: str) -> bool:
    """Whether a figure says directly how a model does on the test set, or when it does so well."""
    return metric in ("accuracy", "best_accuracy", "loss") or target_of(metric) is not None


def bounds_of(metric: str) -> Bounds:
    """A figure's possible range, infinite if nothing is known."""
    if metric in FIGURES:
        return FIGURES[metric].bounds
    if target_of(metric) is not None:
        return AMOUNT
    kind = kind_of(metric)
    if kind is not None:
        return kind.bounds
    if metric.endswith((*SHARE_ENDINGS, *YES_OR_NO_ENDINGS)):
        return SHARE
    if metric.endswith("fairness"):
        return CORRELATION_PERCENT
    return AMOUNT if metric.endswith(AMOUNT_ENDINGS) and "error" not in metric else ANYTHING


def is_yes_or_no(metric: str, values: FloatArray) -> bool:
    """Whether a figure is 1 (yes) or 0 (no) for each run."""
    kind = kind_of(metric)
    says_so = metric.endswith(YES_OR_NO_ENDINGS) if kind is None else kind is Kind.YES_OR_NO
    return says_so and bool(np.isin(values, (0.0, 1.0)).all())


def cut(interval: Bounds, bounds: Bounds, values: FloatArray) -> Bounds:
    """An interval for the mean of `values` without what the mean cannot be, beyond its `bounds`.

    Cutting at a bound takes no possible value away, so the interval holds the mean as often as
    before. A bound that some value lies beyond is none.
    """
    low, high = bounds
    if values.size and values.min() >= low:
        interval = (max(interval[0], low), interval[1])
    if values.size and values.max() <= high:
        interval = (interval[0], min(interval[1], high))
    return interval


def with_unit(metric: str) -> str:
    """A figure's name with its unit, as an axis label."""
    if metric in FIGURES:
        unit = FIGURES[metric].unit
        name = metric.removesuffix("_s").removesuffix("_j")
        return f"{name.replace('_', ' ')} ({unit})"
    for ending, unit in UNIT_ENDINGS.items():
        if metric.endswith(ending):
            return f"{metric.removesuffix(ending).replace('_', ' ')} ({unit})"
    unit = "share" if metric.endswith("accuracy") else "1"
    return f"{metric.replace('_', ' ')} ({unit})"
