"""Whether runs are comparable in a figure, or differ in what it includes.

Codecs that only size messages do not change what is learned, and charging somebody else for idle
power saves none. If runs differ in this way, a difference in such a figure means nothing, and
neither does equality: the reason's name replaces the verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from simfl.runs.figure_notes import figure_notes
from simfl.runs.runfolder import HARDWARE, LoadedRun
from simfl.study.evaluation_grid import BETWEEN_S, between_evaluations_s, grid_sentences
from simfl.study.few_test_examples import ROUNDING, TEST_EXAMPLES, differ, step_of
from simfl.study.figures import is_learned, is_yes_or_no, on_test_set
from simfl.study.regression import TASK, regression_sentence
from simfl.study.targets import target_of


def _texts_of_codecs(run: LoadedRun) -> str:
    return ", ".join(run.manifest.get("sized_only", ()))


def _client_idle(run: LoadedRun) -> str:
    rule = run.scenario["population"].get("client_idle", "always")
    return "" if rule == "always" else f"client_idle {rule}"


def _server_idle_share(run: LoadedRun) -> str:
    share = run.scenario["population"].get("server_idle_share", 1.0)
    return "" if share == 1.0 else f"server_idle_share {share:g}"


def _counts_idle(metric: str, whose: str) -> bool:
    """Whether a figure includes joules of `whose` idle power; a measure's joules are assumed to."""
    target = target_of(metric)
    name = metric if target is None else target.spent
    if name in ("energy_j", f"{whose}_energy_j", "carbon_gco2", "electricity_cost"):
        return True
    return "." in metric and (metric.endswith("_j") or "energy" in metric)


def _currency(run: LoadedRun) -> str:
    return run.manifest.get("currency") or ""


def _task(run: LoadedRun) -> str:
    return run.manifest.get(TASK) or ""


def _own_models(run: LoadedRun) -> str:
    return "clients' own models" if run.manifest.get("own_models") else ""


SERVER_PLACE = "server_place"
"""The column of a study's table with where a run's server is: see `unlike_servers`."""

_AT_ACCESS_POINTS, _BEHIND_TIERS = "access points", "behind edge servers"


def _server_place(run: LoadedRun) -> str:
    """Where the server that makes versions is; empty for a run that has not come to its end."""
    if not run.has(HARDWARE):
        return ""
    if "edge_server" in run.hardware:
        return _BEHIND_TIERS
    return "behind the backhaul" if "backhaul" in run.hardware else _AT_ACCESS_POINTS


OF_EVENTS = "measures_of_events"
"""Of the manifest, and a column of a study's table: the user's measures of events alone."""


def _is_of_events(runs: pd.DataFrame, metric: str) -> bool:
    """Whether a figure is of a user's own measure that says so (`Measure.learned`)."""
    told = runs[OF_EVENTS].dropna() if OF_EVENTS in runs else ()
    return any(metric.partition(".")[0] in one.split(", ") for one in told)


@dataclass(frozen=True)
class Caveat:
    """A way in which runs differ that makes some of their figures incomparable.

    `column` of a study's table holds `text` of each run, "" or `usual` where there is nothing to
    say. `name` stands in place of a difference or a verdict, `why` follows it. Besides the figures
    that it `concerns`, it concerns all figures of runs whose reason of ending begins with one of
    `ends` (`reason`, of several runs a line each). `is_unit`: differences within pairs of runs are
    no figures of one kind, either, where the pairs differ so. `by_learning`: it concerns what is
    learned, and so no measure of a user's own that says it is of events alone.
    """

    column: str
    name: str
    why: str
    concerns: Callable[[str], bool]
    text: Callable[[LoadedRun], str]
    ends: tuple[str, ...] = ()
    usual: str = ""
    is_unit: bool = False
    by_learning: bool = False

    def of(self, table: pd.DataFrame) -> pd.Series[str]:
        """The column; empty texts if the table has none (it is not a study's table of runs)."""
        if self.column in table:
            return table[self.column].fillna("").replace(self.usual, "")
        return pd.Series("", index=table.index)

    def touches(self, runs: pd.DataFrame, metric: str) -> bool:
        """Whether it concerns a figure of these runs."""
        if self.concerns(metric) and not (self.by_learning and _is_of_events(runs, metric)):
            return True
        if not self.ends or "reason" not in runs:
            return False
        reasons = runs["reason"].fillna("").astype(str).str.split("\n").explode()
        return bool(reasons.str.startswith(self.ends).any())

    def part(self, pairs: pd.DataFrame) -> bool:
        """Whether runs with these texts, a pair a row, have no difference in what it concerns."""
        within = bool((pairs.nunique(axis=1) > 1).any())
        return within or (self.is_unit and len(set(pairs.to_numpy().ravel())) > 1)


_COSTS = (
    "time_s",
    "energy_j",
    "client_energy_j",
    "client_active_j",
    "server_energy_j",
    "carbon_gco2",
    "electricity_cost",
    "bytes",
    "backhaul_bytes",
)
_STOPPED = "accuracy reached"
"""How the reason begins of a run that stopped at its accuracy."""
_SETTLED = (*_COSTS, "versions", "merged_updates", "client_rounds")
"""What any seed may cost or count alike."""
_BY_WHAT_IS_LEARNED = (_STOPPED, "loss reached", "plateau")
"""How the reasons begin of runs that ended by what they had learned."""

SIZED_ONLY = Caveat(
    column="sized_only",
    name="not modelled",
    why="it only sizes messages, and the figures are those of exact values",
    concerns=is_learned,
    text=_texts_of_codecs,
    ends=_BY_WHAT_IS_LEARNED,
    by_learning=True,
)
OWN_MODELS = Caveat(
    column="own_models",
    name="other models",
    why="their accuracy is the mean over models that are each made for one client's examples, on"
    " the whole test set; worst_client_accuracy and accuracy_spread, with data.client_test_share,"
    " compare what clients are served",
    concerns=on_test_set,
    text=_own_models,
    ends=_BY_WHAT_IS_LEARNED,
)
_CHARGED = "it sets whose idle power is charged, and saves none (client_active_j excludes it)"
CAVEATS: tuple[Caveat, ...] = (
    SIZED_ONLY,
    Caveat(
        column="charged_client_idle",
        name="counted differently",
        why=_CHARGED,
        concerns=lambda metric: _counts_idle(metric, "client"),
        text=_client_idle,
        ends=("energy_j reached",),
    ),
    Caveat(
        column="charged_server_idle",
        name="counted differently",
        why=_CHARGED,
        concerns=lambda metric: _counts_idle(metric, "server"),
        text=_server_idle_share,
        ends=("energy_j reached",),
    ),
    Caveat(
        column="currency",
        name="other currencies",
        why="what one is worth in another is not known here",
        concerns=lambda metric: metric == "electricity_cost",
        text=_currency,
        is_unit=True,
    ),
    OWN_MODELS,
    Caveat(
        column=TASK,
        name="other tasks",
        why="accuracies and losses of different tasks are different figures",
        concerns=is_learned,
        text=_task,
        ends=_BY_WHAT_IS_LEARNED,
        usual="classification",
        is_unit=True,
        by_learning=True,
    ),
)
"""In the order in which they are checked."""


def caveat_columns(run: LoadedRun) -> dict[str, Any]:
    """What a run's row in its study's table says of each, of its test examples and evaluations."""
    texts = {caveat.column: caveat.text(run) for caveat in CAVEATS}
    examples = run.manifest.get(TEST_EXAMPLES, 0)
    about_tests = {TEST_EXAMPLES: examples, BETWEEN_S: between_evaluations_s(run)}
    of_events = ", ".join(run.manifest.get(OF_EVENTS, ()))
    return {**texts, **about_tests, SERVER_PLACE: _server_place(run), OF_EVENTS: of_events}


def caveat(runs: pd.DataFrame, metric: str) -> Caveat | None:
    """What makes a figure of these runs incomparable; None if nothing does."""
    found = (one for one in CAVEATS if one.of(runs).nunique() > 1 and one.touches(runs, metric))
    return next(found, None)


def caveat_of_pair(
    first: Mapping[str, Any], other: Mapping[str, Any], metric: str
) -> Caveat | None:
    """What makes a figure incomparable between two runs, given as rows."""
    return caveat(pd.DataFrame([first, other]), metric)


MOSTLY_IDLE = 0.5
"""From this share of idle power on, clients' joules say little about what training costs."""


def caveat_sentences(runs: pd.DataFrame, metrics: Sequence[str]) -> list[str]:
    """Sentences about figures that are not comparable or not what their names suggest.

    They also say where a figure cannot tell settings apart.
    """
    asked: dict[str, list[str]] = {}
    for metric in metrics:
        found = caveat(runs, metric)
        if found is not None:
            asked.setdefault(found.column, []).append(metric)
    caveats = [
        f"{one.name}: {', '.join(asked[one.column])} under"
        f" {', '.join(sorted({text for text in one.of(runs) if text}))}; {one.why}"
        for one in CAVEATS
        if one.column in asked
    ]
    coarse = [sentence for metric in metrics for sentence in _too_coarse(runs, metric)]
    beside = [*regression_sentence(runs, metrics), *figure_notes(metrics), *lucky(runs, metrics)]
    rounded = grid_sentences(runs, metrics)
    idle, agreeing = _mostly_idle(runs, metrics), _agreeing(runs, metrics)
    return [
        *caveats,
        *beside,
        *unlike_versions(runs, metrics),
        *unlike_servers(runs, metrics),
        *idle,
        *rounded,
        *coarse,
        *agreeing,
    ]


UNLIKE_UPDATES = 0.05
"""From this difference on, relative to the most, versions are not of equally many updates."""

FAR_FROM_EQUAL = 1 / 3
"""The same for what is learned, which depends less on a few late updates."""

_LEARNED_AT_THE_END = ("accuracy", "best_accuracy", "loss", "worst_client_accuracy")


def unlike_versions(runs: pd.DataFrame, metrics: Sequence[str]) -> list[str]:
    """A sentence if figures of equally many versions are compared that are of unlike work.

    Where something is learned, the accuracy shows what the costs of a version are worth, if it is
    among the figures; but a lower one may be that of less training. Each row of a table without
    `point` is a setting.
    """
    if not {"reason", "loss", "merged_updates"} <= set(runs):
        return []
    reasons = runs["reason"].fillna("")
    if reasons.nunique() > 1 or not reasons.str.startswith("versions reached").all():
        return []
    learns = runs["loss"].notna().any()
    costs = [one for one in metrics if one in _COSTS]
    asked = [one for one in metrics if learns and one in _LEARNED_AT_THE_END] or costs
    by_setting = runs.groupby("point" if "point" in runs else runs.index)["merged_updates"]
    updates = by_setting.mean().dropna()
    least, most = updates.min(), updates.max()
    unlike = FAR_FROM_EQUAL if learns else UNLIKE_UPDATES
    if not asked or updates.empty or most - least <= unlike * most:
        return []
    of_unlike = (
        f"{', '.join(asked)}: of equal versions, but of {least:.4g} to {most:.4g} merged updates of"
        " clients by setting (merged_updates)"
    )
    if learns:
        return [
            f"{of_unlike}, so what is worse, or costs less, may be of less training: stop.updates"
            " ends runs after equally many, and costs to a target count all that it took"
        ]
    return [
        f"{of_unlike}, and nothing is learned that would show what a version is worth:"
        " stop.updates ends runs after equally many"
    ]


def unlike_servers(runs: pd.DataFrame, metrics: Sequence[str]) -> list[str]:
    """A sentence if costs are compared of a server at the access points and one behind edge
    servers.
    """
    costs = [one for one in metrics if one in _COSTS or target_of(one) is not None]
    if not costs or SERVER_PLACE not in runs:
        return []
    if not {_AT_ACCESS_POINTS, _BEHIND_TIERS} <= set(runs[SERVER_PLACE]):
        return []
    return [
        f"{', '.join(costs)}: without edge servers the server is at the access points"
        " (population.server_behind: access_point, the default), with them in a cloud behind the"
        " backhaul, whose seconds, joules and bytes only these runs pay; server_behind: backhaul"
        " puts it there in both"
    ]


def lucky(runs: pd.DataFrame, metrics: Sequence[str]) -> list[str]:
    """A sentence if accuracies are of runs that stopped as soon as they reached one."""
    lucky = [one for one in ("accuracy", "best_accuracy") if one in metrics]
    if not lucky or "reason" not in runs:
        return []
    stopped = runs["reason"].fillna("").str.startswith(_STOPPED)
    if not stopped.any():
        return []
    return [
        f"{', '.join(lucky)}: {stopped.sum()} of {len(runs)} runs stopped as soon as it was"
        " reached, so it is partly luck, and on other examples more likely lower"
    ]


def _mostly_idle(runs: pd.DataFrame, metrics: Sequence[str]) -> list[str]:
    """A sentence if at least half of the clients' joules are idle power in every setting."""
    joules, active = "client_energy_j", "client_active_j"
    asked = [one for one in metrics if one == joules or one.startswith("client_energy_to_")]
    if not asked or not {joules, active, "point"} <= set(runs):
        return []
    sums = runs.groupby("point")[[joules, active]].sum()
    idle = 1.0 - (sums[active] / sums[joules].where(sums[joules] > 0)).dropna()
    if idle.empty or idle.min() < MOSTLY_IDLE:
        return []
    least, most = (f"{100 * share:.0f}" for share in (idle.min(), idle.max()))
    share = least if least == most else f"{least} to {most}"
    return [
        f"{', '.join(asked)}: {share} % of the clients' joules are idle power, which goes with time"
        f" (population.client_idle says whose counts); {active} has the others"
    ]


def _too_coarse(runs: pd.DataFrame, metric: str) -> list[str]:
    """A sentence if an accuracy of several settings differs by less than one test example."""
    step = step_of(runs, metric)
    if not step:
        return []
    means = np.sort(runs.groupby("point")[metric].mean().dropna().to_numpy(dtype=float))
    if means.size < 2 or np.diff(means).min() >= step:
        return []
    return [
        f"{metric} is a share of {round(1.0 / step)} test examples, in steps of {step:.2g}: it"
        " cannot distinguish settings that differ by less (the loss can)"
    ]


def least_step(runs: pd.DataFrame, metric: str, study: pd.DataFrame | None = None) -> float:
    """How much a figure changes at least, if it moves in steps (`few_test_examples.py`).

    For an accuracy that is one test example (`step_of`). Other figures move in steps too: the
    version that met a target, the highest staleness, bytes where the number of messages varies. For
    a figure that depends on what is learned, it is the smallest difference between two of these
    `runs`, and 0 if all of them have the same value or the same loss. For any other one that moves
    in steps (`_moves_in_steps`), it is the smallest difference between seeds of one setting in the
    whole `study` (by default these runs), and 0 if no seed changes it.
    """
    step = step_of(runs, metric)
    if step or metric not in runs:
        return step
    if SIZED_ONLY.touches(runs, metric):
        known = "loss" in runs and differ(runs["loss"].to_numpy(dtype=float)[None])
        return _smallest_gap([runs[metric]]) if known else 0.0
    every = runs if study is None else study
    if "point" not in every:
        return 0.0
    seeds = [own.dropna() for _, own in every.groupby("point")[metric]]
    return _smallest_gap(seeds) if _moves_in_steps(metric, seeds) else 0.0


def _moves_in_steps(metric: str, seeds: Sequence[pd.Series[float]]) -> bool:
    """Whether a figure agrees for some seeds of a setting and differs for others.

    In any setting; seconds and joules in the same one, as without noise all seeds take as long. For
    other figures, differences that are the same in all pairs are exact.
    """
    agree = [own.nunique() < len(own) for own in seeds]
    vary = [own.nunique() > 1 for own in seeds]
    if metric.endswith(("_s", "_j")):
        return any(one and other for one, other in zip(agree, vary, strict=True))
    return any(agree) and any(vary)


def _smallest_gap(groups: Iterable[pd.Series[float]]) -> float:
    """The smallest difference within any group of values, beyond rounding; 0 if there is none."""
    smallest = []
    for group in groups:
        values = np.unique(group.dropna().to_numpy(dtype=float))
        values = values[np.isfinite(values)]
        gaps = np.diff(values)
        smallest += gaps[gaps > ROUNDING * np.abs(values).max(initial=0.0)].tolist()
    return float(min(smallest, default=0.0))


def _agreeing(runs: pd.DataFrame, metrics: Sequence[str]) -> list[str]:
    """A sentence about figures that agree for seeds whose runs are not alike.

    Those that move in steps are not among them: they get the interval of `few_test_examples.py`.
    Costs are not, either: a protocol may send as many bytes with any seed.
    """
    found, fewest = [], []
    for metric in metrics:
        if metric not in runs or "point" not in runs or least_step(runs, metric):
            continue
        learned = SIZED_ONLY.touches(runs, metric)
        beside = "loss" if learned else "time_s"
        if beside not in runs or (metric in _SETTLED and not learned):
            continue
        known = runs[runs[metric].notna() & runs[beside].notna()]
        if is_yes_or_no(metric, known[metric].to_numpy(dtype=float)):
            continue
        counts = [
            len(own)
            for _, own in known.groupby("point")
            if len(own) > 1
            and own[metric].nunique() == 1
            and differ(own[beside].to_numpy(dtype=float)[None])
        ]
        if counts:
            found.append(metric)
            fewest.append(min(counts))
    if not found:
        return []
    seeds = min(fewest)
    return [
        f"{', '.join(found)}: ±0 means that these seeds agree, not that others would: if"
        f" {seeds} seeds agree, up to {100.0 * (1.0 - 0.05 ** (1.0 / seeds)):.0f} % of all may"
        " differ (95 %)"
    ]
