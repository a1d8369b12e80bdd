"""The Ray engine on a local cluster of several nodes, one of which is lost; and packed folders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from simfl.cli.app import app
from simfl.study import on_ray
from simfl.study.loaded import load_study
from simfl.study.on_ray import pack, unpack, work_somewhere
from simfl.study.worker import Outcome
from tests.study.studies import run_here, session, write_study

ROOT = Path(__file__).parents[2]

LOSE_A_NODE = """
import sys
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

from simfl.study.on_ray import Resources
from simfl.study.session import StudySession
from simfl.study.studyfile import Study

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
cluster.wait_for_nodes()
ray.init(address=cluster.address, log_to_driver=False)
one = StudySession(Study.from_yaml(sys.argv[1]), Path(sys.argv[2]))
for index, outcome in enumerate(one.run(one.todo(), resources=Resources(cpus=1.0))):
    print(outcome.status, outcome.message, flush=True)
    if index == 0:
        cluster.remove_node(nodes[1], allow_graceful=False)
        print("node lost", flush=True)
print(len(one.collect().table), "rows", flush=True)
ray.shutdown()
cluster.shutdown()
"""


@pytest.mark.slow
def test_a_node_is_lost_in_the_middle(tmp_path: Path) -> None:
    """Three nodes, one killed after the first point: every point still completes, and the table
    equals that of a study run here.
    """
    pytest.importorskip("ray")
    settings = {"stop.versions": 30}
    file = write_study(tmp_path, set=settings)

    done = subprocess.run(
        [sys.executable, "-c", LOSE_A_NODE, str(file), str(tmp_path / "out")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "node lost" in lines
    assert lines.count("completed versions reached 30") == 8  # among what Ray itself says
    assert "8 rows" in lines
    (tmp_path / "here").mkdir()
    here = session(tmp_path / "here", set=settings)
    run_here(here)
    figures = ["point", "seed", "accuracy", "time_s", "energy_j"]
    there = load_study(tmp_path / "out").table
    assert there[figures].equals(here.collect().table[figures])


def test_a_worker_without_the_studys_folder_sends_its_run(tmp_path: Path) -> None:
    """The run folder comes back whole, and counts as run."""
    one = session(tmp_path, seeds=[1], points=None)
    (task,) = one.tasks(one.todo())

    outcome, packed = work_somewhere(task, tmp_path / "not-there.token")

    assert outcome.status == "completed"
    assert packed is not None and len(one.todo()) == 1
    unpack(packed, one.folder.runs / task.name)
    assert one.todo() == []
    assert one.collect().table["accuracy"].notna().all()


def test_a_worker_with_the_studys_folder_works_there(tmp_path: Path) -> None:
    """Nothing is sent."""
    one = session(tmp_path, seeds=[1], points=None)
    (task,) = one.tasks(one.todo())
    token = tmp_path / "token"
    token.touch()

    outcome, packed = work_somewhere(task, token)

    assert (outcome.status, packed) == ("completed", None)
    assert one.todo() == []
    assert pack(tmp_path / "nothing") is None


def test_without_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says what to install; an unknown engine is refused."""
    monkeypatch.setitem(sys.modules, "ray", None)
    file = write_study(tmp_path, seeds=[1])

    out = ["--out", str(tmp_path / "out")]
    missing = CliRunner().invoke(app, ["study", str(file), *out, "--engine", "ray"])
    unknown = CliRunner().invoke(app, ["study", str(file), *out, "--engine", "spark"])

    assert missing.exit_code == 2
    assert "pip install 'simfl[ray]'" in missing.stderr
    assert unknown.exit_code == 2
    assert "local or ray" in unknown.stderr


def test_the_disk_of_another_node_may_be_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A study ends when its own disk is full; a node without room for its part fails alone."""
    full = Outcome("one", "failed", "No space left on device", no_space=True)
    monkeypatch.setattr(on_ray, "work", lambda task: full)
    one = session(tmp_path, seeds=[1], points={"grid": {"algorithm.local.steps": [1]}})
    (task,) = one.tasks(one.todo())
    token = tmp_path / "token"

    elsewhere, _ = work_somewhere(task, token)
    token.touch()
    here, _ = work_somewhere(task, token)

    assert (elsewhere.no_space, here.no_space) == (False, True)
