"""pandas, polars and DuckDB read the same numbers out of a run's events."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path

import pandas as pd
import pytest

import simfl
from tests.small import small

SCRIPT = Path(__file__).parents[2] / "analysis" / "reading_events.py"


def test_every_reader_that_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One answer per library, all equal, and the joules are the run's."""
    run = simfl.run(small(stop={"versions": 2}), tmp_path / "run")
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(run.path)])

    answers = runpy.run_path(str(SCRIPT), run_name="__main__")["answers"]

    readers = {"pandas": "pandas", "polars": "polars", "duckdb": "DuckDB"}
    installed = {name for module, name in readers.items() if importlib.util.find_spec(module)}
    assert set(answers) == installed
    assert answers["pandas"]["energy_j"].sum() == pytest.approx(run.manifest["energy_j"])
    for answer in answers.values():
        pd.testing.assert_frame_equal(answer, answers["pandas"], check_dtype=False)
