"""The report of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from simfl.pictures.curves import MOST_SETTINGS as MOST_LINES
from simfl.pictures.curves import named_curves
from simfl.pictures.report import charts
from simfl.pictures.report.of_search import add_search
from simfl.pictures.report.page import Page
from simfl.runs.runfolder import RunFolderError
from simfl.study import multiple_comparisons
from simfl.study.best import best_settings, in_one_sentence, kept_of
from simfl.study.comparable import caveat_sentences
from simfl.study.comparisons import paired_differences
from simfl.study.effects import (
    as_share,
    first_order_indices,
    left_to_chance,
    main_effects,
    not_explained,
)
from simfl.study.figure_text import (
    Row,
    effect_in_cell,
    in_cell,
    of_run,
    race,
    reached,
    reached_columns,
    relative_in_cell,
)
from simfl.study.figures import with_unit
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
from simfl.study.means import point_means, setting_names, told_apart, with_completed
from simfl.study.pareto import on_front, unranked
from simfl.study.polynomial_chaos import SMOOTHED
from simfl.study.regression import axis_label
from simfl.study.sensitivity import of_few_rows, sobol_indices
from simfl.study.warned import warning_kinds

LONG_NAME = 32
"""Characters; charts whose rows have longer names take the full width."""

MOST_SETTINGS = 40
"""The number of settings in a chart with one row per setting; tables have all."""

CURVES = [
    (y, x) for y in ("accuracy", "loss") for x in ("time_s", "client_energy_j", "bytes", "versions")
]
"""Learning curves of every report."""

MOST_PLACES = 300
"""Points of a curve in a page; `LoadedStudy.curves` has all."""


def report_study(study: LoadedStudy, path: Path) -> Path:
    """Write a study's page; raises `RunFolderError` if none of its runs has completed."""
    if study.completed.empty:
        raise RunFolderError(f"{study.path}: no run of this study has completed yet")
    page = Page(f"Study {study.content['name']}")
    metrics = study.metrics
    _warnings(page, study)
    _what_ran(page, study)
    _outcome(page, study, metrics)
    add_search(page, study)
    _curves(page, study)
    _comparisons(page, study, metrics)
    _pareto(page, study)
    _best(page, study)
    if study.search is None:  # a search's trials depend on earlier results and are not a sample
        _effects(page, study, metrics)
    page.heading("Runs")
    table = told_apart(study.table.drop(columns=["study", "digest"]), study.factors)
    page.table(
        [str(name) for name in table],
        [[of_run(run, str(name)) for name in run] for run in table.to_dict("records")],
    )
    page.data("runs", {str(name): study.table[name].tolist() for name in study.table})
    return page.save(path)


def _warnings(page: Page, study: LoadedStudy) -> None:
    found = warning_kinds(study.table)
    if not found:
        return
    page.heading("Warnings")
    page.table(
        ("kind", "runs", "as", "what to do"),
        [(one.kind.replace("_", " "), *one[1:]) for one in found],
    )


def _what_ran(page: Page, study: LoadedStudy) -> None:
    table = study.table
    page.heading("What ran")
    statuses = ", ".join(
        f"{count} {status}" for status, count in table["status"].value_counts().items()
    )
    trained, reused = int(table["jobs_trained"].sum()), int(table["jobs_reused"].sum())
    page.table(
        ("", ""),
        [
            ("scenario", str(study.content["scenario"])),
            ("settings, seeds", f"{table['point'].nunique()}, {table['seed'].nunique()}"),
            ("runs", statuses),
            ("factors", ", ".join(study.factors) or "none"),
            ("local trainings", f"{trained} computed, {reused} looked up"),
            ("wall time of all runs", f"{table['wall_s'].sum():.4g} s"),
        ],
    )
    page.source("study file", (study.path / "study.yaml").read_text("utf-8"))


def _outcome(page: Page, study: LoadedStudy, metrics: list[str]) -> None:
    factors = study.factors
    means = point_means(study.table, factors, metrics)
    page.heading("Outcome")
    if study.absent:
        page.text(f"No run has the figure {', '.join(study.absent)}.", "note")
    if not metrics:
        return
    page.text(
        "Means over the seeds with 95 % intervals (Student, cut to what a figure can be; none for a"
        " single seed). They show how certain a mean is; to decide which of two settings is better,"
        " paired runs that share their random draws are more precise.",
        "note",
    )
    for sentence in caveat_sentences(study.table, metrics):
        page.text(sentence, "note")
    targets = reached_columns(metrics)
    if targets:
        page.text(
            "A target that some runs missed has no mean, which would cover only the lucky runs, but"
            " the median over all runs, or a lower bound of it.",
            "note",
        )
    _drawn_machines(page, study)
    over = {
        metric: hardware_intervals(study.table, study.drawn, metric).set_index("point")
        for metric in metrics
        if study.draws
    }
    shown = means.head(MOST_SETTINGS)
    names = with_completed(setting_names(shown, factors), shown)
    if len(means) > MOST_SETTINGS:
        page.text(
            f"Charts show the first {MOST_SETTINGS} of {len(means)} settings, the table all.",
            "note",
        )
    page.charts(
        *(
            (
                metric,
                charts.intervals(
                    names,
                    _list(shown[metric]),
                    (_list(shown[f"{metric}_low"]), _list(shown[f"{metric}_high"])),
                    axis_label(study.table, metric),
                    missed=dict(
                        zip(
                            charts.OPEN_MARKERS,
                            (_list(shown[f"{metric}_median"]), _list(shown[f"{metric}_above"])),
                            strict=True,
                        )
                    ),
                ),
            )
            for metric in study.metrics
        ),
        wide=max(map(len, names)) > LONG_NAME,
    )
    page.table(
        [
            "setting",
            *short_names(factors),
            "runs",
            *metrics,
            *(f"{metric} over machines too" for metric in over),
            *targets,
        ],
        [
            (
                *(one[column] for column in ("point", *factors, "runs")),
                *(in_cell(one, metric) for metric in metrics),
                *(in_interval(*its.loc[one["point"], ["low", "high"]]) for its in over.values()),
                *(reached(one, metric) for metric in targets.values()),
            )
            for one in told_apart(means, factors).to_dict("records")
        ],
    )


def _drawn_machines(page: Page, study: LoadedStudy) -> None:
    """Explains the intervals over machines, if these were drawn."""
    if not study.draws:
        return
    page.text(
        f"Every setting was also run on {study.draws} sets of machines, drawn within the"
        " uncertainty of their profiles. Over machines too: a 90 % interval over machines and"
        " seeds together.",
        "note",
    )
    for sentence in hardware_sentences(study):
        page.text(sentence, "note")


def _curves(page: Page, study: LoadedStudy) -> None:
    """Learning curves; nothing, not even a heading, if nothing was evaluated."""
    scored = [(y, x) for y, x in CURVES if y in study.table and study.table[y].notna().any()]
    if not scored:
        return
    page.heading("Learning curves")
    try:
        curves = {axes: named_curves(study, axes[1], axes[0]) for axes in scored}
    except RunFolderError as error:
        page.text(f"Not drawn, because the runs' folders cannot be read: {error}", "note")
        return
    page.text(
        "Means over the seeds, and 95 % intervals (none of a single seed). A curve ends where the"
        " first of its runs does.",
        "note",
    )
    for sentence in caveat_sentences(study.table, ["accuracy"]):
        page.text(sentence, "note")
    settings = study.table["point"].nunique()
    if settings > MOST_LINES:
        page.text(f"The first {MOST_LINES} of {settings} settings.", "note")
    page.charts(
        *(
            (
                f"{y} by {with_unit(x)}",
                charts.curves(
                    [(name, _columns(curve, x, y)) for name, curve in named],
                    with_unit(x),
                    f"test {axis_label(study.table, y)}",
                ),
            )
            for (y, x), named in curves.items()
            if named
        )
    )


def _columns(curve: Any, x: str, y: str) -> dict[str, list[float]]:
    """A curve as columns for a chart, thinned evenly; the last point is kept."""
    chosen = curve.iloc[np.unique(np.linspace(0, len(curve) - 1, MOST_PLACES).round().astype(int))]
    names = {"x": x, "y": y, "low": f"{y}_low", "high": f"{y}_high"}
    return {short: _list(chosen[name]) for short, name in names.items()}


def _comparisons(page: Page, study: LoadedStudy, metrics: list[str]) -> None:
    if not study.questions.compare or not metrics:
        return
    page.heading("Paired comparisons")
    page.text(
        "Each level against the baseline, paired by seed and all other factors: the difference of"
        " runs that share their random draws, its 95 % interval over the seeds (from two on), and"
        " the effect size (Hedges' g, from three on). If some runs missed a target, the known"
        " order is given instead of a difference.",
        "note",
    )
    runs, drawn, verdicts = study.table, [], []
    for one in study.questions.compare:
        known = runs[one.factor].tolist()
        baseline = (
            level(one.baseline) if level(one.baseline) in known else as_text(level(one.baseline))
        )
        if baseline not in known:
            continue
        for metric in metrics:
            asked = (metric, one.factor, baseline, study.factors)
            found = (
                hardware_differences(runs, study.drawn, *asked)
                if study.draws
                else paired_differences(runs, *asked)
            )
            title = f"{metric}: {short_among(one.factor, study.factors)} against {baseline}"
            verdicts.append(multiple_comparisons.Compared(metric, str(baseline), found))
            axis = f"difference in {axis_label(study.table, metric)}"
            if found["difference"].notna().any():
                drawn.append(
                    (
                        title,
                        charts.intervals(
                            _list(found[one.factor]),
                            _list(found["difference"]),
                            (_list(found["ci_low"]), _list(found["ci_high"])),
                            axis,
                            zero=True,
                        ),
                    )
                )
    shown = multiple_comparisons.in_tables(verdicts)
    rows = [
        (
            one.metric,
            f"{row[one.differences.columns[0]]} against {one.baseline}",
            row["seeds"],
            row["pairs"],
            *_of_target(row),
            row["difference"],
            row["ci_low"],
            row["ci_high"],
            relative_in_cell(row),
            effect_in_cell(row),
            *(_over_hardware(row) if study.draws else ()),
            verdict,
        )
        for one, its in zip(verdicts, shown, strict=True)
        for row, verdict in zip(one.differences.to_dict("records"), its, strict=True)
    ]
    page.charts(*drawn)
    columns = (
        "figure",
        "levels",
        "seeds",
        "pairs",
        "reached",
        "baseline reached",
        "known order",
        "difference",
        "from",
        "to",
        "relative (95 %)",
        "effect size (95 %)",
        *(("over machines too (90 %)", "order holds") if study.draws else ()),
        "verdict",
    )
    page.table(columns, rows)
    for sentence in multiple_comparisons.of_verdicts(verdicts):
        page.text(f"{sentence[0].upper()}{sentence[1:]}.", "note")


def _over_hardware(row: Row) -> tuple[str, str]:
    """The range of a difference on drawn machines, and the probability of its sign."""
    interval = in_interval(row["hardware_low"], row["hardware_high"])
    return interval, in_probability(*(row[name] for name in HOLDS))


def _of_target(row: Row) -> tuple[str, str, str]:
    """How many runs met a target, and which are known to have been first; dashes for other
    figures.
    """
    if "first" not in row:
        return ("–", "–", "–")
    own, base = (f"{row[key]}/{row['pairs']}" for key in ("reached", "baseline_reached"))
    return own, base, race(row)


def _pareto(page: Page, study: LoadedStudy) -> None:
    objectives = study.questions.pareto
    if len(objectives) < 2 or not set(objectives) <= set(study.completed):
        return
    means = point_means(study.table, study.factors, list(objectives))
    best = on_front(means, objectives)
    page.heading("Pareto front")
    ways = ", ".join(f"{name} {way}" for name, way in objectives.items())
    page.text(f"Settings that no other setting dominates: {ways}.", "note")
    for sentence in unranked(means, study.factors, objectives) + multiple_comparisons.of_front(
        len(means)
    ):
        page.text(sentence, "note")
    first, *others = objectives
    page.charts(
        *(
            (
                f"{first} and {other}",
                charts.front(
                    {
                        "names": setting_names(means, study.factors),
                        "x": _list(means[other]),
                        "y": _list(means[first]),
                        **{
                            f"{axis}_{end}": _list(means[f"{metric}_{end}"])
                            for axis, metric in (("x", other), ("y", first))
                            for end in ("low", "high")
                        },
                    },
                    axis_label(study.table, other),
                    axis_label(study.table, first),
                    _list(best),
                ),
            )
            for other in others
        )
    )
    rows = [
        (*(one[name] for name in study.factors), *(in_cell(one, metric) for metric in objectives))
        for one in told_apart(means[best], study.factors).to_dict("records")
    ]
    page.table([*short_names(study.factors), *objectives], rows)


def _best(page: Page, study: LoadedStudy) -> None:
    asked = study.questions.best
    if asked is None or not {asked.figure, *asked.subject_to} <= set(study.table):
        return
    found = best_settings(study.table, study.factors, asked)
    if study.draws:
        found = found.merge(hardware_best(study.drawn, asked), on="point", how="left")
    chances = PROBABILITIES if study.draws else {}
    page.heading("Best setting")
    page.text(f"The {asked.in_words}: {in_one_sentence(found, study.factors, asked)}.")
    for sentence in multiple_comparisons.of_best(int(found["ranked"].sum()), asked.figure):
        page.text(f"{sentence[0].upper()}{sentence[1:]}.", "note")
    page.text(
        "A seed counts if its run is known to meet the bounds; a run that ended without its"
        " target, and before the bound, is undecided.",
        "note",
    )
    page.table(
        [
            *short_names(study.factors),
            "seeds within bounds",
            asked.figure,
            "against the best",
            *chances.values(),
        ],
        [
            (
                *(one[name] for name in study.factors),
                kept_of(one),
                in_cell(one, asked.figure),
                one["against_best"] or "–",
                *(in_share(one[name], one["draws"]) for name in chances),
            )
            for one in told_apart(found, study.factors).to_dict("records")
        ],
    )


def _effects(page: Page, study: LoadedStudy, metrics: list[str]) -> None:
    levelled = [name for name in study.factors if name not in study.sampled]
    reasons = not_explained(study.table, metrics) if study.factors else []
    drawn = []
    for metric in metrics:
        effects = main_effects(study.table, metric, levelled, within=study.sampled)
        if len(levelled) > 1 and len(effects):
            names = [
                f"{short_among(str(row.factor), study.factors)} = {row.level}"
                for row in effects.itertuples()
            ]
            axis = f"effect on {axis_label(study.table, metric)}"
            low, high = effects["effect"] - effects["ci"], effects["effect"] + effects["ci"]
            drawn.append(
                (
                    f"{metric}: main effects",
                    charts.intervals(
                        names, _list(effects["effect"]), (_list(low), _list(high)), axis, zero=True
                    ),
                )
            )
        title, indices = _indices(study, metric, reasons)
        if len(indices):
            drawn.append(
                (
                    f"{metric}: {title}",
                    charts.intervals(
                        _list(indices["name"]),
                        _list(indices["index"]),
                        (_list(indices["low"]), _list(indices["high"])),
                        "share of the variance explained (1)",
                        zero=True,
                    ),
                )
            )
    if drawn or reasons:
        page.heading("What matters")
    for sentence in reasons:
        page.text(sentence, "note")
    if drawn:
        page.charts(*drawn)


def _indices(study: LoadedStudy, metric: str, reasons: list[str]) -> tuple[str, pd.DataFrame]:
    """The title of the Sobol indices, and a row of name, index, low and high for each.

    They are those of Saltelli's design, or else are estimated from the points as they are.
    `reasons` gets the reason if there are none, and how much of them is due to chance.
    """
    if study.sample is None or study.sample.method != "saltelli":
        found = first_order_indices(study.table, metric, study.factors, study.sampled)
        found = found.dropna(subset="index")
        found["index"] = found["index"].map(as_share)
        if study.sampled and len(found) and SMOOTHED not in reasons:
            reasons.append(SMOOTHED)
        return "first-order Sobol indices", found.assign(
            name=[short_among(one, study.factors) for one in found["factor"]]
        )
    title = "first-order and total Sobol indices"
    try:
        found = sobol_indices(study.table, metric, study.factors)
    except ValueError as error:
        reasons.append(f"Sobol indices of {metric} are not computed: {error}")
        return title, pd.DataFrame()
    if len(found):
        few = of_few_rows(study.table, study.factors)
        reasons += [one for one in few if one not in reasons]
        reasons += left_to_chance(study.table, metric)
    kinds = {"first_order": ("first", "first order"), "total": ("total", "total")}
    rows = [
        (
            f"{short_among(one['factor'], study.factors)}, {words}",
            *(as_share(one[column]) for column in (kind, f"{short}_low", f"{short}_high")),
        )
        for one in found.to_dict("records")
        for kind, (short, words) in kinds.items()
    ]
    return title, pd.DataFrame(rows, columns=["name", "index", "low", "high"])


def _list(column: Any) -> list[Any]:
    return list(column.tolist())
