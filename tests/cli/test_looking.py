"""The commands that compare, trace and begin, and completion in the shell."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import simfl
from simfl.cli.app import app
from simfl.console.comparison import beside
from simfl.console.unlike import differing_keys
from simfl.protocols.publication import Diverged
from simfl.system.catalogue import shipped_folder
from tests.small import small


def command(*arguments: object) -> Any:
    """What `simfl` does with these arguments, in this process."""
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that differ, and figures with their differences to the first run."""
    monkeypatch.setenv("COLUMNS", "250")
    first = simfl.run(small(), tmp_path / "a")
    simfl.run(small(population={"clients": 6}), tmp_path / "b")

    result = command("compare", tmp_path / "a", tmp_path / "b", "--accuracy", "0.1")

    assert result.exit_code == 0, result.output
    assert re.search(r"population.clients +│ +8 │ +6 ", result.stdout)
    assert "data.name" not in result.stdout
    energy_j = f"{first.manifest['energy_j']:.4g}"
    assert re.search(rf"energy_j +│ +{energy_j} │ +\S+ \(-\S+, -\S+%\)", result.stdout)
    assert "time_to_accuracy_0.1_s" in result.stdout
    kinds = "unverified_figures, unread_keys, target_at_once"
    assert re.search(rf"│ warnings +│ +{kinds} │ +{kinds} │", result.stdout)
    assert "carbon_gco2" not in result.stdout and "electricity_cost" not in result.stdout
    below = result.stdout.partition("│ warnings")[2]
    assert "warning: unverified figures: 2 of 2 runs" in below
    assert first.warnings[0].message.partition(":")[0] in below  # an example, and what to do
    assert first.warnings[0].advice.split()[0] in below
    assert "these are single runs: a difference may be that of the seed" in below


def test_compare_says_which_runs_are_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs with starved rounds; if all have them, the run whose message is shown."""
    monkeypatch.setenv("COLUMNS", "500")
    starving = {"availability": {"name": "periodic", "period_s": 0.2, "share": 0.5}}
    few = {"decisions": {"selection": {"name": "random", "count": 7}}, "stop": {"versions": 2}}
    simfl.run(small(**few), tmp_path / "a")
    simfl.run(small(population=starving, **few), tmp_path / "b")

    below = command("compare", tmp_path / "a", tmp_path / "b").stdout.partition("│ warnings")[2]

    assert f"warning: starved rounds: 1 of 2 runs ({tmp_path / 'b'}), 2 per run" in below
    assert f"as: {tmp_path / 'b'}: 2 of 2 rounds" in below
    assert "warning: unverified figures: 2 of 2 runs," in below
    assert f"as: {tmp_path / 'a'}: " in below


@pytest.mark.parametrize("accuracy", ["90", "nan", "inf"])
def test_compare_with_what_no_model_can_reach(tmp_path: Path, accuracy: str) -> None:
    """A percentage in place of a share is told as such; nobody misses it, and no run is blamed."""
    result = command("compare", tmp_path, tmp_path, "--accuracy", accuracy)

    assert result.exit_code == 2
    assert f"found {accuracy}" in result.stderr and "at most 1" in result.stderr


def test_compare_says_how_far_a_run_that_missed_its_target_was_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than it spent until its end; no difference to a run that met the target."""
    monkeypatch.setenv("COLUMNS", "250")
    long = simfl.run(small(stop={"versions": 4}), tmp_path / "long")
    target = float(long.rounds["accuracy"].max())
    short = simfl.run(small(stop={"versions": 1}), tmp_path / "short")

    result = command("compare", tmp_path / "long", tmp_path / "short", "--accuracy", target)

    assert short.rounds["accuracy"].max() < target
    end_s, end_j = (short.manifest[key] for key in ("horizon_s", "energy_j"))
    assert re.search(rf"time_to_accuracy_\S+_s +│ +\S+ │ +> {end_s:.4g} │", result.stdout)
    assert re.search(rf"energy_to_accuracy_\S+_j +│ +\S+ │ +> {end_j:.4g} │", result.stdout)


def test_compare_says_what_makes_runs_unlike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other seeds, data, evaluations; another partition is a question, and no other test set."""
    monkeypatch.setenv("COLUMNS", "500")
    simfl.run(small(), tmp_path / "a")
    simfl.run(small(data={"partition": "iid"}), tmp_path / "iid")
    synthetic = {"name": "synthetic", "outputs": 3}
    simfl.run(small(seed=4, data=synthetic, evaluate={"every": 2}), tmp_path / "b")

    alike = command("compare", tmp_path / "a", tmp_path / "iid").stdout
    found = command("compare", tmp_path / "a", tmp_path / "b").stdout

    assert "data.partition.name" in alike
    assert not re.search("seeds differ|data differ|evaluate.every differs", alike)
    assert "seeds differ (3, 4)" in found
    assert "data differ (data.name): accuracy, loss" in found
    assert "evaluate.every differs (1, 2): a target counts as met" in found


def test_compare_says_that_a_profile_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its figures differ, beside a key that does: the joules are not that key's alone."""
    monkeypatch.setenv("COLUMNS", "500")
    profile = tmp_path / "my_pi.yaml"
    text = (shipped_folder() / "rpi_4b.yaml").read_text(encoding="utf-8")
    groups = [{"device": "my_pi", "link": "wifi5_ac", "share": 1.0}]
    population = {"profiles": [str(tmp_path)], "groups": groups}
    idle = re.search(r"power_idle_w: (?:{value: )?([0-9.]+)", text)
    assert idle is not None
    for folder, watts, steps in (("a", idle[1], 1), ("b", idle[1], 2), ("c", "9.5", 2)):
        changed = text.replace(idle[0], idle[0].replace(idle[1], watts))
        profile.write_text(changed, encoding="utf-8")
        simfl.run(
            small(population=population, algorithm={"local": {"steps": steps}}), tmp_path / folder
        )

    same = command("compare", tmp_path / "a", tmp_path / "b").stdout
    found = command("compare", tmp_path / "a", tmp_path / "c").stdout

    assert "algorithm.local.steps" in same and "the profile my_pi" not in same
    assert f"the profile my_pi differs (power_idle_w {idle[1]} and 9.5): differences" in found


@pytest.mark.parametrize("population", [{"hardware_draw": 3}, {"cloud_server": "edge_xeon_d"}])
def test_compare_says_nothing_of_profiles_that_a_key_changes(
    population: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drawn machines, and another server: the key stands in the table above."""
    monkeypatch.setenv("COLUMNS", "500")
    simfl.run(small(algorithm="none", population={"hardware_draw": None}), tmp_path / "a")
    simfl.run(small(algorithm="none", population=population), tmp_path / "b")

    found = command("compare", tmp_path / "a", tmp_path / "b").stdout

    assert f"population.{next(iter(population))}" in found
    assert not re.search("the profile .* differs", found)


def test_compare_says_that_runs_end_after_unlike_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another number of versions, or by another rule of the same scenario."""
    monkeypatch.setenv("COLUMNS", "500")
    for folder, stop in (
        ("a", {"versions": 2}),
        ("b", {"versions": 4}),
        ("c", {"versions": 2, "time_s": 1e6}),
    ):
        simfl.run(small(stop=stop), tmp_path / folder)
    manifest = json.loads((tmp_path / "c" / "manifest.json").read_text())
    manifest["reason"] = "time_s reached 3.5"
    shutil.copytree(tmp_path / "c", tmp_path / "d")
    (tmp_path / "d" / "manifest.json").write_text(json.dumps(manifest))

    manifest["reason"] = "versions reached 3"
    shutil.copytree(tmp_path / "c", tmp_path / "e")
    (tmp_path / "e" / "manifest.json").write_text(json.dumps(manifest))

    more = command("compare", tmp_path / "a", tmp_path / "b").stdout
    alike = command("compare", tmp_path / "c", tmp_path / "e").stdout
    rule = command("compare", tmp_path / "c", tmp_path / "d").stdout
    same = command("compare", tmp_path / "a", tmp_path / "a").stdout

    assert "end by unlike rules (stop.versions): differences in time" in more
    assert "unlike rules (versions reached 2, time_s reached 3.5)" in rule
    assert "unlike rules" not in same and "unlike rules" not in alike


def test_compare_says_that_equal_versions_are_of_unlike_updates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of eight clients' updates each, or of one."""
    monkeypatch.setenv("COLUMNS", "500")
    simfl.run(small(), tmp_path / "a")
    simfl.run(small(protocol="asynchronous"), tmp_path / "b")

    found = command("compare", tmp_path / "a", tmp_path / "b").stdout
    same = command("compare", tmp_path / "a", tmp_path / "a").stdout

    assert "of equal versions, but of 3 to 24 merged updates" in found
    assert "merged updates of clients" not in same


def test_compare_has_no_difference_to_what_diverged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stopped when it was noticed: fewer joules are no saving."""
    monkeypatch.setenv("COLUMNS", "500")
    simfl.run(small(), tmp_path / "a")
    wild = small(algorithm={"local": {"learning_rate": 1e30, "weight_decay": 1.0}})
    with pytest.raises(Diverged):
        simfl.run(wild, tmp_path / "b")

    found = command("compare", tmp_path / "a", tmp_path / "b").stdout

    assert re.search(r"b: diverged \(.*what it has spent is no difference", found)
    joules = re.search(r"client_energy_j +│ +\S+ │ +(.*?) │", found)
    assert joules is not None and "%" not in joules[1]


def test_compare_says_that_versions_and_platforms_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also beside keys that differ."""
    monkeypatch.setenv("COLUMNS", "500")
    simfl.run(small(), tmp_path / "a")
    simfl.run(small(algorithm={"local": {"steps": 2}}), tmp_path / "b")
    file = tmp_path / "b" / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["versions"]["simfl"] = "0.0.1"
    manifest["numeric_platform"] |= {"cpu": "AVX2", "kernel_family": "another"}
    file.write_text(json.dumps(manifest))

    found = command("compare", tmp_path / "a", tmp_path / "b").stdout

    assert re.search(r"versions differ \(simfl \S+ and 0.0.1\), and with them", found)
    assert re.search(r"platforms differ \(cpu \S+ and AVX2\)", found)


def test_compare_says_that_a_regression_has_no_accuracy(tmp_path: Path) -> None:
    """What stands there is R^2."""
    data = {"name": "synthetic", "task": "regression", "outputs": 1, "partition": "iid"}
    simfl.run(small(data=data, stop={"versions": 1}), tmp_path / "a")
    simfl.run(small(stop={"versions": 1}), tmp_path / "b")
    told = "accuracy is R^2, as the data are a regression"

    regression = command("compare", tmp_path / "a", tmp_path / "a").stdout
    classes = command("compare", tmp_path / "b", tmp_path / "b").stdout

    assert told in " ".join(regression.split())
    assert "R^2" not in classes


def test_compare_says_that_a_file_of_equal_scenarios_has_changed(tmp_path: Path) -> None:
    """They name the same table, which holds other rows."""
    table = tmp_path / "table.csv"
    data = {"name": "csv", "path": str(table), "label": "label"}
    for folder, last in (("a", 0.5), ("b", 0.25), ("c", 0.25)):
        rows = [f"{row / 100},{last},{row % 2}" for row in range(100)]
        table.write_text("\n".join(["first,second,label", "0.5,0.75,1", *rows]))
        simfl.run(small(data=data, stop={"versions": 1}), tmp_path / folder)

    changed = command("compare", tmp_path / "a", tmp_path / "b").stdout
    same = command("compare", tmp_path / "b", tmp_path / "c").stdout

    assert "the scenarios are the same\nbut the runs differ" in changed
    assert "the scenarios are the same" in same and "but the runs" not in same


def test_equal_scenarios_and_no_runs(tmp_path: Path) -> None:
    """It says that nothing differs; a folder that is not a run is refused."""
    simfl.run(small(stop={"versions": 1}), tmp_path / "a")

    assert "the scenarios are the same" in command("compare", *[tmp_path / "a"] * 2).stdout
    assert command("compare", tmp_path).exit_code == 2


@pytest.mark.parametrize(
    ("first", "value", "text"),
    [
        (2.0, 3.0, "3 (+1, +50.0%)"),
        (-2.0, -3.0, "-3 (-1, -50.0%)"),
        (0.0, 3.0, "3 (+3)"),
        (float("nan"), 3.0, "3"),
        (1.0, float("nan"), "-"),
        ("a", "b", "b"),
    ],
)
def test_a_difference_in_words(first: Any, value: Any, text: str) -> None:
    """Absolute and relative, where there is one."""
    assert beside(first, value) == text


def test_keys_that_only_one_scenario_has() -> None:
    """Count as different; lists of sections are compared section by section."""
    left = {"name": "a", "x": {"y": 1, "z": [1, 2]}, "g": [{"d": "p"}, {"d": "q"}]}
    right = {"name": "b", "x": {"y": 1, "w": None, "z": [1, 2]}, "g": [{"d": "p"}, {"d": "r"}]}

    assert differing_keys([left, right]) == {"g.1.d": ["q", "r"], "x.w": ["-", "null"]}


def test_trace(tmp_path: Path) -> None:
    """Lies in the run folder, and is JSON."""
    simfl.run(small(stop={"versions": 1}), tmp_path / "a")

    result = command("trace", tmp_path / "a")

    assert result.stdout == f"trace: {tmp_path / 'a' / 'trace.json'}\n"
    assert json.loads((tmp_path / "a" / "trace.json").read_text())["traceEvents"]


def test_new(tmp_path: Path) -> None:
    """A commented scenario that is valid, and never in place of another file."""
    file = tmp_path / "my.yaml"

    assert command("new", file).exit_code == 0
    assert file.read_text().count("#") > 10
    assert command("validate", file).exit_code == 0
    again = command("new", file)
    assert again.exit_code == 2
    assert "exists already" in again.stderr


def test_new_copies_scenarios_alone(tmp_path: Path) -> None:
    """It refuses options that it would ignore."""
    result = command("new", tmp_path / "study.yaml", "--study", "--like", "quickstart")

    assert result.exit_code == 2
    assert "found --like, which copies a scenario" in result.stderr
    assert not (tmp_path / "study.yaml").exists()


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("simfl li", "list"),
        ("simfl run quick", "quickstart"),
        ("simfl list algo", "algorithms"),
        ("simfl new --like fedcure/fedc", "fedcure/fedcure"),
    ],
)
def test_completion(typed: str, completed: str) -> None:
    """Commands, shipped scenarios and kinds complete in bash."""
    words = typed.split()
    environment = {
        "_SIMFL_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(words) - 1),
    }

    result = CliRunner().invoke(app, [], prog_name="simfl", env=environment)

    assert completed in result.stdout.split()
