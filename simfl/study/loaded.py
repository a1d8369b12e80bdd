"""A study read back from its folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from simfl.runfolder import RunFolderError
from simfl.study.means import factor_names
from simfl.study.studyfile import Questions
from simfl.yaml_source import read_source

STUDY, TABLE = "study.yaml", "runs.parquet"


class LoadedStudy:
    """A study read back: `table` (one row per run), `content` (the study file), its questions."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not (path / STUDY).exists():
            raise RunFolderError(f"{path}: no study's folder (it has no {STUDY})")
        if not (path / TABLE).exists():
            raise RunFolderError(f"{path}: has no {TABLE} yet; run `simfl study ... --collect`")
        self.content: Mapping[str, Any] = read_source(path / STUDY).content
        self.table: pd.DataFrame = pd.read_parquet(path / TABLE)

    @cached_property
    def questions(self) -> Questions:
        """What the study asks, defaults included."""
        return Questions.model_validate(self.content.get("questions") or {})

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
