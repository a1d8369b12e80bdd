"""Warnings in a study's table, below its answers and at the head of its page."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import simfl
from simfl.console import answers
from simfl.console.terminal import Terminal
from simfl.console.warned import print_kinds
from simfl.pictures.report import page
from simfl.pictures.report.of_study import report_study
from simfl.study.loaded import LoadedStudy, load_study
from simfl.study.rows import row
from simfl.study.studyfile import Questions
from simfl.study.warned import warning_kinds
from tests.pictures.report.pages import Parsed
from tests.small import small
from tests.study.studies import run_here, session

KINDS = ["unverified_figures", "target_in_last_version", "unverified_figures"]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> LoadedStudy:
    """Four runs of the tiny study."""
    one = session(tmp_path_factory.mktemp("study"))
    run_here(one)
    one.collect()
    return load_study(one.folder.path)


def test_every_row_counts_and_names_its_warnings(study: LoadedStudy) -> None:
    """The runs' own, and that of a target that the first version meets."""
    for one in study.table.to_dict("records"):
        run = simfl.load_run(study.path / one["folder"])
        kinds = [*(found.kind for found in run.warnings), "target_at_once"]
        counts = [*(str(found.count) for found in run.warnings), "1"]
        first = run.rounds.iloc[0]
        at = f"(version 1, {first['time_s']:.4g} s): the true time and cost"
        *messages, at_once = one["warning_messages"].split("\n")
        assert one["warnings"] == len(one["warning_kinds"].split(", ")) == len(kinds)
        assert one["warning_kinds"] == ", ".join(kinds)
        assert one["warning_counts"] == ", ".join(counts)
        assert messages == [found.message for found in run.warnings]
        assert at_once.endswith(f" is met at the first evaluation {at} to get there may be lower")


def test_answers_end_with_a_line_per_kind(
    study: LoadedStudy, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says how many runs have the warning, with the message of one of them."""
    from simfl.study.studyfile import Study

    answers.print_answers(Study.model_validate(study.content), study)

    runs = len(study.table)
    said = capsys.readouterr().out
    assert f"warning: unverified figures: {runs} of {runs} runs" in said
    assert " figures of the hardware are estimates" in said


def test_a_page_begins_with_the_warnings(
    study: LoadedStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before what ran."""
    monkeypatch.setattr(page, "plotly_script", lambda: "/* charts */")

    text = Parsed(report_study(study, tmp_path / "report.html")).text

    runs = len(study.table)
    assert text.index(f"{runs} of {runs}") < text.index("What ran")


def test_kinds_are_counted_by_run() -> None:
    """A run with two kinds counts for both; one without warnings for none."""
    table = pd.DataFrame({"warning_kinds": [", ".join(KINDS[:2]), KINDS[2], ""]})

    counts = [(one.kind, one.runs) for one in warning_kinds(table)]

    assert counts == [
        ("unverified_figures", "2 of 3 runs"),
        ("target_in_last_version", "1 of 3 runs"),
    ]


@pytest.mark.parametrize(("kinds", "told"), [(["unread_keys", ""], 0), (["unread_keys"] * 2, 1)])
def test_keys_that_other_settings_read_are_not_told(kinds: list[str], told: int) -> None:
    """A staleness rule stands in the common scenario for those of the protocols that use it."""
    table = pd.DataFrame({"warning_kinds": kinds})

    assert len(warning_kinds(table)) == told
    assert len(warning_kinds(table, ["first", "second"])) == 1


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (("1", "30, 1"), "2 of 3 runs, 1 to 30 per run"),
        (("4", "4, 1"), "2 of 3 runs, 4 per run"),
        (("1", "1, 1"), "2 of 3 runs"),
    ],
)
def test_a_line_says_how_often_a_run_was_warned_of_it(
    counts: tuple[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One starved round of thirty is not thirty of thirty."""
    kinds = ["starved_rounds", "starved_rounds, target_in_last_version", ""]
    messages = ["of the first", "of the second\nof the target", ""]
    table = pd.DataFrame(
        {
            "warning_kinds": kinds,
            "warning_counts": [*counts, ""],
            "warning_messages": messages,
        }
    )

    print_kinds(Terminal(), warning_kinds(table))

    lines = capsys.readouterr().out.splitlines()
    assert f"warning: starved rounds: {said}" in lines
    assert "warning: target in last version: 1 of 3 runs" in lines
    worst = "first" if int(counts[0]) >= int(counts[1].split(",")[0]) else "second"
    said = [line.strip() for line in lines if "as: " in line]
    assert said == [f"as: of the {worst}", "as: of the target"]


@pytest.mark.parametrize(
    ("stop", "reached_at", "warned"),
    [
        ({"versions": 5}, -1, True),
        ({"versions": 5}, -2, False),
        ({"versions": 5, "accuracy": 1.0}, -1, False),
        ({"versions": 1}, -1, False),
    ],
)
def test_a_target_that_only_the_last_version_meets(
    stop: dict[str, Any], reached_at: int, warned: bool, tmp_path: Path
) -> None:
    """Not one met before, not one at which the run was to stop, and not the only evaluation."""
    run = simfl.run(small(stop=stop, seed=5), tmp_path / "run")
    accuracy = [0.1 * place for place in range(len(run.rounds))]
    run.rounds["accuracy"] = accuracy

    targets = Questions(targets={"accuracy": [accuracy[reached_at]]}).target_columns()

    assert ("target_in_last_version" in row(run, targets)["warning_kinds"]) == warned


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"accuracy": [0.4]}, "accuracy 0.4 is met at the first evaluation (version 2, "),
        ({"accuracy": [0.41]}, None),
        ({"loss": [1.5]}, "loss 1.5 is met at the first evaluation (version 2, "),
        ({"loss": [1.49]}, None),
        (
            {"accuracy": [0.3, 0.41, 0.2], "loss": [1.6]},
            "accuracy 0.3, accuracy 0.2, loss 1.6 are met at the first evaluation (version 2, ",
        ),
    ],
)
def test_a_target_that_the_first_evaluation_meets(
    asked: dict[str, Any], said: str | None, tmp_path: Path
) -> None:
    """Versions that are not evaluated do not count."""
    run = simfl.run(small(stop={"versions": 4}, evaluate={"every": 2}), tmp_path / "run")
    run.rounds["accuracy"] = [math.nan, 0.4, math.nan, 0.6]
    run.rounds["loss"] = [math.nan, 1.5, math.nan, 1.2]

    one = row(run, Questions(targets=asked).target_columns())

    told = [line for line in one["warning_messages"].split("\n") if "first evaluation" in line]
    assert ("target_at_once" in one["warning_kinds"]) == (said is not None)
    assert len(told) == (said is not None) and all(line.startswith(str(said)) for line in told)


@pytest.mark.parametrize("target", [0.0, 0.1])
def test_a_target_at_which_the_run_ended_is_told_once(target: float, tmp_path: Path) -> None:
    """By the run itself."""
    run = simfl.run(small(stop={"accuracy": 0.05}), tmp_path / "run")

    one = row(run, Questions(targets={"accuracy": [target]}).target_columns())

    assert len(run.rounds) == 1
    assert one["warning_kinds"].split(", ").count("target_at_once") == 1
