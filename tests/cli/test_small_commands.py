"""Listing names, showing parts, and files to start from."""

from __future__ import annotations

import atexit
import gc
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import simfl
from simfl.assembly import registry
from simfl.assembly.assemble import outlined
from simfl.cli.app import app, main
from simfl.cli.listing import KINDS
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.study.plan import points
from simfl.study.studyfile import Study
from simfl.system.catalogue import Catalogue
from tests.study.studies import write_study

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def command(*arguments: object) -> Any:
    """What `simfl` does with these arguments, in this process."""
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_the_version_and_the_kinds_are_told() -> None:
    """`simfl list` alone has every kind that `simfl list KIND` takes, in words."""
    assert command("--version").stdout == f"simfl {simfl.__version__}\n"
    listed = command("list")
    assert listed.exit_code == 0
    for kind, what in KINDS.items():
        assert kind in listed.stdout
        assert what.split()[0] in listed.stdout
    assert "thermal_cpu" in command("list", "processors").stdout


def test_a_part_is_shown_with_its_keys_defaults_and_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it stands; of a name that several kinds have, all."""
    monkeypatch.setenv("COLUMNS", "160")
    oort = command("show", "oort")

    assert oort.exit_code == 0, oort.output
    for words in ("decisions.selection", "exploration_decay", "0.98", "arXiv 2010.06081"):
        assert words in oort.stdout
    text = command("show", "random").stdout
    kinds = [kind for kind in registry.KINDS if "random" in registry.names(kind)]
    assert len(kinds) > 2 and all(f"random: {registry.SECTIONS[one]}" in text for one in kinds)
    assert command("show", "cpu").stdout.count("cycles_per_example") > 0
    assert set(registry.SECTIONS) == set(registry.KINDS)


def test_a_profile_and_a_class_of_ones_own_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The profile as its file has it, with the sources of its figures."""
    monkeypatch.setenv("COLUMNS", "160")
    assert "processor.kappa: " in command("show", "rpi_4b").stdout
    own = command("show", f"{EXAMPLES / 'clipped_average.py'}:ClippedAverage")
    assert "largest L2 norm of a client's" in own.stdout and "algorithm" in own.stdout


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("orrt", "did you mean 'oort'"),
        ("fedasync", "but see `simfl show asynchronous`, `simfl show "),
        ("FedAdam", "but see `simfl show fedopt`\n"),
        ("nothing.py:Here", "which does not exist"),
    ],
)
def test_what_there_is_not_is_told(name: str, words: str) -> None:
    """With parts that a method's name is about, or else the nearest name, if there is one."""
    result = command("show", name)

    assert result.exit_code == 2
    assert words in result.stderr


def test_what_is_new_runs(tmp_path: Path) -> None:
    """The study has all its points, algorithm and selection act in a scenario that names them."""
    study, algorithm = tmp_path / "study.yaml", tmp_path / "half_way.py"
    selection = tmp_path / "eager.py"

    made = [
        command("new", study, "--study"),
        command("new", algorithm, "--algorithm"),
        command("new", selection, "--selection"),
    ]

    assert [one.exit_code for one in made] == [0, 0, 0]
    assert "selection: {name: eager.py:Eager, count: 10}" in made[2].stdout
    assert "{name: half_way.py:HalfWay}" in made[1].stdout
    shipped = {"starter": Path(__file__).parents[2] / "scenarios" / "starter.yaml"}
    assert len(points(Study.from_yaml(study, shipped, seeds=[1]))) == 4
    chosen = f"decisions.selection={{name: {selection}:Eager, count: 2}}"
    overrides = [f"algorithm.name={algorithm}:HalfWay", "stop.versions=2", chosen]
    scenario = simfl.Scenario.from_yaml(shipped["starter"], overrides)
    run = simfl.run(scenario, tmp_path / "run")
    assert run.manifest["status"] == "completed"
    assert run.clients["participations"].sum() == 4
    assert command("new", study, "--study").exit_code == 2
    assert command("new", tmp_path / "x.txt", "--algorithm").exit_code == 2
    assert command("new", "--study", "--algorithm").exit_code == 2


def test_a_new_device_is_a_profile_that_runs(tmp_path: Path) -> None:
    """Its figures are marked as nobody's yet; a name that no file can have is refused."""
    made = command("new", tmp_path / "mine", "--device", "my_pi")

    assert made.exit_code == 0, made.output
    profile = Catalogue([tmp_path / "mine"]).profile("device", "my_pi")
    assert set(profile.figures()) == set(profile.unverified)
    assert profile.about.startswith("my_pi, a machine of one's own")
    group = "{device: my_pi, link: wifi5_ac}"
    asked = f"population: {{profiles: [{tmp_path / 'mine'}], groups: [{group}]}}"
    assert asked in made.stdout
    overrides = [
        f"population.{one}" for one in (f"profiles=[{tmp_path / 'mine'}]", f"groups=[{group}]")
    ]
    starter = Path(__file__).parents[2] / "scenarios" / "starter.yaml"
    outlined(simfl.Scenario.from_yaml(starter, overrides))
    assert command("new", "--device", "../x").exit_code == 2


def test_a_study_takes_keys_and_seeds_from_the_command_line(tmp_path: Path) -> None:
    """For every point; a key that the points vary is changed where they say so."""
    file = write_study(tmp_path)
    asked = ["--set", "stop.versions=1", "--seeds", "3,5-6", "--collect"]
    (tmp_path / "out").mkdir()

    result = command("study", file, "--out", tmp_path / "out", *asked)

    assert "12 runs are missing" in result.stdout
    left = yaml.safe_load((tmp_path / "out" / "study.yaml").read_text())
    assert left["seeds"] == [3, 5, 6] and left["set"] == {"stop.versions": 1}
    assert command("study", file, "--seeds", "5-3").exit_code == 2
    with pytest.raises(ScenarioError, match="points vary it"):
        Study.from_yaml(file, overrides=["algorithm.local.steps=3"])


@pytest.mark.parametrize("name", ["run", "list", "convert-trace", "study"])
def test_only_the_command_that_is_called_is_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """The others would take as long to make as the scenario to check."""
    registered, at_the_end = list(app.registered_commands), []
    monkeypatch.setattr(atexit, "register", at_the_end.append)
    monkeypatch.setattr(app, "registered_commands", registered)
    monkeypatch.setattr(sys, "argv", ["simfl", name, "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert name in capsys.readouterr().out
    assert len(app.registered_commands) == 1 < len(registered)
    assert at_the_end == [gc.freeze]


def test_a_command_that_is_none_is_told_from_all_of_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name that is misspelt has all commands to be near to."""
    monkeypatch.setattr(app, "registered_commands", list(app.registered_commands))
    monkeypatch.setattr(atexit, "register", id)
    monkeypatch.setattr(sys, "argv", ["simfl", "partitoin"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "'partition'" in capsys.readouterr().err
