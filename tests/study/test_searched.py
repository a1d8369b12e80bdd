"""What a search has found: its path, which key mattered, the settings as options, and where it is
shown."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from rich.console import Console

from simfl.console import answers
from simfl.pictures.report import page
from simfl.pictures.report.of_study import report_study
from simfl.scenario.yaml_source.source import key_and_value
from simfl.study.loaded import LoadedStudy, load_study
from simfl.study.searched import (
    found_in_words,
    options_of,
    search_importances,
    search_path,
    standing,
)
from simfl.study.studyfile import Search, Study
from tests.pictures.report.pages import Parsed
from tests.study.searches import OVER, run_trials, search, searched

pytest.importorskip("optuna", reason="a search needs Optuna: simfl[search]")


def of_joules(*joules: float, **changes: Any) -> tuple[pd.DataFrame, Search]:
    """A search whose trials took so many joules, and bytes that are 10 less them."""
    one = search(trials=len(joules), **changes)
    batch: list[Any] = [(0.1, count, 0) for count in range(1, len(joules) + 1)]
    keys = {choice[1]: value for choice, value in zip(batch, joules, strict=True)}
    table = run_trials(
        one,
        batch,
        0,
        lambda its, _: {"energy_j": keys[its["count"]], "bytes": 10 - keys[its["count"]]},
    )
    return table, one


def test_a_path_by_hand() -> None:
    """The best so far among those that meet the bound; equal runs are counted once."""
    table, one = of_joules(2.0, 5.0, 4.0, 4.0, 3.0, subject_to={"energy_j": ">= 3"})
    table.loc[table["point"] == 3, "digest"] = table.loc[table["point"] == 2, "digest"].tolist()

    path = search_path(table, one)

    assert path["feasible"].tolist() == [False, True, True, True, True]
    assert path["best"].fillna(0.0).tolist() == [0.0, 5.0, 4.0, 4.0, 3.0]
    assert path["better"].tolist() == [False, True, True, False, True]
    assert path["front"].tolist() == [False, False, False, False, True]
    assert path["runs"].tolist() == [2, 4, 6, 6, 8]
    assert path["kept"].tolist() == [0, 2, 2, 2, 2]
    assert standing(table, one) == "5 of 5 trials ended, best so far: energy_j 3"


def test_a_trial_chosen_by_validation_has_its_test_accuracy_beside() -> None:
    """Which had no part in the search."""
    name = "model_selection.validation_accuracy"
    one = search(trials=2, minimize=None, maximize=name)
    table = run_trials(
        one,
        [(0.1, 1, 0), (0.1, 2, 0)],
        0,
        lambda its, _: {name: its["count"] / 10, "accuracy": 0.5 - its["count"] / 10},
    )

    first, *_ = found_in_words(table, search_path(table, one), one)

    assert "trial 1: 0.2 ±0 (on the test set, which the choice did not see: accuracy 0.3" in first


def test_where_no_trial_keeps_to_the_bounds_the_nearest_is_told() -> None:
    """The one that is least beyond them, though another has fewer joules."""
    table, one = of_joules(2.0, 5.0, 4.0, subject_to={"bytes": "<= 4"})

    said = found_in_words(table, search_path(table, one), one)

    assert said == [
        "no trial is known to keep to what is asked with every seed; nearest is trial 1: 0/2 seeds,"
        " energy_j 5 ±0, bytes 5 ±0"
    ]


def test_so_it_is_where_several_figures_are_asked_for() -> None:
    """By 3/4 and 1/2 of the bounds it is beyond them, the others by 1/4 and 3/2, and 1/2 and 1."""
    asked = {"minimize": None, "pareto": {"energy_j": "min", "bytes": "min"}}
    bounds = {"bytes": "<= 4", "energy_j": "<= 2"}
    table, one = of_joules(3.0, 5.0, 4.0, subject_to=bounds, **asked)

    said = found_in_words(table, search_path(table, one), one)

    assert said == [
        "no trial is known to keep to what is asked with every seed; nearest is trial 0: 0/2 seeds,"
        " energy_j 3 ±0, bytes 7 ±0"
    ]


def test_a_trial_counts_when_its_seeds_have_all_run() -> None:
    """Later ones wait for it, as they do when they are asked."""
    table, one = of_joules(5.0, 4.0, 3.0)

    assert search_path(table[~((table["point"] == 1) & (table["seed"] == 2))], one).shape[0] == 1


def test_the_path_of_several_objectives() -> None:
    """What no trial before it is as good as in everything; the front is of all."""
    table, one = of_joules(
        3.0, 3.0, 4.0, 1.0, minimize=None, pareto={"energy_j": "min", "bytes": "min"}
    )

    path = search_path(table, one)

    assert path["better"].tolist() == [True, False, True, True]
    assert path["front"].all() and "best" not in path


def test_the_key_that_the_figure_goes_by_matters_most() -> None:
    """Joules that depend on the count only; the importances are reproducible."""
    one = search()
    _, table = searched(one, lambda keys, seed: {"energy_j": float(keys["count"]), "bytes": 1.0})

    found = search_importances(table, one)

    assert found["key"].iloc[0] == "count" and found["importance"].iloc[0] > 0.9
    assert found["importance"].sum() == pytest.approx(1.0)
    assert search_importances(table, one).equals(found)
    assert search_importances(table[table["point"] < 5], one).empty


def write(folder: Path, table: pd.DataFrame, one: Search) -> tuple[Study, LoadedStudy]:
    """A search's folder of these runs, read back, and its file."""
    way = "maximize" if one.maximize else "minimize"
    goal = {"pareto": dict(one.pareto)} if one.pareto else {way: getattr(one, way)}
    over = {"trials": one.trials, "batch": one.batch, "over": OVER, **goal}
    common = {"stop.versions": 20, "name": "a: b"}
    questions = {"metrics": ["energy_j"]}
    content = {"name": "bowl", "scenario": "starter", "set": common, "search": over}
    (folder / "study.yaml").write_text(
        yaml.safe_dump({**content, "questions": questions}, sort_keys=False)
    )
    table.to_parquet(folder / "runs.parquet")
    return Study.model_validate({**content, "questions": questions}), load_study(folder)


@pytest.mark.parametrize("pareto", [None, {"accuracy": "max", "bytes": "min"}])
def test_axes_of_a_regression_say_what_its_accuracy_is(
    pareto: dict[str, Any] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R^2, which is no share."""
    monkeypatch.setattr(page, "plotly_script", lambda: "")
    goal = {"pareto": pareto} if pareto else {"maximize": "accuracy"}
    one = search(trials=5, minimize=None, **goal)
    _, table = searched(one, lambda its, seed: {"accuracy": its["rate"], "bytes": seed})
    for task, axis in (("regression", "R^2 (1)"), ("classification", "accuracy (share)")):
        _, study = write(tmp_path, table.assign(task=task), one)
        text = report_study(study, tmp_path / "report.html").read_text(encoding="utf-8")
        assert f'"text": "{axis}"' in text or f'"text":"{axis}"' in text


@pytest.mark.parametrize("pareto", [None, {"energy_j": "min", "bytes": "min"}])
def test_what_was_found_stands_in_the_terminal_and_on_the_page(
    pareto: dict[str, Any] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path, the best or the front, the options, and which key mattered.

    There are no main effects or Sobol indices, since trials are not a sample. Without Optuna a line
    says what is missing.
    """
    monkeypatch.setattr(page, "plotly_script", lambda: "/* charts */")
    one = search(trials=10, **({"minimize": None, "pareto": pareto} if pareto else {}))
    _, table = searched(one)
    file, study = write(tmp_path, table, one)
    path = search_path(table, one)
    options = options_of(study, path, one)
    console = Console(record=True, width=200)
    monkeypatch.setattr(answers, "Terminal", lambda: console)

    answers.print_answers(file, study)
    text = Parsed(report_study(study, tmp_path / "report.html")).text

    said = console.export_text()
    assert len(options) == (path["front"].sum() if pareto else 1)
    for trial, words in options:
        assert f"trial {trial}: {words}" in said
        assert f"Trial {trial}, for simfl run: {words}" in text
    assert "the path of 10 trials, 20 runs" in said and "10 of 10 trials have ended" in text
    assert "which key mattered" in said and "Which key mattered" in text
    assert "importances have no interval" in said and "importances have no interval" in text
    assert "Sobol" not in said + text and "main effects" not in said + text
    monkeypatch.setitem(sys.modules, "optuna", None)
    answers.print_answers(file, study)
    assert "which key mattered: a search needs Optuna: pip install" in console.export_text()


def test_options_are_the_trials_keys(tmp_path: Path) -> None:
    """As the command line reads them: the study's common ones, exact numbers, sections."""
    table, one = of_joules(5.0, 3.0)
    table["rule"] = "random share=0.5"

    ((trial, text),) = options_of(write(tmp_path, table, one)[1], search_path(table, one), one)

    words = shlex.split(text)
    assert trial == 1 and words[::2] == ["--set"] * 5
    assert dict(map(key_and_value, words[1::2])) == {
        "stop.versions": 20,
        "name": "a: b",
        "rate": 0.1,
        "count": 2,
        "rule": {"name": "random", "share": 0.5},
    }
