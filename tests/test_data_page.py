"""docs/data.md does what it says: its files are written, and its scenarios' data dealt out."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

import simfl
from simfl.assembly.assemble import partitioned_data
from simfl.scenario.scenario import Scenario
from simfl.scenario.yaml_source.error import ScenarioError
from tests.small import SMALL

PAGE = (Path(__file__).parents[1] / "docs" / "data.md").read_text("utf-8")
BLOCK = re.compile(r"^(?:`([\w/]+\.\w+)`:\n\n)?```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OPTIONAL = "datasets", "transformers"
CLIENTS = {
    yaml.safe_load(block)["data"]["name"]: int(
        (re.findall(r"population.clients: (\d+)", block) or [10])[0]
    )
    for _, language, block in BLOCK.findall(PAGE)
    if language == "yaml"
}
"""Clients of each block, by its data set: as its comment says, or those of `simfl new`."""


@pytest.fixture
def scenarios(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """The blocks of YAML by their data sets, each within a whole scenario beside its files."""
    monkeypatch.chdir(tmp_path)
    found = {}
    for name, language, block in BLOCK.findall(PAGE):
        if name:
            file = tmp_path / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(block, encoding="utf-8")
        elif language == "python":
            if "import datasets" not in block or find_spec("datasets") is not None:
                exec(compile(block, "data.md", "exec"), {})
        else:
            assert language == "yaml"
            content = {**SMALL, **yaml.safe_load(block)}
            kind = content["data"]["name"]
            content["population"] = {**SMALL["population"], "clients": CLIENTS[kind], "edges": 1}
            found[kind] = {**content, "dtype": "float32", "stop": {"versions": 1}}
    return found


def test_its_data_are_dealt_to_their_owners(scenarios: dict[str, dict[str, Any]]) -> None:
    """Every owner is a client, with examples."""
    assert set(scenarios) == set(CLIENTS) == {"csv", "text", "huggingface", "npz", "digits"}
    for name, content in scenarios.items():
        if name == "huggingface" and find_spec("datasets") is None:
            continue
        dealt = partitioned_data(Scenario.from_mapping(content, Path.cwd()))

        assert len(dealt.num_examples) == CLIENTS[name]
        assert dealt.num_examples.min() > 0 and len(dealt.data.test) > 0


def test_content_decides(scenarios: dict[str, dict[str, Any]]) -> None:
    """The same file elsewhere is the same data, and one with another number is not."""
    content, file = scenarios["csv"], Path("patients.csv")
    elsewhere = Path("elsewhere")
    elsewhere.mkdir()
    (elsewhere / file).write_text(file.read_text())

    there = partitioned_data(Scenario.from_mapping(content, elsewhere)).digest()

    assert partitioned_data(Scenario.from_mapping(content, Path.cwd())).digest() == there
    file.write_text(file.read_text().replace("70,", "71,"))
    assert partitioned_data(Scenario.from_mapping(content, Path.cwd())).digest() != there
    content["data"]["label"] = "outcom"
    with pytest.raises(ScenarioError, match=r"data.label: no column 'outcom', did you mean 'outc"):
        partitioned_data(Scenario.from_mapping(content, Path.cwd()))


@pytest.mark.slow
@pytest.mark.parametrize("name", CLIENTS)
def test_its_scenarios_run(name: str, scenarios: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    """For a version, with the model that stands there."""
    if name == "huggingface" and not all(map(find_spec, OPTIONAL)):
        pytest.skip("needs the optional packages of simfl[huggingface]")
    scenario = Scenario.from_mapping(scenarios[name], tmp_path)

    run = simfl.run(scenario, tmp_path / "run")

    assert run.manifest["status"] == "completed"
    assert run.rounds["loss"].notna().all()


def test_every_key_that_it_names_is_one() -> None:
    """Partitions and noise of its table are accepted."""
    told = re.findall(r"`partition: (\{.*?\}|\w+)`", PAGE)

    assert len(told) >= 5
    for text in told:
        content = {**SMALL, "data": {"name": "digits", "partition": yaml.safe_load(text)}}
        if "natural" not in text:
            partitioned_data(Scenario.from_mapping(content))
