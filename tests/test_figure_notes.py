"""Notes on figures whose names promise more than they mean, and where they are printed."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from simfl.console.comparison import print_comparison
from simfl.console.run import print_summary
from simfl.pictures.report.of_run import report_run
from simfl.runs.figure_notes import FIGURE_NOTES, figure_notes
from simfl.runs.runfolder import LoadedRun
from simfl.study.comparable import caveat_sentences
from simfl.study.kinds import kind_of
from tests.measures.runs import fedcure

BOUND = "efficiency.efficiency_gap_bound: shown, not certified"
GAP = "nash_gap.nash_gap, nash_gap.nash_gap_mean: a lower bound"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    """A few dispatches of FedCure, whose bound is printed."""
    folder = tmp_path_factory.mktemp("said") / "run"
    return fedcure(folder, "stop.versions=6", "evaluate.measures=[efficiency]")


def test_every_figure_is_one_of_a_shipped_measure() -> None:
    """A note on an unknown figure would never be printed."""
    assert all(kind_of(one) is not None for one in FIGURE_NOTES)


def test_a_sentence_names_all_figures_that_it_is_about() -> None:
    """Other figures have no notes."""
    found = figure_notes(["accuracy", "nash_gap.nash_gap", "nash_gap.nash_gap_mean"])

    assert [one.startswith(GAP) for one in found] == [True]
    assert figure_notes(["efficiency.efficiency_gap", "privacy.epsilon"]) == []


def test_tables_of_studies_say_it() -> None:
    """Below the figures that are asked for."""
    metrics = ["efficiency.efficiency_gap_bound", "nash_gap.nash_gap", "nash_gap.nash_gap_mean"]
    runs = pd.DataFrame({name: [1.0, 2.0] for name in metrics} | {"point": [0, 1]})

    found = caveat_sentences(runs, metrics)

    assert [one.startswith(said) for one, said in zip(found, (BOUND, GAP), strict=True)] == [
        True
    ] * 2


def test_the_summary_and_comparisons_say_it(
    run: LoadedRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below the table of measures."""
    monkeypatch.setenv("COLUMNS", "250")

    print_summary(run, run.path / "overview.png")
    assert capsys.readouterr().out.count(BOUND) == 1
    print_comparison([run, run], [])
    assert capsys.readouterr().out.count(BOUND) == 1


def test_the_report_says_it(run: LoadedRun, tmp_path: Path) -> None:
    """In the figure's own row."""
    page = report_run(run, tmp_path / "report.html").read_text(encoding="utf-8")

    row = page.partition("efficiency gap bound")[2].partition("</tr>")[0]
    assert "shown, not certified" in row
