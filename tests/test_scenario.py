"""The scenario's frame: errors, defaults, overrides, the digest."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from simfl.assembly import registry
from simfl.scenario.scenario import Scenario
from simfl.scenario.yaml_source.error import ScenarioError

GOOD: dict[str, Any] = {
    "data": {"name": "digits", "partition": {"name": "dirichlet", "alpha": 0.5}},
    "model": {"name": "cnn", "channels": [8, 16]},
    "population": {
        "name": "catalogue",
        "clients": 4,
        "edges": 2,
        "groups": [{"device": "rpi_4b", "link": "wifi5_ac", "share": 1.0}],
    },
    "algorithm": {"name": "fedavg", "local": {"epochs": 2, "learning_rate": 0.1}},
    "protocol": "synchronous",
    "stop": {"versions": 3},
}

ABSENT = object()

# What is changed (dotted path, value), the key that the error names, and words that it contains.
BAD: list[tuple[str, Any, str, str]] = [
    ("data", ABSENT, "data", "found nothing"),
    ("model", ABSENT, "model", "found nothing"),
    ("population", ABSENT, "population", "found nothing"),
    ("algorithm", ABSENT, "algorithm", "found nothing"),
    ("protocol", ABSENT, "protocol", "found nothing"),
    ("stop", ABSENT, "stop", "found nothing"),
    ("sed", 3, "sed", "unknown key 'sed', did you mean 'seed'? accepted: algorithm,"),
    ("seed", -1, "seed", "found -1, accepted: an integer >= 0"),
    ("seed", 1.5, "seed", "found 1.5, accepted: an integer"),
    ("seed", True, "seed", "found true, accepted: an integer"),
    ("seed", "7", "seed", "found '7', accepted: an integer"),
    ("name", 3, "name", "accepted: text"),
    ("dtype", "float16", "dtype", "found 'float16', accepted: one of float32, float64"),
    ("data", "digits", "data", "accepted: a section"),
    ("data.name", ABSENT, "data.name", "found nothing"),
    ("data.validation_share", 1, "data.validation_share", ">= 0 and < 1"),
    ("data.root", 3, "data.root", "accepted: text or null"),
    ("data.augmentation", {"name": "RandomCrop"}, "data.augmentation", "accepted: a list"),
    ("data.augmentation", [{"size": 3}], "data.augmentation.0.name", "found nothing"),
    ("data.partitoin", "iid", "data.partitoin", "did you mean 'partition'?"),
    ("data.partition.alpha", -1, "data.partition.alpha", "accepted: a number > 0"),
    ("data.test_share", "half", "data.test_share", "found 'half', accepted: a number"),
    ("model", ["cnn"], "model", "found ['cnn'], accepted: text or a section"),
    ("model.name", "cnnn", "model.name", "unknown name 'cnnn', did you mean 'cnn'?"),
    ("model.channels", 8, "model.channels", "found 8, accepted: a list"),
    ("population.clients", 0, "population.clients", "found 0"),
    ("population.groups.0.share", 2, "population.groups.0.share", "found 2, accepted: a number"),
    ("population.groups.0.devise", "x", "population.groups.0.devise", "did you mean 'device'?"),
    ("algorithm.name", "fedavgg", "algorithm.name", "did you mean 'fedavg'?"),
    ("algorithm.mu", 0.1, "algorithm.mu", "unknown key 'mu'; accepted: "),
    ("algorithm.local", 3, "algorithm.local", "found 3, accepted: a section"),
    ("algorithm.local.epoch", 3, "algorithm.local.epoch", "did you mean 'epochs'?"),
    ("algorithm.local.epochs", 0, "algorithm.local.epochs", "accepted: an integer >= 1 or null"),
    ("algorithm.local.epochs", True, "algorithm.local.epochs", "found true"),
    ("algorithm.local.steps", 3, "algorithm.local.epochs", "found 2, but epochs and steps"),
    ("algorithm.local.learning_rate", -1, "algorithm.local.learning_rate", "a number > 0"),
    ("algorithm.local.learning_rate", "0.1", "algorithm.local.learning_rate", "found '0.1'"),
    ("algorithm.local.learning_rate", float("inf"), "algorithm.local.learning_rate", "finite"),
    ("algorithm.local.optimizer", "sgdd", "algorithm.local.optimizer", "one of sgd, adam"),
    ("protocol", "synchronus", "protocol.name", "did you mean 'synchronous'?"),
    ("protocol", None, "protocol", "found null"),
    ("decisions", {"selektion": "all"}, "decisions.selektion", "did you mean 'selection'?"),
    ("decisions", {"selection": {"count": 3}}, "decisions.selection.name", "found nothing"),
    (
        "decisions",
        {"staleness": {"name": "exponential", "base": 2}},
        "decisions.staleness.base",
        "",
    ),
    ("stop", {}, "stop", "set at least one of versions, time_s"),
    ("stop.versions", None, "stop", "set at least one of"),
    ("stop.versions", 0, "stop.versions", "accepted: an integer >= 1"),
    ("stop.time_s", 0, "stop.time_s", "accepted: a number > 0"),
    ("stop.energy_j", -2, "stop.energy_j", "accepted: a number > 0"),
    ("stop.accuracy", 1.5, "stop.accuracy", "found 1.5, accepted: a number <= 1"),
    ("stop.plateau", {"minimum_gain": -1}, "stop.plateau.minimum_gain", "a number >= 0"),
    ("stop.plateau", 20, "stop.plateau", "accepted: a section"),
    ("evaluate", {"every": 0}, "evaluate.every", "found 0, accepted: an integer >= 1"),
    ("evaluate", {"clients": "yes"}, "evaluate.clients", "accepted: true or false"),
    ("log", {"level": "ful"}, "log.level", "one of full, rounds"),
    ("log", {"rows_per_segment": 0}, "log.rows_per_segment", "an integer >= 1"),
]


def changed(path: str, value: Any) -> dict[str, Any]:
    """The good scenario with one value changed, added or taken away."""
    content = copy.deepcopy(GOOD)
    *above, last = [int(step) if step.isdecimal() else step for step in path.split(".")]
    section: Any = content
    for step in above:
        section = section[step]
    if value is ABSENT:
        del section[last]
    else:
        section[last] = value
    return content


def completed(scenario: Scenario) -> Scenario:
    """The scenario with every part checked and its defaults filled in, as a run does it."""
    parts = scenario.parts().items()
    return scenario.with_parts(
        {keys: registry.complete(kind, part, scenario.where(*keys)) for keys, (kind, part) in parts}
    )


def written(folder: Path, content: Any) -> Path:
    """The file that holds `content` as YAML."""
    path = folder / "scenario.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


@pytest.mark.parametrize(("path", "value", "key", "words"), BAD)
def test_a_bad_scenario_is_refused_in_one_line_that_names_the_key(
    path: str, value: Any, key: str, words: str, tmp_path: Path
) -> None:
    """File, key path, what was found and what is accepted stand in one line."""
    file = written(tmp_path, changed(path, value))
    with pytest.raises(ScenarioError) as caught:
        completed(Scenario.from_yaml(file))
    error = caught.value
    assert error.key == key
    assert str(error).startswith(f"{file}:{error.line}: {key}: ")
    assert words in str(error)
    assert "\n" not in str(error)


def test_the_table_of_bad_scenarios_changes_a_good_one() -> None:
    """The scenario that the table changes is accepted, so each row is refused for its change."""
    assert completed(Scenario.from_mapping(GOOD)).algorithm.name == "fedavg"


def test_an_error_names_the_line_of_its_key(tmp_path: Path) -> None:
    """A wrong value is placed at its own line, a missing key at its section's."""
    file = tmp_path / "x.yaml"
    text = yaml.safe_dump(GOOD, sort_keys=False) + "evaluate:\n\n  every: 0\n"
    file.write_text(text)
    with pytest.raises(ScenarioError) as wrong:
        Scenario.from_yaml(file)
    assert wrong.value.line == text.splitlines().index("  every: 0") + 1

    file.write_text(text.replace("every: 0", "every: 1").replace("  name: fedavg\n", ""))
    with pytest.raises(ScenarioError) as missing:
        Scenario.from_yaml(file)
    assert missing.value.key == "algorithm.name"
    assert missing.value.line == file.read_text().splitlines().index("algorithm:") + 1


def test_an_error_survives_the_way_between_processes() -> None:
    """A study's worker can send the error back."""
    with pytest.raises(ScenarioError) as caught:
        Scenario.from_mapping(changed("seed", -1))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_defaults_and_bare_names() -> None:
    """What is not said has a documented default; a bare string is a part without parameters."""
    scenario = Scenario.from_mapping(GOOD)
    assert (scenario.seed, scenario.dtype, scenario.evaluate.every) == (0, "float32", 1)
    assert (scenario.log.level, scenario.log.rows_per_segment) == ("full", 100_000)
    assert (scenario.protocol.name, scenario.protocol.parameters) == ("synchronous", {})
    assert scenario.decisions.scheduling.name == "round_robin"
    content = changed("data.partition", ABSENT)
    assert Scenario.from_mapping(content).data.partition.name == "iid"


def test_a_scenario_without_a_name_is_called_after_its_file(tmp_path: Path) -> None:
    """The file's stem is the name, unless the scenario gives one."""
    assert Scenario.from_yaml(written(tmp_path, GOOD)).name == "scenario"
    named = written(tmp_path, {**GOOD, "name": "mine"})
    assert Scenario.from_yaml(named).name == "mine"


def test_the_data_sets_own_keys_stand_beside_the_frames() -> None:
    """`data.part` holds the former only."""
    scenario = Scenario.from_mapping(changed("data.test_share", 0.3))
    assert scenario.data.part.model_dump() == {"name": "digits", "test_share": 0.3}


def test_a_scenario_is_frozen() -> None:
    """Neither its values nor, through them, its parameters can be changed."""
    scenario = Scenario.from_mapping(GOOD)
    with pytest.raises(ValidationError, match="frozen"):
        scenario.seed = 3
    scenario.model.parameters["channels"].append(32)
    assert scenario.model.parameters["channels"] == [8, 16]


def test_a_callers_mapping_is_not_shared() -> None:
    """Changing the mapping later does not change the scenario."""
    content = copy.deepcopy(GOOD)
    scenario = Scenario.from_mapping(content)
    digest = scenario.digest
    content["model"]["channels"].append(32)
    assert scenario.digest == digest
    assert scenario.with_overrides(["seed=0"]).digest == digest


def test_overrides_change_single_values(tmp_path: Path) -> None:
    """Sections on the way are made, lists are indexed, bare names grow into sections."""
    scenario = Scenario.from_yaml(
        written(tmp_path, GOOD),
        [
            "population.groups.0.share=0.3",
            "evaluate.every=5",
            "protocol.note=[1, two]",
            "algorithm.local.learning_rate=1e-3",
        ],
        seed=9,
    )
    assert scenario.population.parameters["groups"][0]["share"] == 0.3
    assert scenario.evaluate.every == 5
    assert scenario.protocol.model_dump() == {"name": "synchronous", "note": [1, "two"]}
    assert scenario.algorithm.parameters["local"]["learning_rate"] == 0.001
    assert scenario.algorithm.parameters["local"]["epochs"] == 2
    assert scenario.seed == 9


@pytest.mark.parametrize(
    ("override", "key", "words"),
    [
        ("seed", "", "found 'seed', accepted: KEY=VALUE"),
        ("=3", "", "accepted: KEY=VALUE"),
        ("seed=-1", "seed", "found -1, accepted: an integer >= 0"),
        ("sede=3", "sede", "did you mean 'seed'?"),
        ("algorithm.local.epochs=none", "algorithm.local.epochs", "found 'none'"),
        ("population.groups.1.share=1", "population.groups.1.share", "an index from 0 to 0"),
        ("population.groups.x.share=1", "population.groups.x.share", "an index from 0 to 0"),
        ("population.clients.x=1", "population.clients.x", "accepted: a section"),
        ("seed=[1", "seed", "not valid YAML"),
    ],
)
def test_a_bad_override_is_placed_at_the_option(
    override: str, key: str, words: str, tmp_path: Path
) -> None:
    """The error names --set in the place of a file, and the key."""
    with pytest.raises(ScenarioError) as caught:
        completed(Scenario.from_yaml(written(tmp_path, GOOD), [override]))
    assert (caught.value.file, caught.value.line, caught.value.key) == ("--set", None, key)
    assert words in str(caught.value)


def test_a_bad_seed_option_is_placed_at_the_option(tmp_path: Path) -> None:
    """The error names --seed."""
    with pytest.raises(ScenarioError, match=r"^--seed: seed: found -1"):
        Scenario.from_yaml(written(tmp_path, GOOD), seed=-1)


def test_the_resolved_scenario_reads_back_to_the_same_digest(tmp_path: Path) -> None:
    """Its text, with every default written out, is a scenario with the same content."""
    scenario = completed(Scenario.from_mapping({**GOOD, "name": "1e3"}))
    file = tmp_path / "resolved.yaml"
    file.write_text(scenario.to_yaml())
    again = Scenario.from_yaml(file)
    assert again.as_mapping() == scenario.as_mapping()
    assert completed(again).digest == again.digest == scenario.digest


def test_the_digest_is_the_contents_and_not_the_names() -> None:
    """The name does not count, 2 and 2.0 are equal, anything else makes another digest."""
    digest = Scenario.from_mapping(GOOD).digest
    assert Scenario.from_mapping({**GOOD, "name": "other"}).digest == digest
    assert Scenario.from_mapping(changed("algorithm.local.epochs", 2.0)).digest == digest
    assert Scenario.from_mapping(changed("algorithm.local.epochs", 3)).digest != digest
    assert Scenario.from_mapping({**GOOD, "seed": 1}).digest != digest


def test_a_part_in_a_file_counts_by_its_content_wherever_it_lies(tmp_path: Path) -> None:
    """The digest follows the code, the resolved text finds the file from any folder."""
    scenarios = []
    for folder, code in (("one", "A = 1"), ("two", "A = 1"), ("three", "A = 2")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(code)
        scenarios.append(
            Scenario.from_mapping(changed("algorithm.name", "mine.py:A"), tmp_path / folder)
        )
    first, same, other = scenarios
    assert first.digest == same.digest != other.digest
    resolved = yaml.safe_load(first.to_yaml())
    assert resolved["algorithm"]["name"] == f"{tmp_path / 'one' / 'mine.py'}:A"
