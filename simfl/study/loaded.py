"""A study read back from its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_numeric_dtype
from pydantic import TypeAdapter

from simfl.runs.runfolder import RunFolderError
from simfl.scenario.validation.validate import validate
from simfl.scenario.yaml_source.source import KeyPath, read_source
from simfl.study.figures import FIGURES
from simfl.study.means import factor_names
from simfl.study.studyfile import Questions, Study

STUDY, TABLE = "study.yaml", "runs.parquet"
REMEDY = "run `simfl study ... --collect`"
"""What makes the table of a study's runs anew."""


class LoadedStudy:
    """A study read back: `table` (one row per run), `content` (the study file), its questions.

    Raises `RunFolderError` or `ScenarioError` where the folder holds no such study.
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
        """What the study asks, defaults included."""
        self.table: pd.DataFrame = _read_table(path / TABLE, study.name)

    @property
    def completed(self) -> pd.DataFrame:
        """The rows of runs that completed."""
        return self.table[self.table["status"] == "completed"]

    @property
    def factors(self) -> list[str]:
        """The columns that tell settings apart."""
        return factor_names(self.table)

    @property
    def sampled(self) -> list[str]:
        """Those factors that were drawn from intervals."""
        sample = (self.content.get("points") or {}).get("sample") or {}
        return list(sample.get("over", {}))


def load_study(path: Path | str) -> LoadedStudy:
    """Read a study's folder; raises `RunFolderError` if it is none."""
    return LoadedStudy(Path(path))


def _read_table(path: Path, study: str) -> pd.DataFrame:
    """The table of a study's runs; raises `RunFolderError` where it is another table."""
    try:
        table = pd.read_parquet(path.absolute())
    except (OSError, ValueError) as error:  # of Arrow's errors some are the one, some the other
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
