"""What a study's runs answer to its questions, as tables in the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

from simfl.study.comparisons import paired_differences, verdict
from simfl.study.effects import first_order_indices, main_effects
from simfl.study.loaded import LoadedStudy
from simfl.study.means import point_means
from simfl.study.pareto import study_front
from simfl.study.studyfile import Study, as_text, level, short_names

MOST_ROWS = 40
"""Settings in a printed table; the Parquet file has all."""


def print_answers(study: Study, loaded: LoadedStudy) -> None:
    """The study's questions and what its completed runs answer."""
    console = Console()
    runs = loaded.completed
    if runs.empty:
        console.print("no run has completed yet")
        return
    factors, asked = loaded.factors, study.questions
    metrics = [name for name in asked.metrics if name in runs]
    means = point_means(runs, factors, metrics)
    console.print(_means(means, factors, metrics, f"{study.name}: means and 95 % intervals"))
    for one in asked.compare:
        console.print(_comparison(runs, metrics, one.factor, one.baseline, factors))
    if asked.pareto and set(asked.pareto) <= set(runs):
        front = study_front(runs, factors, asked.pareto)
        ways = ", ".join(f"{name} {way}" for name, way in asked.pareto.items())
        console.print(_means(front, factors, list(asked.pareto), f"Pareto front ({ways})"))
    levelled = [name for name in factors if name not in loaded.sampled]
    if len(levelled) > 1:
        console.print(_effects(runs, metrics, levelled, loaded.sampled))
    if any(pd.api.types.is_numeric_dtype(means[name]) for name in factors):
        console.print(_indices(runs, metrics, factors))
    absent = [name for name in (*asked.metrics, *asked.pareto) if name not in runs]
    if absent:
        console.print(f"no run has the figure {', '.join(dict.fromkeys(absent))}")


def _table(title: str, left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in left:
        table.add_column(column, overflow="fold")
    for column in right:
        table.add_column(column, justify="right", overflow="fold")
    return table


def _means(means: pd.DataFrame, factors: list[str], metrics: list[str], title: str) -> Table:
    rest = len(means) - MOST_ROWS
    title = f"{title}; {rest} more in the Parquet file" if rest > 0 else title
    table = _table(title, short_names(factors), ["runs", *metrics])
    for _, one in means.head(MOST_ROWS).iterrows():
        cells = [_with_interval(one[metric], one[f"{metric}_ci"]) for metric in metrics]
        table.add_row(*(_cell(one[name]) for name in factors), str(one["runs"]), *cells)
    return table


def _comparison(
    runs: pd.DataFrame, metrics: list[str], factor: str, baseline: Any, factors: list[str]
) -> Table:
    known = runs[factor].tolist()
    # Where levels are of several types, the table has all of them as text.
    baseline = level(baseline) if level(baseline) in known else as_text(level(baseline))
    title = f"{short_names([factor])[0]} against {_cell(baseline)}, pair by pair"
    columns = ["pairs", "difference", "95 % interval", "relative", "effect size", "verdict"]
    table = _table(title, ["figure", short_names([factor])[0]], columns)
    for metric in metrics if baseline in known else ():
        for _, one in paired_differences(runs, metric, factor, baseline, factors).iterrows():
            table.add_row(
                metric,
                _cell(one[factor]),
                str(one["pairs"]),
                _cell(one["difference"]),
                f"{_cell(one['ci_low'])} to {_cell(one['ci_high'])}",
                "-" if math.isnan(one["relative"]) else f"{one['relative']:+.1%}",
                _cell(one["effect_size"]),
                verdict(one["ci_low"], one["ci_high"]),
            )
        table.add_section()
    return table


def _effects(
    runs: pd.DataFrame, metrics: list[str], factors: list[str], sampled: list[str]
) -> Table:
    """Levels below their factor, a column per figure; sampled keys only tell blocks apart."""
    table = _table("main effects and 95 % intervals", ["factor", "level"], metrics)
    cells: dict[tuple[str, Any], dict[str, str]] = {}
    for metric in metrics:
        for _, one in main_effects(runs, metric, factors, within=sampled).iterrows():
            cell = _with_interval(one["effect"], one["ci"])
            cells.setdefault((one["factor"], one["level"]), {})[metric] = cell
    for (factor, its_level), texts in cells.items():
        figures = [texts.get(metric, "-") for metric in metrics]
        table.add_row(short_names([factor])[0], _cell(its_level), *figures)
    return table


def _indices(runs: pd.DataFrame, metrics: list[str], factors: list[str]) -> Table:
    title = "first-order Sobol indices and 90 % intervals"
    table = _table(title, ["figure", "factor"], ["index", "from", "to", "settings"])
    for metric in metrics:
        for _, one in first_order_indices(runs, metric, factors).iterrows():
            limits = [_share(one[column]) for column in ("index", "low", "high")]
            name = short_names([one["factor"]])[0]
            table.add_row(metric, name, *limits, str(one["settings"]))
        table.add_section()
    return table


def _with_interval(mean: float, half: float) -> str:
    return _cell(mean) if math.isnan(half) else f"{_cell(mean)} ± {half:.2g}"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.4g}"
    return str(value)


def _share(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"
