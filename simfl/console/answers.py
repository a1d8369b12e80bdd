"""A study's answers to its questions, as tables in the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import pandas as pd

from simfl.console.search import print_search
from simfl.console.tables import FigureTable
from simfl.console.terminal import Terminal
from simfl.console.warned import print_kinds
from simfl.study import multiple_comparisons
from simfl.study.best import best_settings, in_one_sentence, kept_of
from simfl.study.comparable import caveat_sentences
from simfl.study.comparisons import paired_differences
from simfl.study.effects import (
    as_share,
    explainable,
    first_order_indices,
    left_to_chance,
    main_effects,
    not_explained,
)
from simfl.study.figure_text import (
    Row,
    difference_in_cell,
    effect_in_cell,
    in_cell,
    in_digits,
    race,
    reached,
    reached_columns,
    relative_in_cell,
    with_interval,
)
from simfl.study.hardware import (
    HOLDS,
    PROBABILITIES,
    hardware_best,
    hardware_differences,
    hardware_intervals,
    hardware_sentences,
    in_interval,
    in_probability,
    in_share,
)
from simfl.study.levels import as_text, level, short_among, short_names
from simfl.study.loaded import LoadedStudy
from simfl.study.means import levels_told_apart, point_means, told_apart
from simfl.study.multiple_comparisons import Compared
from simfl.study.pareto import study_front, unranked
from simfl.study.polynomial_chaos import SMOOTHED
from simfl.study.sensitivity import of_few_rows, sobol_indices
from simfl.study.studyfile import Best, Study
from simfl.study.targets import is_known
from simfl.study.warned import warning_kinds

MOST_ROWS = 40
"""Settings in a printed table; the Parquet file has all."""


Shown = FigureTable | str
"""A table, or a sentence about the one above it."""


def print_answers(study: Study, loaded: LoadedStudy) -> None:
    """The study's questions with the answers of its completed runs."""
    console = Terminal()
    runs = loaded.table
    if loaded.completed.empty:
        diverged = f": {len(runs)} diverged ({runs['reason'].iloc[0]})" if len(runs) else " yet"
        console.print(f"no run has completed{diverged}")
        return
    sought = loaded.search.figures if loaded.search is not None else ()
    searched = loaded.search is not None and set(sought) <= set(runs)
    if loaded.search is not None and searched:
        print_search(console, loaded, loaded.search)
    for shown in chain(
        () if searched else _overview(study, loaded),
        caveat_sentences(runs, sought or loaded.metrics),
        _compared(study, loaded),
        _pareto(study, loaded),
        _best(study, loaded),
        _explained(loaded),
        _absent(loaded),
    ):
        console.print(shown, crop=isinstance(shown, str))
    print_kinds(console, warning_kinds(runs))


def _sure(runs: pd.DataFrame) -> str:
    """What the means of a title have, in words."""
    return "and 95 % intervals" if runs["seed"].nunique() > 1 else "of one seed, no intervals"


def _overview(study: Study, loaded: LoadedStudy) -> Iterator[Shown]:
    """The settings' means."""
    runs, factors, metrics, draws = loaded.table, loaded.factors, loaded.metrics, loaded.draws
    means = point_means(runs, factors, metrics)
    title = f"{study.name}: means {_sure(runs)}"
    over = {one: hardware_intervals(runs, loaded.drawn, one) for one in metrics if draws}
    if draws:
        title += f" over seeds; 90 % intervals over machines and seeds, {draws} drawn machines"
    if factors:
        yield _means(means, factors, metrics, title, over)
    else:
        yield _of_one_setting(study.name, means.iloc[0].to_dict(), metrics, over, draws)
    yield from hardware_sentences(loaded)


def _compared(study: Study, loaded: LoadedStudy) -> Iterator[Shown]:
    """Levels of factors against their baselines."""
    runs, metrics, factors, drawn = loaded.table, loaded.metrics, loaded.factors, loaded.drawn
    asked_for = [
        found
        for one in study.questions.compare
        for found in _comparisons(runs, metrics, one.factor, one.baseline, factors, drawn)
    ]
    judged = [one for one, _ in asked_for]
    shown = multiple_comparisons.in_tables(judged)
    for (_, table_with), verdicts in zip(asked_for, shown, strict=True):
        yield table_with(verdicts)
    yield from multiple_comparisons.of_verdicts(judged)


def _pareto(study: Study, loaded: LoadedStudy) -> Iterator[Shown]:
    """The front of settings that no other one beats in all figures."""
    asked, runs, factors = study.questions.pareto, loaded.table, loaded.factors
    if not asked or not all(is_known(runs, name) for name in asked):
        return
    front = study_front(runs, factors, asked)
    compared = point_means(runs, factors, list(asked))
    ways = ", ".join(f"{name} {way}" for name, way in asked.items())
    yield _means(front, factors, list(asked), f"Pareto front ({ways})")
    yield from unranked(compared, factors, asked)
    yield from multiple_comparisons.of_front(len(compared))


def _best(study: Study, loaded: LoadedStudy) -> Iterator[Shown]:
    """The best settings within the bounds."""
    asked, runs, factors = study.questions.best, loaded.table, loaded.factors
    if asked is None or not all(is_known(runs, one) for one in (asked.figure, *asked.subject_to)):
        return
    found = best_settings(runs, factors, asked)
    if loaded.draws:
        found = found.merge(hardware_best(loaded.drawn, asked), on="point", how="left")
    yield _best_first(found, factors, asked)
    yield in_one_sentence(found, factors, asked)
    yield from multiple_comparisons.of_best(int(found["ranked"].sum()), asked.figure)


def _explained(loaded: LoadedStudy) -> Iterator[Shown]:
    """What each factor changes, and how much of the figures' variance it explains.

    A search chooses trials by earlier results, so they are not a sample of the settings.
    """
    runs, metrics, sampled = loaded.table, loaded.metrics, loaded.sampled
    factors = loaded.factors if loaded.search is None else []
    levelled = [name for name in factors if name not in sampled]
    computed = [name for name in metrics if explainable(runs, name)]
    if len(levelled) > 1 and computed:
        yield _effects(runs, computed, levelled, sampled, f"main effects {_sure(runs)}")
    numeric = any(pd.api.types.is_numeric_dtype(runs[name]) for name in factors)
    if loaded.sample and loaded.sample.method == "saltelli":
        yield from _sobol_indices(runs, computed, factors)
    elif numeric and computed:
        yield from _first_order_indices(runs, computed, factors, sampled)
    if numeric or len(levelled) > 1:
        yield from not_explained(runs, metrics)


def _absent(loaded: LoadedStudy) -> Iterator[Shown]:
    """Figures that the questions are about, and that no run has."""
    if loaded.absent:
        yield f"no run has the figure {', '.join(loaded.absent)}"


def _means(
    means: pd.DataFrame,
    factors: list[str],
    metrics: list[str],
    title: str,
    over: Mapping[str, pd.DataFrame] | None = None,
) -> FigureTable:
    """Settings with their means; intervals `over` machines too stand beside those over seeds."""
    rest = len(means) - MOST_ROWS
    title = f"{title}; {rest} more in the Parquet file" if rest > 0 else title
    targets = reached_columns(metrics)
    rows = [
        [
            *(in_digits(one[name]) for name in factors),
            str(one["runs"]),
            *(cell for metric in metrics for cell in _cells(one, metric, over or {})),
            *(reached(one, metric) for metric in targets.values()),
        ]
        for one in told_apart(means.head(MOST_ROWS), factors).to_dict("records")
    ]
    columns = [[f"{name} over seeds", f"{name} over machines too"] for name in metrics]
    named = [name for pair in columns for name in pair] if over else metrics
    return FigureTable(title, short_names(factors), ["runs", *named, *targets], rows)


def _of_one_setting(
    name: str, setting: Row, metrics: list[str], over: Mapping[str, pd.DataFrame], draws: int
) -> FigureTable:
    """A single setting: one row per figure."""
    runs = setting["runs"]
    seeds = "mean over seeds (±95 %)" if runs > 1 else "one seed"
    title = f"{name}: {runs} runs" if runs > 1 else f"{name}: one seed, no intervals over seeds"
    title += f", {draws} drawn machines" if draws else ""
    targets = reached_columns(metrics)
    columns = [seeds, *(["over machines too (90 %)"] if over else [])]
    rows = [[metric, *_cells(setting, metric, over)] for metric in metrics]
    empty = [""] * (len(columns) - 1)
    rows += [[said, reached(setting, metric), *empty] for said, metric in targets.items()]
    return FigureTable(title, ["figure"], columns, rows)


def _cells(setting: Row, metric: str, over: Mapping[str, pd.DataFrame]) -> list[str]:
    """A figure of a setting: over the seeds and, if machines were drawn, over these too."""
    if metric not in over:
        return [in_cell(setting, metric)]
    its = over[metric].set_index("point").to_dict("index")[setting["point"]]
    return [in_cell(setting, metric), in_interval(its["low"], its["high"])]


def _best_first(found: pd.DataFrame, factors: list[str], asked: Best) -> FigureTable:
    """Settings, the best first, with how many seeds and what share of draws meet the bounds."""
    chances = PROBABILITIES if "draws" in found else {}
    rows = [
        [
            *(in_digits(one[name]) for name in factors),
            kept_of(one),
            in_cell(one, asked.figure),
            one["against_best"] or "-",
            *(in_share(one[name], one["draws"]) for name in chances),
        ]
        for one in told_apart(found.head(MOST_ROWS), factors).to_dict("records")
    ]
    columns = ["seeds within bounds", asked.figure, "against the best"]
    columns += chances.values()
    return FigureTable(asked.in_words, short_names(factors), columns, rows)


def _comparisons(
    runs: pd.DataFrame,
    metrics: list[str],
    factor: str,
    baseline: Any,
    factors: list[str],
    drawn: pd.DataFrame | None = None,
) -> Iterator[tuple[Compared, Callable[[Sequence[str]], FigureTable]]]:
    """For each figure its comparisons, and their table given the texts of the verdicts.

    If some runs missed a target, the table says how many met it and which are known to have been
    first, instead of a difference.
    """
    known = runs[factor].tolist()
    # If the levels are of several types, the table has all of them as text.
    baseline = level(baseline) if level(baseline) in known else as_text(level(baseline))
    texts = levels_told_apart(known)
    for metric in metrics if baseline in known else ():
        asked = (metric, factor, baseline, factors)
        if drawn is None or drawn.empty:
            found = paired_differences(runs, *asked)
        else:
            found = hardware_differences(runs, drawn, *asked)
        if found.empty:
            continue  # no run of another level has ended yet
        one = Compared(metric, str(baseline), found)
        name = short_among(factor, factors)
        yield one, partial(_comparison, metric, factor, name, texts, texts[baseline], found)


def _comparison(
    metric: str,
    factor: str,
    name: str,
    texts: Mapping[Any, str],
    baseline: str,
    found: pd.DataFrame,
    verdicts: Sequence[str],
) -> FigureTable:
    """A figure's comparisons; figures' names are long, so the title has its name."""
    columns: dict[str, Callable[[Row], str]] = {"seeds": lambda one: str(one["seeds"])}
    missed = found["verdict"] == "not all reached"
    columns |= RACE if missed.any() else {}
    known_differences = not (len(missed) and missed.all())
    columns |= DIFFERENCE if known_differences else {}
    columns |= OVER_HARDWARE if "holds" in found else {}
    columns |= {"verdict": lambda one: str(one["verdict"])}
    columns |= EFFECT if known_differences else {}
    rows = [
        [in_digits(texts[one[factor]]), *(tell(one) for tell in columns.values())]
        for one in found.assign(verdict=list(verdicts)).to_dict("records")
    ]
    title = f"{metric} against {name} {in_digits(baseline)}, pair by pair"
    return FigureTable(title, [name], list(columns), rows)


RACE: dict[str, Callable[[Row], str]] = {
    "reached": lambda one: f"{one['reached']}/{one['pairs']}",
    "baseline reached": lambda one: f"{one['baseline_reached']}/{one['pairs']}",
    "known order": race,
}
DIFFERENCE: dict[str, Callable[[Row], str]] = {
    "difference (±95%)": difference_in_cell,
    "relative (95%)": relative_in_cell,
}
EFFECT: dict[str, Callable[[Row], str]] = {"effect size (95%)": effect_in_cell}
OVER_HARDWARE: dict[str, Callable[[Row], str]] = {
    "over machines too (90%)": lambda one: in_interval(one["hardware_low"], one["hardware_high"]),
    "order holds": lambda one: in_probability(*(one[name] for name in HOLDS)),
}
"""Columns of a comparison by their headings."""


def _effects(
    runs: pd.DataFrame, metrics: list[str], factors: list[str], sampled: list[str], title: str
) -> FigureTable:
    """Levels below their factor, a column per figure; sampled keys only separate blocks."""
    cells: dict[tuple[str, Any], dict[str, str]] = {}
    for metric in metrics:
        for _, one in main_effects(runs, metric, factors, within=sampled).iterrows():
            cell = with_interval(one["effect"], one["ci"])
            cells.setdefault((one["factor"], one["level"]), {})[metric] = cell
    shown = {factor: levels_told_apart(runs[factor].tolist()) for factor in factors}
    rows = [
        [
            short_among(factor, factors),
            in_digits(shown[factor][its]),
            *(texts.get(metric, "-") for metric in metrics),
        ]
        for (factor, its), texts in cells.items()
    ]
    return FigureTable(title, ["factor", "level"], metrics, rows)


def _first_order_indices(
    runs: pd.DataFrame, metrics: list[str], factors: list[str], sampled: list[str]
) -> Iterator[Shown]:
    """The indices of the points as they are, if there are any."""
    rows = [
        [
            metric,
            short_among(one["factor"], factors),
            *(_share(value) for value in (as_share(one["index"]), one["low"], one["high"])),
            str(one["settings"]),
        ]
        for metric in metrics
        for _, one in first_order_indices(runs, metric, factors, sampled).iterrows()
    ]
    if rows:
        title = "first-order Sobol indices and 90 % intervals"
        columns = ["index", "from", "to", "settings"]
        yield FigureTable(title, ["figure", "factor"], columns, rows)
        if sampled:
            yield SMOOTHED


def _sobol_indices(runs: pd.DataFrame, metrics: list[str], factors: list[str]) -> Iterator[Shown]:
    """First-order and total indices of Saltelli's design, or why there are none."""
    rows, chance = [], list[str]()
    for metric in metrics:
        try:
            found = sobol_indices(runs, metric, factors)
        except ValueError as error:
            yield f"Sobol indices of {metric} are not computed: {error}"
            continue
        chance += left_to_chance(runs, metric) if len(found) else []
        rows += [
            [
                metric,
                short_among(one["factor"], factors),
                *(_share(as_share(one[column])) for column in found.columns[1:]),
            ]
            for one in found.to_dict("records")
        ]
    if rows:
        title = "first-order and total Sobol indices and 90 % intervals"
        columns = ["first", "from", "to", "total", "from", "to"]
        yield FigureTable(title, ["figure", "factor"], columns, rows)
        yield from of_few_rows(runs, factors)
    yield from chance


def _share(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"
