"""What is asked for in Python: `simfl.run` and `simfl.study`, once and again, seen or not."""

from __future__ import annotations

import copy
import gc
import importlib
import subprocess
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import simfl
from simfl.assembly.simulation import Simulation
from simfl.protocols.publication import Diverged
from simfl.runs import execution
from simfl.runs.files import FolderInUse
from simfl.study.from_python import StudyIncomplete
from simfl.study.worker import Outcome, Task, work
from tests.study.studies import BASE

ROOT = Path(__file__).parents[1]
TINY: dict[str, Any] = {**BASE, "stop": {"versions": 1}}
STUDY = {"scenario": TINY, "points": {"grid": {"algorithm.local.steps": [1, 2]}}, "seeds": [1]}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run_in_this_process(tasks: Sequence[Task], workers: int, watch: Any) -> Iterator[Outcome]:
    """Instead of processes, which take seconds to begin."""
    return (work(one, lambda progress, name=one.name: watch(name, progress)) for one in tasks)


@pytest.fixture
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simfl.study.session.run_locally", run_in_this_process)


def as_notebook(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """As far as IPython says; the states of each line that it is given, as it shows them."""
    shell, lines = SimpleNamespace(kernel=object()), []

    def display(data: dict[str, str], *, raw: bool, display_id: bool) -> SimpleNamespace:
        assert raw and display_id
        states = [data["text/plain"]]
        lines.append(states)
        return SimpleNamespace(update=lambda data, *, raw: states.append(data["text/plain"]))

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    return lines


def test_a_run_of_a_mapping_or_of_a_shipped_name() -> None:
    """A mapping is not changed; an unknown name is reported."""
    content = copy.deepcopy(TINY)

    run = simfl.run(content)

    assert run.path == Path("runs/scenario-seed0")
    assert run.manifest["status"] == "completed"
    assert content == TINY
    assert simfl.Scenario.of("quickstart").name == "quickstart"
    with pytest.raises(ValueError, match="no such file"):
        simfl.run("quickstrat")


def test_to_ask_again_needs_no_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same is read, another scenario lies beside it, neither is lost; `out` is kept to."""
    first, other = simfl.run(TINY), simfl.run({**TINY, "stop": {"versions": 2}})
    began = [one.manifest["started"] for one in (first, other)]
    monkeypatch.setattr("simfl.runs.execution.simulate", None)  # from now on nothing can be run

    again = [simfl.run(TINY), simfl.run({**TINY, "stop": {"versions": 2}})]

    assert other.path.name.startswith(f"{first.path.name}-")
    assert [one.path for one in again] == [first.path, other.path]
    assert [one.manifest["started"] for one in again] == began
    with pytest.raises(FolderInUse, match="holds a run"):
        simfl.run({**TINY, "seed": 5}, first.path)


def test_what_was_cut_off_goes_on_and_what_cannot_be_trusted_is_run_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An interrupted run is resumed; of another version of simfl nothing is taken over."""

    def stop(progress: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simfl.run({**TINY, "stop": {"versions": 3}}, options=simfl.Options(watch=stop))
    assert simfl.load_run("runs/scenario-seed0").manifest["status"] == "interrupted"

    run = simfl.run({**TINY, "stop": {"versions": 3}})
    assert run.manifest["status"] == "completed"
    assert run.manifest["counts"]["jobs_trained"] < run.manifest["counts"]["jobs_asked"]

    monkeypatch.setattr("simfl.runs.from_python.own_version", lambda: "9.9.9")
    anew = simfl.run({**TINY, "stop": {"versions": 3}})
    assert anew.path == run.path
    assert anew.manifest["counts"]["jobs_trained"] == anew.manifest["counts"]["jobs_asked"]


@pytest.mark.usefixtures("_in_this_process")
def test_a_study_of_a_mapping_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scenario is a mapping or a `Scenario`; a second time nothing is run."""
    study = simfl.study(STUDY)

    assert study.path == Path("runs/study")
    assert list(study.table["algorithm.local.steps"]) == [1, 2]
    assert (study.table["status"] == "completed").all()
    monkeypatch.setattr("simfl.study.session.run_locally", lambda tasks, *_: iter(map(None, tasks)))
    named = {**STUDY, "scenario": simfl.Scenario.from_mapping(TINY)}
    assert simfl.study(named).table["digest"].equals(study.table["digest"])


def test_a_study_whose_runs_fail_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many are missing, and why the first one is."""
    monkeypatch.setattr(
        "simfl.study.session.run_locally",
        lambda tasks, *_: (Outcome(one.name, "failed", "no luck") for one in tasks),
    )

    with pytest.raises(StudyIncomplete, match=r"2 of 2 runs are missing.*no luck"):
        simfl.study(STUDY)


def test_the_package_of_studies_is_the_function_too() -> None:
    """Whatever of it has been imported, and by which statement."""
    importlib.import_module("simfl.study.loaded")

    assert callable(simfl.study)
    assert callable(importlib.import_module("simfl.study"))
    assert simfl.study.loaded.load_study is simfl.load_study


@pytest.mark.usefixtures("_in_this_process")
def test_a_notebook_sees_one_line_and_nobody_else_any(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is replaced in place, and its last state stays. Nothing where nobody watches."""
    simfl.run(TINY)
    assert capsys.readouterr() == ("", "")

    lines = as_notebook(monkeypatch)
    simfl.run({**TINY, "seed": 1})
    simfl.run({**TINY, "seed": 1})  # which is read: nothing goes on
    simfl.study(STUDY)

    run, study = lines
    assert "version 1/1" in run[-1]
    assert study[0].startswith("study: ") and "study: 2 of 2 done" in study[-1]
    assert not any("\n" in state for state in [*run, *study])
    assert capsys.readouterr() == ("", "")


def test_dir_lists_what_is_public_and_nothing_else() -> None:
    """And the two modules of public names, which need no import of their own."""
    names = {one for one in dir(simfl) if not one.startswith("_")}

    assert names == {*simfl.__all__, "algorithms", "plugins"}
    assert simfl.algorithms.FedAvg is importlib.import_module("simfl.algorithms").FedAvg


@pytest.mark.slow
def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    """Processes do not run the script that began them; its classes are found by their files."""
    script = tmp_path / "script.py"
    script.write_text(
        f"""
import simfl
from simfl.plugins import Scheduling
print("begun")
class First(Scheduling):
    def decide(self, memory, view, rng):
        return memory, int(view.idle.nonzero()[0][0]), {{}}
scenario = {{**{TINY!r}, "protocol": "semi_asynchronous"}}
points = {{"grid": {{"decisions.scheduling": ["round_robin", First]}}}}
study = simfl.study({{"scenario": scenario, "points": points}}, workers=1)
print(list(study.table["decisions.scheduling"]))
"""
    )

    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "begun\n['round_robin', 'First']\n"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {
            "algorithm": "fedsac",
            "data": {**BASE["data"], "validation_share": 0.2},
            "model": {"name": "mlp", "hidden": [8]},
        },
        {"algorithm": {"name": "fedavg", "local": {"learning_rate": 1e30, "weight_decay": 1.0}}},
    ],
    ids=["fedavg", "fedsac", "diverged"],
)
def test_a_finished_run_keeps_none_of_the_data(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    """Otherwise a script with a hundred runs keeps many data sets until garbage collection."""
    lent: list[weakref.ref[torch.Tensor]] = []
    assemble = execution.assemble

    def noted(*asked: Any) -> Simulation:
        made = assemble(*asked)
        held = (made.partitioned.data.test, *made.partitioned.clients)
        lent.extend(weakref.ref(one.inputs) for one in held)
        return made

    monkeypatch.setattr(execution, "assemble", noted)
    gc.disable()
    try:
        with suppress(Diverged):
            simfl.run({**TINY, "protocol": "semi_asynchronous", **changes}, "one")
    finally:
        gc.enable()

    assert gc.get_freeze_count() == 0  # what was there before is looked at again
    assert len(lent) > 2
    assert [one() for one in lent] == [None] * len(lent)
