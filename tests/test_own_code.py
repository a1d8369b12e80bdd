"""Runs count as equal only if the user's own code is: named in the scenario or not."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simfl.assembly.assemble import assemble, outlined
from simfl.assembly.simulation import Options
from simfl.common.contract import PLUGIN_PREFIX
from simfl.runs.execution import FolderInUse, run
from simfl.scenario.scenario import Scenario
from simfl.study.finished import is_finished
from simfl.study.studyfile import Study
from tests.small import SMALL, small
from tests.study.studies import BASE, run_here, session

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
SELECTION = """
from dataclasses import dataclass
from simfl.decisions.selection.random import Random
{imports}

@dataclass(frozen=True)
class Mine(Random):
    def decide(self, memory, view, rng):
        memory, chosen = super().decide(memory, view, rng)
        return memory, pick(chosen)
"""
PICK = "def pick(chosen):\n    return chosen[:1]\n"


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this test has imported, as another process that begins later has not."""
    for name in list(sys.modules):
        if name.startswith(("simfl_test_", PLUGIN_PREFIX)):
            monkeypatch.delitem(sys.modules, name)
    importlib.invalidate_caches()


@pytest.fixture(autouse=True)
def _no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dates of bytecode count whole seconds, and a test changes a file sooner."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def in_a_package(folder: Path) -> tuple[dict[str, Any], Path]:
    """A selection in an importable package, which imports another module of the package."""
    package = folder / "simfl_test_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "chosen.py").write_text(SELECTION.format(imports="from .picked import pick"))
    (package / "picked.py").write_text(PICK)
    selection = {"name": "simfl_test_package.chosen:Mine", "count": 2}
    return {"decisions": {"selection": selection}}, package / "picked.py"


def in_a_file(folder: Path) -> tuple[dict[str, Any], Path]:
    """A selection in a file, which imports a module that lies elsewhere."""
    (folder / "simfl_test_picked.py").write_text(PICK)
    (folder / "own").mkdir()
    text = SELECTION.format(imports="from simfl_test_picked import pick")
    (folder / "own" / "chosen.py").write_text(text)
    selection = {"name": "own/chosen.py:Mine", "count": 2}
    return {"decisions": {"selection": selection}}, folder / "simfl_test_picked.py"


def in_a_profile(folder: Path) -> tuple[dict[str, Any], Path]:
    """A processor that a device's profile names."""
    shutil.copy(EXAMPLES / "throttling_cpu.py", folder / "throttling_cpu.py")
    shutil.copytree(EXAMPLES / "profiles", folder / "profiles")
    shutil.copy(EXAMPLES / "slow_start.py", folder / "slow_start.py")
    groups = [{"device": "fanless_board", "link": "wifi5_ac"}]
    population = {**BASE["population"], "groups": groups, "profiles": ["profiles"]}
    return {"population": population}, folder / "throttling_cpu.py"


POINTS = {"grid": {"algorithm.local.steps": [1]}}
PLACES = pytest.mark.parametrize("placed", [in_a_package, in_a_file, in_a_profile])


@PLACES
def test_code_that_a_scenario_only_leads_to_changes_the_digest(
    placed: Callable[[Path], tuple[dict[str, Any], Path]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And with the code as it was, the digest is as it was."""
    monkeypatch.syspath_prepend(tmp_path)
    changes, file = placed(tmp_path)
    before, digests = file.read_text(), []

    for text in (before, before + "# another version\n", before):
        file.write_text(text)
        forget(monkeypatch)
        scenario = Scenario.from_mapping({**SMALL, **changes}, tmp_path)
        digests.append(outlined(scenario).digest)
        assert assemble(scenario, Options(device="cpu")).digest == digests[-1]

    assert digests[0] == digests[2] != digests[1]


@PLACES
def test_a_study_is_not_finished_with_code_that_has_changed(
    placed: Callable[[Path], tuple[dict[str, Any], Path]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its runs are to be done again."""
    monkeypatch.syspath_prepend(tmp_path)
    forget(monkeypatch)
    changes, file = placed(tmp_path)
    one = session(tmp_path, base=changes, points=POINTS, seeds=[1])
    run_here(one)
    one.collect()
    study = Study.from_yaml(tmp_path / "tiny.yaml")
    assert is_finished(study, tmp_path / "out") == (placed is not in_a_package)
    assert not one.todo()

    file.write_text(file.read_text() + "# another version\n")
    forget(monkeypatch)

    assert not is_finished(study, tmp_path / "out")
    again = session(tmp_path, base=changes, points=POINTS, seeds=[1])
    assert len(again.todo()) == 1


def test_a_run_is_not_resumed_with_other_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finished one is not shown as if it were this code's."""
    monkeypatch.syspath_prepend(tmp_path)
    forget(monkeypatch)
    changes, file = in_a_file(tmp_path)
    scenario = Scenario.from_mapping({**SMALL, **changes}, tmp_path)
    run(scenario, tmp_path / "run", Options(device="cpu"))

    file.write_text(file.read_text() + "# another version\n")
    forget(monkeypatch)

    with pytest.raises(FolderInUse, match="or a module that this part imports"):
        run(scenario, tmp_path / "run", Options(device="cpu"), resume=True)


def test_shipped_parts_have_no_code_of_ones_own() -> None:
    """Their version says what they are, so the digest of a scenario is that of its figures."""
    one = assemble(small(), Options(device="cpu"))

    assert one.digest == outlined(small()).digest
