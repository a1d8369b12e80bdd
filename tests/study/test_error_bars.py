"""A scenario or a run alone becomes a study of its own: error bars beside its figures."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml
from scipy.stats import binomtest
from typer.testing import CliRunner

import simfl
from simfl.cli.app import app
from simfl.study import session
from simfl.study.loaded import load_study
from simfl.study.reliability import reliability_sentences
from simfl.study.studyfile import Study, Uncertainty
from simfl.study.worker import work
from tests.small import SMALL

CONTENT = {**SMALL, "name": "few", "seed": 3}
ENDS = SMALL["stop"]


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points run here; those of tests/study/test_processes.py have processes of their own."""
    monkeypatch.setattr(session, "run_locally", lambda tasks, workers, watch: map(work, tasks))


def written(folder: Path, **keys: object) -> Path:
    """A scenario's file."""
    file = folder / "mine.yaml"
    file.write_text(yaml.safe_dump(CONTENT | keys))
    return file


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> simfl.LoadedRun:
    """A run of two rounds."""
    return simfl.run(CONTENT, tmp_path_factory.mktemp("alone") / "few")


def asked(*arguments: object) -> str:
    """What `simfl study` prints."""
    result = CliRunner().invoke(app, ["study", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


def cells(printed: str) -> dict[str, list[str]]:
    """The rows of a printed table, by their first cells."""
    rows = [line.split("│")[1:-1] for line in printed.splitlines() if line.startswith("│")]
    return {first.strip(): [cell.strip() for cell in rest] for first, *rest in rows}


@pytest.mark.parametrize("algorithm", ["none", {"name": "none", "local": {"epochs": 1}}, "fedavg"])
def test_a_run_that_learns_nothing_has_no_accuracy_to_ask_for(
    tmp_path: Path, algorithm: object
) -> None:
    """Nobody asked for it."""
    study = Study.from_yaml(written(tmp_path, algorithm=algorithm))

    assert ("accuracy" in study.questions.metrics) == (algorithm == "fedavg")
    assert "time_s" in study.questions.metrics


def test_a_scenario_alone_is_repeated_with_its_seed_and_the_four_after_it(tmp_path: Path) -> None:
    """Under a name of its own, and asked for its main figures."""
    study = Study.from_yaml(written(tmp_path))

    assert study.name == "few_error_bars"
    assert study.seeds == (3, 4, 5, 6, 7)
    assert study.base.where().source.content["stop"] == ENDS
    assert {"accuracy", "time_s", "client_energy_j"} <= set(study.questions.metrics)
    assert study.uncertainty is None


def test_where_a_region_counts_co2_it_is_asked_for(tmp_path: Path) -> None:
    """And is not where nobody counts it."""
    region = Study.from_yaml(written(tmp_path), overrides=["population.region=grid_sweden"])
    plain = Study.from_yaml(written(tmp_path))

    assert "carbon_gco2" in region.questions.metrics
    assert "carbon_gco2" not in plain.questions.metrics


@pytest.mark.parametrize(
    ("stop", "override", "metric"),
    [
        ({"versions": 2, "accuracy": 0.5}, [], "time_to_accuracy_0.5_s"),
        ({"versions": 2, "loss": 2}, [], "client_energy_to_loss_2_j"),
        ({"versions": 2, "accuracy": 0.5}, ["stop.accuracy=0.6"], "time_to_accuracy_0.6_s"),
    ],
)
def test_where_a_scenario_stops_is_asked_for(
    stop: dict[str, float], override: list[str], metric: str, tmp_path: Path
) -> None:
    """A run that missed its target ends early: its seconds are not those to the target."""
    study = Study.from_yaml(written(tmp_path, stop=stop), overrides=override)

    assert metric in study.questions.metrics
    assert len(study.questions.metrics) == 8


def test_a_run_folder_has_error_bars_over_seeds_and_machines(
    run: simfl.LoadedRun, tmp_path: Path
) -> None:
    """A figure a row: the mean over seeds and, of seconds and joules, an interval over machines."""
    out = tmp_path / "bars"

    rows = cells(asked(run.path, "--draws", 3, "--seeds", "3-4", "--out", out))
    study = load_study(out)

    mean = study.table["time_s"].mean()
    half = 12.7062 * study.table["time_s"].std() / 2**0.5  # Student's t, one degree of freedom
    said, error = rows["time_s"][0].split(" ±")
    assert float(said) == pytest.approx(mean, rel=0.02)
    assert float(error) == pytest.approx(half, rel=0.05)
    low, _, high = rows["time_s"][1].partition(" to ")
    assert 0 < float(low) < float(high)
    assert rows["accuracy"][1] == "the same"
    assert study.table.loc[study.table["seed"] == 3, "time_s"].item() == run.manifest["horizon_s"]


def test_with_one_seed_the_heading_says_that_there_is_no_interval(
    run: simfl.LoadedRun, tmp_path: Path
) -> None:
    """A figure stands alone."""
    printed = asked(run.path, "--seeds", "3", "--out", tmp_path / "one")

    assert "one seed, no intervals over seeds" in " ".join(printed.split())
    assert "±" not in printed


def test_drawn_machines_are_asked_for_on_the_command_line(tmp_path: Path) -> None:
    """Also for a study's file, where the option replaces its own number."""
    written(tmp_path)
    file = tmp_path / "study.yaml"
    file.write_text("scenario: mine.yaml\nuncertainty: {draws: 7}\n")

    assert Study.from_yaml(file, draws=9).uncertainty == Uncertainty(draws=9)
    assert Study.from_yaml(file).uncertainty == Uncertainty(draws=7)

    file.write_text("scenario: mine.yaml\nset: {population.hardware_draw: 1}\n")
    told = CliRunner().invoke(app, ["study", str(file), "--draws", "3"])
    assert told.exit_code == 2
    assert "--draws: uncertainty: found population.hardware_draw set, too" in told.stderr


def test_a_file_that_is_neither_says_so(tmp_path: Path) -> None:
    """A scenario with a study's keys, and half a scenario, are told as studies."""
    file = written(tmp_path, points={})
    for content in (file.read_text(), "data: {name: digits}\n"):
        file.write_text(content)
        told = CliRunner().invoke(app, ["study", str(file)])
        assert told.exit_code == 2
        assert f"{file}:" in told.stderr
        assert "unknown key 'data'" in told.stderr or "unknown key 'algorithm'" in told.stderr


def test_a_run_says_what_its_test_examples_leave_open_and_how_to_get_error_bars(
    run: simfl.LoadedRun, tmp_path: Path
) -> None:
    """Wilson's interval, equal to scipy's; in the report, too."""
    examples = run.manifest["test_examples"]
    accuracy = run.rounds["accuracy"].iloc[-1]
    right = round(accuracy * examples)
    low, high = binomtest(right, examples).proportion_ci(method="wilson")

    of_test, of_bars = reliability_sentences(run)

    assert f"the {examples} of the test set" in of_test
    assert f"{low:.3f} to {high:.3f} (95 %)" in of_test
    assert f"`simfl study {run.path} --draws 20`" in of_bars
    page = tmp_path / "page.html"
    told = CliRunner().invoke(app, ["report", str(run.path), "--out", str(page)])
    assert told.exit_code == 0, told.output
    assert f"{low:.3f} to {high:.3f} (95 %)" in page.read_text()


def test_a_run_that_stopped_at_its_accuracy_says_that_it_may_be_luck(
    run: simfl.LoadedRun, tmp_path: Path
) -> None:
    """The first evaluation above a bound is on average above what other examples would show."""
    stopped = simfl.run({**CONTENT, "stop": {"versions": 3, "accuracy": 0.05}}, tmp_path / "run")

    assert stopped.manifest["reason"] == "accuracy reached 0.05"
    assert "so it is partly luck" in reliability_sentences(stopped)[1]
    assert not any("luck" in one for one in reliability_sentences(run))


def test_a_run_on_drawn_machines_is_not_drawn_again(tmp_path: Path) -> None:
    """A study with draws also runs on the machines as profiled, which this scenario excludes."""
    content = {**CONTENT, "population": {**SMALL["population"], "hardware_draw": 4}}
    run = simfl.run(content, tmp_path / "drawn")

    told = CliRunner().invoke(app, ["study", str(run.path), "--draws", "3"])

    assert told.exit_code == 2
    assert "population.hardware_draw: found 4, accepted: null" in told.stderr
    assert "(--draws)" in told.stderr
    assert (
        f"machines of draw 4. For error bars over seeds: `simfl study {run.path}`"
        in reliability_sentences(run)[-1]
    )


def test_a_regression_is_not_taken_for_a_share(run: simfl.LoadedRun, tmp_path: Path) -> None:
    """R^2 that happens to be a multiple of 1 / examples is not a share of them."""
    folder = tmp_path / "regression"
    shutil.copytree(run.path, folder)
    manifest = folder / "manifest.json"
    text = manifest.read_text()
    assert '"task": "classification"' in text
    manifest.write_text(text.replace('"task": "classification"', '"task": "regression"'))

    assert len(reliability_sentences(simfl.load_run(folder))) == 1
