"""A study file: what it means, and that every mistake is told with file, line and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simfl.scenario.yaml_source.error import ScenarioError
from simfl.study.figures import FIGURES
from simfl.study.levels import level
from simfl.study.plan import points
from simfl.study.studyfile import Study
from tests.study.studies import write_study

HEAD = "scenario: base.yaml\n"


def error_of(folder: Path, text: str) -> str:
    """The error of a study file that begins with HEAD (line 1) and continues with `text`."""
    write_study(folder)
    file = folder / "bad.yaml"
    file.write_text(HEAD + text)
    with pytest.raises(ScenarioError) as caught:
        points(Study.from_yaml(file))
    return str(caught.value).replace(str(folder), "DIR")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 3", "DIR/bad.yaml:2: seed: unknown key 'seed', did you mean 'seeds'?"),
        ("seeds: []", "DIR/bad.yaml:2: seeds: found []"),
        ("seeds: [1, 1]", "DIR/bad.yaml:2: seeds: found [1, 1], accepted: each seed once"),
        ("seeds: [1, x]", "DIR/bad.yaml:2: seeds.1: found 'x', accepted: an integer >= 0"),
        (
            "points: {grid: {algorithm.mu: []}}",
            "DIR/bad.yaml:2: points.grid.algorithm.mu: found []",
        ),
        (
            "points:\n  sample:\n    method: sobol\n    size: 12\n"
            "    over: {algorithm.local.learning_rate: {low: 0.1, high: 1}}",
            "DIR/bad.yaml:5: points.sample.size: found 12, but a Sobol sample is balanced",
        ),
        (
            "points:\n  sample:\n    method: sobol\n    size: 4\n    over:\n"
            "      algorithm.local.learning_rate: {low: 0.0, high: 1, scale: log}",
            "DIR/bad.yaml:7: points.sample.over.algorithm.local.learning_rate.low: found 0",
        ),
        (
            "points:\n  grid: {stop.versions: [1]}\n  sample:\n    method: sobol\n    size: 4\n"
            "    over: {stop.versions: {low: 1, high: 4, integer: true}}",
            "DIR/bad.yaml:7: points.sample.over.stop.versions: found a key that points.grid varies",
        ),
        (
            "set: {population.backhaul: lte_2021}",
            "DIR/bad.yaml:2: population.backhaul: nothing reads it, in any point that sets it so:"
            " synchronous has no edge servers",
        ),
        (
            "points:\n  grid:\n    decisions.scheduling: [greedy, random]",
            "DIR/bad.yaml:4: decisions.scheduling: nothing reads it",
        ),
        (
            "points:\n  variants:\n    plain: {protocol: hierarchical}\n"
            "    other: {decisions.association: random}",
            "DIR/bad.yaml:5: decisions.association: nothing reads it",
        ),
        (
            "points:\n  sample:\n    method: sobol\n    size: 4\n"
            "    over: {population.side_m: {low: 1, high: 4}}",
            "DIR/bad.yaml:6: population.side_m: nothing reads it",
        ),
        (
            "set: {decisions.selection.share: 0.3}\n"
            "points: {grid: {decisions.selection: [all, {name: random, share: 0.5}]}}",
            "DIR/bad.yaml:2: decisions.selection.share: nothing reads it, in any point that sets it"
            " so: decisions.selection is set as a whole",
        ),
        (
            "points:\n  grid:\n    decisions.selection.share: [0.3, 0.9]\n"
            "    decisions.selection: [{name: random, count: 1}]",
            "DIR/bad.yaml:4: decisions.selection.share: nothing reads it",
        ),
        (
            "points: {grid: {stop.versions: [1, 2, 1.0]}}",
            "DIR/bad.yaml:2: points.grid.stop.versions.2: found 1.0 once more, accepted: values"
            " that tables tell apart",
        ),
        (
            "points:\n  grid:\n    decisions.allocation:\n      - {name: capped, share: 0.6}\n"
            "      - {name: capped, share: 0.60000001}",
            "DIR/bad.yaml:6: points.grid.decisions.allocation.1: found capped share=0.6 once more",
        ),
        (
            "search: {trials: 1, minimize: time_s,"
            " over: {decisions.allocation: [max, {name: max}]}}",
            "DIR/bad.yaml:2: search.over.decisions.allocation.1: found max once more",
        ),
        (
            "questions: {metrics: [accuracies]}",
            "DIR/bad.yaml:2: questions.metrics.0: unknown figure 'accuracies', did you mean"
            " 'accuracy'?",
        ),
        (
            "questions: {metrics: [accuracy_spread.accuracy_sdt]}",
            "DIR/bad.yaml:2: questions.metrics.0: unknown figure 'accuracy_spread.accuracy_sdt',"
            " did you mean 'accuracy_std'? accepted: accuracy_mean, accuracy_worst, accuracy_std of"
            " accuracy_spread",
        ),
        (
            "questions:\n  metrics: [accuracy, time_to_accuracy_0.90_s]",
            "DIR/bad.yaml:3: questions.metrics.1: unknown figure 'time_to_accuracy_0.90_s'",
        ),
        (
            "questions:\n  best: {minimize: bytes, subject_to: {time_to_acuracy_0.9_s: '< 3'}}",
            "DIR/bad.yaml:3: questions.best.subject_to.time_to_acuracy_0.9_s: unknown figure",
        ),
        (
            "questions:\n  targets:\n    accuracy: [0.5, 90.0]",
            "DIR/bad.yaml:4: questions.targets.accuracy.1: found 90, accepted: an accuracy of at"
            " most 1, a share",
        ),
        (
            "questions: {targets: {loss: [0.12345671, 0.12345672]}}",
            "DIR/bad.yaml:2: questions.targets.loss.1: found time_to_loss_0.123457_s once more",
        ),
        (
            "questions: {metrics: [time_to_accuracy_90_s]}",
            "DIR/bad.yaml:2: questions.metrics.0: found 90, accepted: an accuracy of at most 1",
        ),
        (
            "questions: {pareto: {joules: min}}",
            "DIR/bad.yaml:2: questions.pareto.joules: unknown figure 'joules'",
        ),
        (
            "questions: {compare: [{factor: protocol, baseline: synchronous}]}",
            "DIR/bad.yaml:2: questions.compare.0.factor: unknown factor 'protocol'",
        ),
        (
            "search: {trials: 4, over: {stop.versions: {low: 1}}, minimize: time_s}",
            "DIR/bad.yaml:2: search.over.stop.versions.high: found nothing, accepted: a number",
        ),
        (
            "search: {trials: 4, over: {stop.versions: [1]}, minimize: time_s}",
            "DIR/bad.yaml:2: search.over.stop.versions: found [1], accepted: ",
        ),
        (
            "search:\n  trials: 4\n  over: {stop.versions: [1, 2, 3]}\n  minimize: time_s",
            "DIR/bad.yaml:3: search.trials: found 4, but there are 3 settings; points.grid runs",
        ),
        (
            "search: {trials: 2, over: {stop.versions: [1, 2]}}",
            "DIR/bad.yaml:2: search: found ",
        ),
        (
            "search: {trials: 2, over: {stop.versions: [1, 2]}, minimize: time}",
            "DIR/bad.yaml:2: search.minimize: unknown figure 'time', did you mean 'time_s'?",
        ),
        (
            "search:\n  trials: 2\n  over: {stop.versions: [1, 2]}\n"
            "  pareto: {time_s: min, wall_s: min}",
            "DIR/bad.yaml:5: search.pareto.wall_s: found wall_s, accepted: a figure of what is sim",
        ),
        (
            "search: {trials: 2, over: {stop.versions: [1, 2]}, minimize: time_s,"
            " subject_to: {acuracy: '> 1'}}",
            "DIR/bad.yaml:2: search.subject_to.acuracy: unknown figure 'acuracy', did you mean",
        ),
        (
            "points: {grid: {stop.versions: [1, 2]}}\n"
            "search: {trials: 2, over: {stop.versions: [1, 2]}, minimize: time_s}",
            "DIR/bad.yaml:2: points: found points beside a search, accepted: one of them",
        ),
    ],
)
def test_what_is_wrong_with_the_study(tmp_path: Path, text: str, message: str) -> None:
    """The first mistake of the file itself, in one line."""
    assert error_of(tmp_path, text).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "points:\n  grid:\n    algorithm.local.steps:\n      - 1\n      - none\n",
            "DIR/bad.yaml:6: algorithm.local.steps: found 'none', accepted: an integer",
        ),
        (
            "points:\n  variants:\n    a: {algorithm: fedavgg}",
            "DIR/bad.yaml:4: algorithm.name: unknown name 'fedavgg', did you mean 'fedavg'?",
        ),
        ("set:\n  stop.version: 2", "DIR/bad.yaml:3: stop.version: unknown key 'version'"),
        (
            "points:\n  grid: {population.groups.1.device: [rpi_5]}",
            "DIR/bad.yaml:3: population.groups.1.device: found '1', accepted: an index from 0 to 0",
        ),
    ],
)
def test_what_is_wrong_with_a_point(tmp_path: Path, text: str, message: str) -> None:
    """A value that the scenario refuses is reported at its place in the study."""
    assert error_of(tmp_path, text).startswith(message)


def test_a_section_may_be_set_as_a_whole_in_some_points(tmp_path: Path) -> None:
    """A key below it counts in the others, and an error of the section is told where that is."""
    some: dict[str, Any] = {
        "base": {"decisions": {"selection": "random"}},
        "set": {"decisions.selection.share": 0.5},
        "points": {"variants": {"half": {}, "all": {"decisions.selection": "all"}}},
    }
    study = Study.from_yaml(write_study(tmp_path, **some))

    rules = [point.scenario.as_given()["decisions"]["selection"] for point in points(study)]

    assert rules[0] == {"name": "random", "share": 0.5} and rules[-1] == "all"
    worse = {
        **some,
        "points": {"variants": {"bad": {"decisions.selection": {"name": "random", "share": 5.0}}}},
    }
    file = write_study(tmp_path, **worse)
    place = file.read_text(encoding="utf-8").splitlines().index("      decisions.selection:") + 1
    with pytest.raises(ScenarioError, match=rf"tiny\.yaml:{place}: decisions\.selection"):
        points(Study.from_yaml(file))


@pytest.mark.parametrize(
    "section", ["points: [1]", "points: {variants: [1]}", "set: 5", "search: 5"]
)
def test_a_key_for_a_study_that_is_none(tmp_path: Path, section: str) -> None:
    """With `--set`, too, the file's own mistake is told."""
    write_study(tmp_path)
    file = tmp_path / "bad.yaml"
    file.write_text(HEAD + section)

    with pytest.raises(ScenarioError, match=r"bad\.yaml:2: (points|set|search)"):
        Study.from_yaml(file, overrides=["stop.versions=3"])


def test_an_unknown_scenario(tmp_path: Path) -> None:
    """Neither a file beside the study's nor a shipped scenario's name."""
    file = write_study(tmp_path, scenario="quikstart")

    with pytest.raises(ScenarioError, match="no scenario 'quikstart', did you mean 'quickstart'"):
        Study.from_yaml(file, {"quickstart": Path("x.yaml")})


def test_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    """The system refuses it, and the key is told."""
    file = tmp_path / "study.yaml"
    file.write_text(f"scenario: {'x' * 5000}.yaml\n")

    with pytest.raises(
        ScenarioError, match=r"study\.yaml:1: scenario: found 'x{76}[.]{3}, accepted: .*too long"
    ):
        Study.from_yaml(file)


def test_a_mistake_of_the_base_scenario_is_its_own(tmp_path: Path) -> None:
    """It is told with the scenario's file and line."""
    file = write_study(tmp_path, base={"dtype": "float16"})

    with pytest.raises(ScenarioError, match=r"base\.yaml:\d+: dtype: found 'float16'"):
        Study.from_yaml(file)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, 3),
        ("max", "max"),
        (None, "null"),
        ({"name": "capped", "frequency_hz": 1.0e9}, "capped frequency_hz=1e+09"),
        ([1, {"name": "a"}], "1, a"),
    ],
)
def test_levels_are_scalars(value: Any, text: Any) -> None:
    """What a table shows of a value: sections and lists in one line."""
    assert level(value) == text


def test_every_figure_is_documented() -> None:
    """docs/studies.md names the columns that every row has."""
    text = (Path(__file__).parents[2] / "docs" / "studies.md").read_text(encoding="utf-8")

    for name, figure in FIGURES.items():
        assert f"| `{name}` | {figure.what} |" in text


@pytest.mark.parametrize(("baseline", "known"), [(2, True), (3, False)])
def test_a_baseline_may_be_a_numbered_variant(
    baseline: int, tmp_path: Path, *, known: bool
) -> None:
    """Names of variants are text, and YAML reads 2 as a number."""
    study = Study.from_yaml(
        write_study(
            tmp_path,
            points={"variants": {"1": {}, "2": {"decisions.selection": "all"}}},
            questions={"compare": [{"factor": "variant", "baseline": baseline}]},
        )
    )

    if known:
        assert {one.factors["variant"] for one in points(study)} == {"1", "2"}
    else:
        with pytest.raises(ScenarioError, match="found 3, accepted: one of 1, 2"):
            points(study)


def test_targets_that_no_question_names_are_answered(tmp_path: Path) -> None:
    """With their seconds and the clients' joules; not beside those that are asked for by name."""
    named = {
        "metrics": ["accuracy", "bytes_to_loss_0.5_b"],
        "pareto": {"time_to_accuracy_0.9_s": "min"},
    }
    targets = {"accuracy": [0.8, 0.9], "loss": [0.5]}
    file = write_study(tmp_path, questions={"targets": targets, **named})

    figures = Study.from_yaml(file).questions.figures

    assert figures == (
        *named["metrics"],
        "time_to_accuracy_0.8_s",
        "client_energy_to_accuracy_0.8_j",
    )
