"""What a study's runs answer to its questions, as tables in the terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import pandas as pd
from rich.table import Table

from simfl.study.comparisons import paired_differences, verdict
from simfl.study.effects import first_order_indices, main_effects
from simfl.study.loaded import LoadedStudy
from simfl.study.means import point_means
from simfl.study.pareto import study_front
from simfl.study.studyfile import Study, as_text, level, short_names
from simfl.terminal import Terminal

MOST_ROWS = 40
"""Settings in a printed table; the Parquet file has all."""


def print_answers(study: Study, loaded: LoadedStudy) -> None:
    """The study's questions and what its completed runs answer."""
    console = Terminal()
    runs = loaded.completed
    if runs.empty:
        console.print("no run has completed yet")
        return
    factors, asked = loaded.factors, study.questions
    metrics = [name for name in asked.metrics if name in runs]
    means = point_means(runs, factors, metrics)
    console.print(_means(means, factors, metrics, f"{study.name}: means and 95 % intervals"))
    for one in asked.compare:
        for table in _comparisons(runs, metrics, one.factor, one.baseline, factors):
            console.print(table)
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


def _table(
    title: str, left: Sequence[str], right: Sequence[str], rows: Sequence[Sequence[str]]
) -> Table:
    """`left` columns hold words, `right` ones figures; lines divide rows by their first cells.

    On a narrow terminal cells are folded, an interval before its sign, a name behind "_" or ".".
    """
    table = Table(title=title, title_justify="left")
    for place, column in enumerate([*left, *right]):
        width = max((len(line) for row in rows for line in row[place].split()), default=0)
        justify: Literal["left", "right"] = "left" if place < len(left) else "right"
        table.add_column(_broken(column, width), justify=justify, overflow="fold")
    firsts = [row[0] for row in rows]
    for row, following in zip(rows, [*firsts, None][1:], strict=True):
        table.add_row(*row, end_section=len(set(firsts)) < len(rows) and row[0] != following)
    return table


def _broken(name: str, width: int) -> str:
    """A heading in lines of `width`, 12 at least for a name and 6 for words; numbers stay whole."""
    lines = [""]
    for piece in re.split(r"(?<=[_ ])|(?<=\.)(?!\d)", name):
        most = max(width, 6 if " " in name else 12)
        if lines[-1] and len((lines[-1] + piece).rstrip()) > most:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def _means(means: pd.DataFrame, factors: list[str], metrics: list[str], title: str) -> Table:
    rest = len(means) - MOST_ROWS
    title = f"{title}; {rest} more in the Parquet file" if rest > 0 else title
    rows = [
        [
            *(_cell(one[name]) for name in factors),
            str(one["runs"]),
            *(_with_interval(one[metric], one[f"{metric}_ci"]) for metric in metrics),
        ]
        for _, one in means.head(MOST_ROWS).iterrows()
    ]
    return _table(title, short_names(factors), ["runs", *metrics], rows)


def _comparisons(
    runs: pd.DataFrame, metrics: list[str], factor: str, baseline: Any, factors: list[str]
) -> Iterator[Table]:
    """A table per figure, which is in its title: names of figures are long, terminals narrow."""
    known = runs[factor].tolist()
    # Where levels are of several types, the table has all of them as text.
    baseline = level(baseline) if level(baseline) in known else as_text(level(baseline))
    name = short_names([factor])[0]
    columns = ["seeds", "difference (±95%)", "relative", "effect size", "verdict"]
    for metric in metrics if baseline in known else ():
        rows = [
            [
                _cell(one[factor]),
                str(one["seeds"]),
                _with_interval(one["difference"], one["ci_high"] - one["difference"]),
                "-" if math.isnan(one["relative"]) else f"{one['relative']:+.1%}",
                _share(one["effect_size"]),
                verdict(one["ci_low"], one["ci_high"]),
            ]
            for _, one in paired_differences(runs, metric, factor, baseline, factors).iterrows()
        ]
        title = f"{metric} against {name} {_cell(baseline)}, pair by pair"
        yield _table(title, [name], columns, rows)


def _effects(
    runs: pd.DataFrame, metrics: list[str], factors: list[str], sampled: list[str]
) -> Table:
    """Levels below their factor, a column per figure; sampled keys only tell blocks apart."""
    cells: dict[tuple[str, Any], dict[str, str]] = {}
    for metric in metrics:
        for _, one in main_effects(runs, metric, factors, within=sampled).iterrows():
            cell = _with_interval(one["effect"], one["ci"])
            cells.setdefault((one["factor"], one["level"]), {})[metric] = cell
    rows = [
        [short_names([factor])[0], _cell(its), *(texts.get(metric, "-") for metric in metrics)]
        for (factor, its), texts in cells.items()
    ]
    return _table("main effects and 95 % intervals", ["factor", "level"], metrics, rows)


def _indices(runs: pd.DataFrame, metrics: list[str], factors: list[str]) -> Table:
    rows = [
        [
            metric,
            short_names([one["factor"]])[0],
            *(_share(one[column]) for column in ("index", "low", "high")),
            str(one["settings"]),
        ]
        for metric in metrics
        for _, one in first_order_indices(runs, metric, factors).iterrows()
    ]
    title = "first-order Sobol indices and 90 % intervals"
    return _table(title, ["figure", "factor"], ["index", "from", "to", "settings"], rows)


def _with_interval(mean: float, half: float) -> str:
    """Two significant digits of the half width, and as many decimals of the mean."""
    if math.isnan(half) or not 1e-6 < half < 1e6:
        return _cell(mean) if math.isnan(half) else f"{_cell(mean)} ±{half:.2g}"
    decimals = max(1 - math.floor(math.log10(half)), 0)
    return f"{mean:.{decimals}f} ±{half:.{decimals}f}"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.4g}"
    return str(value)


def _share(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"
