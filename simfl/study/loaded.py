"""A study loaded from its folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_numeric_dtype
from pydantic import TypeAdapter

from simfl.common.html import html_table, titled
from simfl.runs.runfolder import LoadedRun, RunFolderError, load_run
from simfl.scenario.validation.validate import validate
from simfl.scenario.yaml_source.source import KeyPath, read_source
from simfl.study.curves import check_axes, curve_of, mean_curve
from simfl.study.few_test_examples import step_of
from simfl.study.figure_text import in_cell, in_digits
from simfl.study.figures import FIGURES
from simfl.study.levels import short_names
from simfl.study.means import factor_names, point_means, told_apart
from simfl.study.regression import bounds_in
from simfl.study.studyfile import Questions, Sample, Search, Study
from simfl.study.targets import is_known

STUDY, TABLE = "study.yaml", "runs.parquet"
DRAW = "draw"
"""The column of a table of runs with the number of the draw of machines; absent without draws."""
REMEDY = "run `simfl study ... --collect`"
"""The command that recreates the table of a study's runs."""


class LoadedStudy:
    """A loaded study: `table` (one row per run), `content` (the study file), its questions.

    `drawn` has the runs on drawn machines, if the study has an `uncertainty`. Raises
    `RunFolderError` or `ScenarioError` if the folder holds no such study.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not (path / STUDY).exists():
            raise RunFolderError(f"{path}: no study's folder (it has no {STUDY})")
        if not (path / TABLE).exists():
            raise RunFolderError(f"{path}: has no {TABLE} yet; {REMEDY}")
        source = read_source(path / STUDY)
        self.content: Mapping[str, Any] = source.content
        study = validate(TypeAdapter(Study), source.content, KeyPath(source))
        self.questions: Questions = study.questions
        """The study's questions, including defaults."""
        self.sample: Sample | None = study.points.sample
        """How points were sampled, if they were."""
        self.search: Search | None = study.search
        """How settings were searched for, if they were."""
        self.written_ns = (path / TABLE).stat().st_mtime_ns
        """When the table was written."""
        every = _read_table(path / TABLE, study.name)
        on_drawn = every[DRAW].notna() if DRAW in every else pd.Series(False, index=every.index)
        self.table: pd.DataFrame = every[~on_drawn].drop(columns=DRAW, errors="ignore")
        self.drawn: pd.DataFrame = every[on_drawn].reset_index(drop=True)

    @property
    def draws(self) -> int:
        """The number of drawn sets of machines per setting; 0 if none."""
        return int(self.drawn[DRAW].nunique()) if len(self.drawn) else 0

    @property
    def completed(self) -> pd.DataFrame:
        """The rows of runs that completed."""
        return self.table[self.table["status"] == "completed"]

    @property
    def metrics(self) -> list[str]:
        """The requested figures that some run has, or is known to have missed."""
        return [name for name in self.questions.figures if is_known(self.table, name)]

    @property
    def absent(self) -> list[str]:
        """Figures that the questions or the search name, and that no run has."""
        asked = self.questions
        best = (asked.best.figure, *asked.best.subject_to) if asked.best else ()
        sought = self.search.figures if self.search is not None else ()
        wanted = dict.fromkeys((*asked.figures, *asked.pareto, *best, *sought))
        unasked = () if "metrics" in asked.model_fields_set else asked.metrics
        return [one for one in wanted if one not in unasked and not is_known(self.table, one)]

    @property
    def factors(self) -> list[str]:
        """The columns that tell settings apart."""
        return factor_names(self.table)

    @property
    def sampled(self) -> list[str]:
        """The factors that were drawn from intervals."""
        return list(self.sample.over) if self.sample else []

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """One row per run and global version: `point`, `seed`, and the run's `rounds`.

        Raises `RunFolderError` if a run's folder is missing or damaged.
        """
        parts = [
            load_run(self.path / run["folder"]).rounds.assign(point=run["point"], seed=run["seed"])
            for run in self.table[["point", "seed", "folder"]].to_dict("records")
        ]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

    def curves(self, y: str = "accuracy", x: str = "time_s") -> pd.DataFrame:
        """Learning curves: `y` (accuracy or loss) of every setting by its cost or time, `x`.

        Rows: point, its factors, `runs`, and at every place `x` the mean of `y` over the seeds with
        the ends of its 95 % interval, `y`_low and `y`_high. Between evaluations a run's curve is a
        straight line; a setting's ends where the first of its runs does, diverged ones too. Raises
        ValueError for other figures, `RunFolderError` if a run's folder is missing.
        """
        check_axes(x, y)
        found = []
        for point, runs in self.table.groupby("point", sort=True):
            its = self.rounds[self.rounds["point"] == point]
            curves = [curve_of(its[its["seed"] == seed], x, y) for seed in runs["seed"]]
            curve = mean_curve(curves, x, y, step=step_of(runs, y), bounds=bounds_in(runs, y))
            factors = {name: runs[name].iloc[0] for name in self.factors}
            found.append(curve.assign(point=point, **factors, runs=len(runs)))
        columns = ["point", *self.factors, "runs", x, y, f"{y}_low", f"{y}_high"]
        kept = [one for one in found if len(one)]
        return (
            pd.concat(kept, ignore_index=True)[columns] if kept else pd.DataFrame(columns=columns)
        )

    def _repr_html_(self) -> str:
        """HTML for a notebook: every setting with its means."""
        runs, metrics, factors = self.table, self.metrics, self.factors
        ended = f"{len(self.completed)} of {len(runs)} runs completed"
        title = f"{self.content.get('name', self.path.name)}: {ended}"
        rows = [
            [
                *(escape(in_digits(one[name])) for name in factors),
                str(one["runs"]),
                *(escape(in_cell(one, metric)) for metric in metrics),
            ]
            for one in told_apart(point_means(runs, factors, metrics), factors).to_dict("records")
        ]
        heads = [*short_names(factors), "runs", *metrics]
        return titled(title, html_table(rows, heads), f"study folder: {self.path}")


def load_study(path: Path | str) -> LoadedStudy:
    """Loads a study's folder; raises `RunFolderError` if it is not one."""
    return LoadedStudy(Path(path))


def runs_of(path: Path | str) -> Iterator[tuple[LoadedRun, dict[str, str]]]:
    """Every run of a study's folder, on machines as profiled, with the level of each factor."""
    study = load_study(path)
    for row in study.table.to_dict("records"):
        setting = {name: in_digits(row[name]) for name in study.factors}
        yield load_run(study.path / row["folder"]), setting


def _read_table(path: Path, study: str) -> pd.DataFrame:
    """The table of a study's runs; raises `RunFolderError` if it is another table."""
    try:
        table = pd.read_parquet(path.absolute())
    except (OSError, ValueError) as error:  # Arrow's errors are of either type
        raise RunFolderError(f"{path}: not readable as Parquet ({error}); {REMEDY}") from error
    absent = [name for name in ("point", "seed", "folder", "status") if name not in table]
    if absent:
        raise RunFolderError(f"{path}: has no column {', '.join(absent)}; {REMEDY}")
    if len(table):
        figures = [name for name in ("point", "seed", *FIGURES) if name in table]
        words = [name for name in figures if not is_numeric_dtype(table[name])]
        if words:
            raise RunFolderError(f"{path}: no numbers in {', '.join(words)}; {REMEDY}")
        named = {str(one) for one in table.get("study", ())}
        if named - {study}:
            found = ", ".join(sorted(named))
            raise RunFolderError(f"{path}: the table of another study, {found}; {REMEDY}")
    return table
