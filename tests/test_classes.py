"""Classes as parts of a scenario."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import simfl
import simfl.algorithms
from simfl.assembly import registry
from simfl.scenario.classes import UnwritableClass, named
from tests.study.studies import BASE

HEAD = """
import numpy as np
from dataclasses import dataclass
from typing import Annotated, Any
from simfl.plugins import FloatArray, Scheduling, EdgeView as Seen
"""
FIRST = """
STEP, NOISE = 2, object()
@dataclass(frozen=True)
class First(Scheduling):
    beta: Annotated[float, ">= 0"] = 0.5
    column: FloatArray | None = None
    def decide(self, memory: Any, view: Seen, rng: NOISE) -> tuple[Any, int, dict]:
        assert isinstance(view, Seen) and STEP == 2
        return memory, pick(view), {}
def pick(view):
    return int(np.flatnonzero(view.idle)[0])
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def cells() -> Iterator[Any]:
    """A module that is in no file; its cells are known as a notebook's are."""
    module = ModuleType("a_notebook")
    sys.modules["a_notebook"] = module

    def execute(*texts: str) -> ModuleType:
        for number, text in enumerate(texts):
            name = f"<cell {number} of {id(text)}>"
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
            exec(compile(text, name, "exec", dont_inherit=True), vars(module))
        return module

    yield execute
    del sys.modules["a_notebook"]


def scheduled(part: Any) -> simfl.Scenario:
    """The tiny scenario with a scheduling."""
    protocol = {"name": "semi_asynchronous", "edge_rounds": 1, "concurrency": 1}
    return simfl.Scenario.from_mapping(
        {**BASE, "protocol": protocol, "decisions": {"scheduling": part}}
    )


def test_a_shipped_class_is_its_name() -> None:
    """The scenario is the one with the name, to its digest."""
    by_class = simfl.Scenario.from_mapping({**BASE, "algorithm": simfl.algorithms.FedSGD})
    by_name = simfl.Scenario.from_mapping({**BASE, "algorithm": "fedsgd"})

    assert by_class.algorithm.name == "fedsgd"
    assert by_class.digest == by_name.digest
    for kind in ("algorithms", "scheduling", "codecs"):
        for name in registry.names(kind):
            assert named(registry.resolve(kind, name, Path()), Path()) == name


def test_a_class_of_a_module_is_its_import_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that was loaded from a file that file's."""
    (tmp_path / "own_parts.py").write_text(HEAD + FIRST)
    monkeypatch.syspath_prepend(tmp_path)
    own = __import__("own_parts")
    loaded = registry.resolve("scheduling", "own_parts.py:First", tmp_path)

    assert named(own.First, tmp_path) == "own_parts:First"
    assert named(loaded, tmp_path) == f"{tmp_path / 'own_parts.py'}:First"


def test_a_cell_s_class_is_written_with_what_it_uses(cells: Any) -> None:
    """Names of other cells, aliases, types of fields; never what merely annotates arguments."""
    module = cells(HEAD, FIRST)

    scenario = scheduled({"name": module.First, "beta": 2})
    (file,) = scenario.plugin_files()
    run = simfl.run(scenario)

    assert file.parent.name == "parts"
    assert "NOISE" in file.read_text()
    assert "from simfl.plugins import Scheduling\n" in file.read_text()
    assert run.manifest["status"] == "completed"
    assert run.scenario["decisions"]["scheduling"]["beta"] == 2.0
    again = simfl.Scenario.from_yaml(run.path / "scenario.yaml")
    assert again.digest == simfl.Scenario.from_mapping(run.scenario).digest


def test_another_definition_is_another_scenario(cells: Any) -> None:
    """What it uses counts too; the same definition again is the same file."""
    module = cells(HEAD, FIRST)
    before = scheduled(module.First)
    same = scheduled(cells(HEAD, FIRST).First)
    after = scheduled(cells(FIRST.replace("[0])", "[-1])")).First)
    tuned = scheduled(cells(FIRST.replace("STEP, NOISE = 2", "STEP, NOISE = 3")).First)

    assert before.digest == same.digest
    assert len({before.digest, after.digest, tuned.digest}) == 3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("class Bad(Scheduling):\n    def decide(self, *a):\n        return gone", "'gone'"),
        ("held = open\nf = np.random\nx = [1, object()]\n"
         "class Bad(Scheduling):\n    def decide(self, *a):\n        return x", "'x', a list"),
        ("def make():\n    class Bad(Scheduling):\n        def decide(self, *a): ...\n"
         "    return Bad\nBad = make()", "nested in another"),
        ("Bad = type('Bad', (Scheduling,), {'__module__': __name__})", "source is not available"),
    ],
)  # fmt: skip
def test_a_class_that_cannot_be_written_is_told(cells: Any, text: str, why: str) -> None:
    """With what to do instead."""
    module = cells(HEAD, text)

    with pytest.raises(UnwritableClass, match=rf"Bad.*{why}.*write it into its own file"):
        scheduled(module.Bad)


def test_a_cell_s_class_without_methods_is_found_among_the_cells(cells: Any) -> None:
    """Which IPython keeps; commands of the notebook's among them are passed over."""
    cell = "class Half(FedAvg):\n    name = 'half'\n"
    module = cells("from simfl.algorithms import FedAvg", cell)
    module.In = ["%time x", cell, "pass"]

    scenario = simfl.Scenario.from_mapping({**BASE, "algorithm": module.Half})

    assert scenario.algorithm.name.endswith(":Half")


def test_values_of_other_libraries_are_python_s_own() -> None:
    """numpy's numbers, tuples and paths say what YAML would; overrides may be a mapping."""
    content = {**BASE, "seed": np.int64(4), "stop": {"versions": np.int32(2)}}

    scenario = simfl.Scenario.from_mapping(content).with_overrides(
        {"algorithm.local.learning_rate": np.float32(0.5), "algorithm.local.steps": np.int8(3)}
    )

    plain = simfl.Scenario.from_mapping({**BASE, "seed": 4, "stop": {"versions": 2}})
    texts = ["algorithm.local.learning_rate=0.5", "algorithm.local.steps=3"]
    assert scenario.digest == plain.with_overrides(texts).digest
    assert scenario.to_yaml() == plain.with_overrides(texts).to_yaml()
    with pytest.raises(ValueError, match=r"with_overrides.*stop\.versions"):
        scenario.with_overrides({"stop.versions": 0})
