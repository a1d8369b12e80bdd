"""What a study's runs answer, as a person reads it in a terminal of 80 columns."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from rich.console import Console

from simfl.console import answers
from simfl.console.tables import FigureTable
from simfl.study import figure_text
from simfl.study.comparisons import paired_differences
from simfl.study.effects import first_order_indices
from simfl.study.loaded import load_study
from simfl.study.polynomial_chaos import SMOOTHED
from simfl.study.studyfile import Study
from tests.study.censored import TARGET, censored_runs, censored_study
from tests.study.studies import run_here, session

FACTORS = {
    "decisions.allocation": ["max", "capped frequency_hz=8e+08"],
    "population.groups.0.link": ["wifi5_ac", "nr_sub6_lowband"],
}
ENERGY, SHARE = "energy_to_accuracy_0.8_j", "edge_participation.share_min"


def runs() -> pd.DataFrame:
    """Two factors and three seeds; the cap costs 40 to 60 J, and nothing of the share."""
    rows: list[dict[str, Any]] = []
    for place, (allocation, link) in enumerate(itertools.product(*FACTORS.values())):
        for seed in (1, 2, 3):
            capped = allocation != "max"
            figures = {ENERGY: 3000.0 + seed + capped * (40.0 + 5 * seed), SHARE: 0.2 + seed / 1e3}
            keys = dict(zip(FACTORS, (allocation, link), strict=True))
            about = {"point": place, "seed": seed, "folder": "", **keys, "status": "completed"}
            rows.append({**about, **figures})
    return pd.DataFrame(rows)


def shown(width: int, table: Any) -> list[str]:
    """The lines of a table on a terminal so wide."""
    console = Console(width=width)
    with console.capture() as captured:
        console.print(table)
    return captured.get().splitlines()


def test_differences_fit_a_terminal_of_80_columns() -> None:
    """A table per figure, in which no figure and no name is broken."""

    def tables(factor: str, baseline: str) -> list[Any]:
        asked = answers._comparisons(runs(), [ENERGY, SHARE], factor, baseline, list(FACTORS))
        return [table_with(one.differences["verdict"].tolist()) for one, table_with in asked]

    first, second = tables("population.groups.0.link", "wifi5_ac")
    capped, _ = tables("decisions.allocation", "max")

    for table, figure in ((first, ENERGY), (second, SHARE)):
        lines = shown(80, table)
        assert max(map(len, lines)) <= 80
        assert lines[0].strip() == f"{figure} against link wifi5_ac, pair by pair"
        (row,) = (line for line in lines if "nr_sub6_lowband" in line)
        assert "equal" in row
    # 45, 50 and 55 J on both links: Student's interval over three seeds is 50 +- 12.4.
    lines = shown(80, capped)
    (row,) = (line for line in lines if " 50 ±12 " in line)
    assert " +1.67 ±0.41 % " in row and " higher " in row
    assert any("frequency_hz=8e+08" in line for line in lines)  # names may be folded
    assert any(" 6.64 (1.7 to 22.4) " in line for line in lines)


@pytest.mark.parametrize("width", [80, 120])
def test_headings_break_between_words(width: int) -> None:
    """Behind "_" and ".", not within a number."""
    table = FigureTable("means", ["factor"], [ENERGY, SHARE, ENERGY], [["a", "1.5 ±0.2", "", ""]])

    heads = [line.replace("┃", " ").split() for line in shown(width, table)]

    words = {word for line in heads for word in line}
    assert {"energy_to_", "accuracy_", "0.8_j", "participation."} <= words


@pytest.mark.parametrize(
    ("mean", "half", "text"),
    [
        (3151.2, 283.7, "3151 ±284"),
        (-0.00062, 0.0018, "-0.0006 ±0.0018"),
        (0.5, 0.0, "0.5 ±0"),
        (0.5, float("nan"), "0.5"),
        (1e-9, 2e-8, "1e-09 ±2e-08"),
    ],
)
def test_as_many_digits_as_the_interval_bears(mean: float, half: float, text: str) -> None:
    """Two of the half width, and those decimals of the mean."""
    assert figure_text.with_interval(mean, half) == text


def test_all_answers_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Means, differences, fronts and main effects, in 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    questions = {
        "metrics": [ENERGY, SHARE],
        "compare": [
            {"factor": factor, "baseline": levels[0]} for factor, levels in FACTORS.items()
        ],
        "pareto": {ENERGY: "min", SHARE: "max"},
    }
    content = {"name": "tiny", "scenario": "base.yaml", "questions": questions}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(content))
    runs().to_parquet(tmp_path / "runs.parquet")

    answers.print_answers(Study.model_validate(content), load_study(tmp_path))

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert text.count("pair by pair") == 4
    for title in ("tiny: means", "Pareto front", "main effects"):
        assert text.count(title) == 1


def test_a_front_without_points_is_an_empty_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No run has the requested figure, such as the accuracy if nothing is learned."""
    questions = {"metrics": [SHARE], "pareto": {ENERGY: "min", SHARE: "max"}}
    content = {"name": "tiny", "scenario": "base.yaml", "questions": questions}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(content))
    runs().assign(**{ENERGY: float("nan")}).to_parquet(tmp_path / "runs.parquet")

    answers.print_answers(Study.model_validate(content), load_study(tmp_path))

    assert "Pareto front" in capsys.readouterr().out


def test_a_target_that_some_runs_missed_has_no_mean_in_any_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the 2.0 s of one run, beside the 2.5 s of two, nor a percentage of the two."""
    monkeypatch.setenv("COLUMNS", "160")
    study = censored_study(tmp_path)

    answers.print_answers(Study.model_validate(study.content), study)

    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("│ own")]
    mean, _, race = ([cell.strip() for cell in line.strip("│").split("│")] for line in lines)
    assert mean[-2:] == ["> 3", "1/3"]
    assert race[2:] == ["1/3", "2/3", "first in 1, behind in 2 of 3 pairs", "not all reached"]


def test_the_front_and_the_effects_say_what_they_leave_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Settings that are not ranked, and figures whose effects are not computed."""
    monkeypatch.setenv("COLUMNS", "160")
    runs = censored_runs()
    runs.insert(6, "size", runs["point"] % 2)
    study = censored_study(tmp_path, runs)

    answers.print_answers(Study.model_validate(study.content), study)

    text = capsys.readouterr().out
    assert "not ranked: own, size 1 (reached accuracy 0.38 in 1/3 runs)" in text
    assert f"main effects and Sobol indices of {TARGET} are not computed: 6 of 9 runs" in text


def test_one_seed_has_no_interval_and_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """However many settings it was run with."""
    monkeypatch.setenv("COLUMNS", "160")
    content = {
        "name": "tiny",
        "scenario": "base.yaml",
        "questions": {
            "metrics": [ENERGY, SHARE],
            "compare": [{"factor": "decisions.allocation", "baseline": "max"}],
        },
    }
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(content))
    runs().query("seed == 1").to_parquet(tmp_path / "runs.parquet")

    answers.print_answers(Study.model_validate(content), load_study(tmp_path))

    text = capsys.readouterr().out
    assert re.search(r"frequency_hz=8e\+08 +│ +1 │ +45 │ +\+1\.5% │ +one seed │ +- │", text)
    assert not re.search(r"\d ±|higher|lower|equal", text)


def test_a_study_of_which_the_baseline_alone_has_run_has_no_comparison_yet() -> None:
    """As after a kill, with --collect; it ended in a traceback."""
    there = runs().query("`decisions.allocation` == 'max'")

    tables = answers._comparisons(there, [ENERGY], "decisions.allocation", "max", list(FACTORS))

    assert list(tables) == []
    found = paired_differences(there, ENERGY, "decisions.allocation", "max", list(FACTORS))
    assert found.empty and {"difference", "verdict", "reached"} <= set(found)


def test_a_figure_that_no_run_has_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is learnt: no column of dashes, no empty front, no search for the best."""
    questions = {
        "metrics": ["accuracy", "time_s"],
        "pareto": {"accuracy": "max", "time_s": "min"},
        "best": {"maximize": "accuracy"},
    }
    base = {"data": {"name": "sizes", "examples_per_client": 8}, "algorithm": "none"}
    one = session(tmp_path, base=base, points=None, questions=questions)
    run_here(one)

    answers.print_answers(one.study, one.collect())

    said = capsys.readouterr().out
    assert said.count("accuracy") == 1
    assert "no run has the figure accuracy" in said and "time_s" in said

    (tmp_path / "unasked").mkdir()
    unasked = session(tmp_path / "unasked", base=base, points=None, questions={})
    run_here(unasked)
    answers.print_answers(unasked.study, unasked.collect())
    assert "accuracy" not in capsys.readouterr().out  # nobody asked for it


def test_a_study_of_which_all_runs_diverged_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has nothing to wait for."""
    local = {"steps": 1, "batch_size": 32, "learning_rate": 1e30}
    base = {
        "algorithm": {"name": "fedavg", "local": local},
        "model": {"name": "mlp", "hidden": [4]},
    }
    one = session(tmp_path, base=base, points=None)
    run_here(one)

    answers.print_answers(one.study, one.collect())

    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("no run has completed: 2 diverged (the loss is nan at version 1")


def test_an_index_lies_between_0_and_1_as_its_interval_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """For a key that explains everything, and one that explains nothing, with scatter over
    seeds.
    """
    rng = np.random.default_rng(2)
    rows = [
        {"point": 2 * a + b, "seed": seed, "a": a, "b": b, "status": "completed"}
        for a in range(3)
        for b in range(2)
        for seed in range(3)
    ]
    for one in rows:
        one |= {"folder": "", ENERGY: 3.0 * one["a"] + rng.standard_normal()}
    table = pd.DataFrame(rows)
    found = first_order_indices(table, ENERGY, ["a", "b"])["index"]
    assert found.max() > 1.0 and found.min() < 0.0  # what is estimated is a share all the same

    for shown in answers._first_order_indices(table, [ENERGY], ["a", "b"], []):
        answers.Terminal().print(shown)

    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert "take a figure for smooth" not in printed
    assert SMOOTHED in list(answers._first_order_indices(table, [ENERGY], ["a", "b"], ["a", "b"]))
    cells = [line.split("│")[3:6] for line in lines if f"│ {ENERGY}" in line]
    numbers = [[float(cell) for cell in row] for row in cells]
    assert [row[0] for row in numbers] == [1.0, 0.0]
    assert all(low <= index <= high for index, low, high in numbers)
