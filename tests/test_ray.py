"""One run on a local Ray cluster of two nodes is the run without it, whatever befalls workers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import simfl
from simfl.assembly.simulation import Options
from simfl.cli.app import app
from simfl.learning.workers import on_ray
from simfl.learning.workers.on_ray import RayWorkers
from simfl.learning.workers.packed_requests import PackedValues
from simfl.protocols.publication import Progress
from simfl.runs.runfolder import LoadedRun
from simfl.scenario.scenario import Scenario
from tests.learning.posing import Posing
from tests.small import small

ROOT = Path(__file__).parents[1]
NOISY = """
import torch
from torch import nn

class Noisy(nn.Module):
    def __init__(self, input_shape, outputs):
        super().__init__()
        self.layer = nn.Linear(64, outputs)

    def forward(self, inputs):
        outputs = self.layer(inputs.flatten(1))
        return outputs + 0.1 * torch.randn_like(outputs)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of four cores each, as far as Ray knows."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'simfl[ray]'")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:  # a busy machine takes its time
        patch.setenv("RAY_raylet_start_wait_time_s", "180")
        patch.setenv("RAY_agent_register_timeout_ms", "180000")
        nodes = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 4, "include_dashboard": False}
        )
        nodes.add_node(num_cpus=4)
        nodes.wait_for_nodes()
    ray.init(address=nodes.address, log_to_driver=False)
    yield nodes
    ray.shutdown()
    nodes.shutdown()


def scenario(form: str, folder: Path) -> Scenario:
    """Three versions of a model that is trained in this form."""
    if form == "loop":
        (folder / "noisy.py").write_text(NOISY)
        return small(model={"name": f"{folder / 'noisy.py'}:Noisy"}, dtype="float32")
    if form == "one_by_one":
        rng = np.random.default_rng(0)
        images = rng.integers(0, 256, (160, 28, 28), dtype=np.uint8)
        labels = rng.integers(0, 3, 160)
        np.savez(
            folder / "images.npz",
            x_train=images[:120],
            y_train=labels[:120],
            x_test=images[120:],
            y_test=labels[120:],
        )
        partition = {"name": "iid"}
        data = {"name": "npz", "path": str(folder / "images.npz"), "partition": partition}
        return small(data=data, model={"name": "cnn", "channels": [4]}, dtype="float32")
    return small(dtype="float32")


def same(run: LoadedRun, expected: LoadedRun) -> bool:
    """Whether two runs have the same log and the same model."""
    models = [one.file("model.safetensors").read_bytes() for one in (run, expected)]
    return bool(
        models[0] == models[1]
        and run.manifest["fingerprint"] == expected.manifest["fingerprint"]
        and run.manifest["numeric_platform"] == expected.manifest["numeric_platform"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("form", ["stacked", "one_by_one", "loop"])
def test_workers_on_ray_change_nothing_of_a_run(form: str, cluster: Any, tmp_path: Path) -> None:
    """None, two processes, and one, two and four workers of a cluster."""
    one = scenario(form, tmp_path)
    here = simfl.run(one, tmp_path / "here", Options(device="cpu"))
    processes = simfl.run(one, tmp_path / "processes", Options(device="cpu", workers=2))

    assert here.manifest["numeric_platform"]["kernel_family"] == form
    assert same(processes, here)
    for workers in (1, 2, 4):
        there = Options(workers=workers, ray=RayWorkers())
        assert same(simfl.run(one, tmp_path / str(workers), there), here)


@pytest.mark.slow
@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hung"])
def test_a_worker_is_lost_in_the_middle(
    blow: signal.Signals, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two: what it had is done by others, the manifest says so, and no bit differs."""
    one = scenario("stacked", tmp_path)
    here = simfl.run(one, tmp_path / "here", Options(device="cpu"))
    hit: list[int] = []
    give = on_ray.RayLine.ask

    def ask(self: on_ray.RayLine, packed: PackedValues, *rest: Any) -> Any:
        handle = give(self, packed, *rest)
        if versions and not hit:
            hit.append(int(re.findall(r"process (\d+)", self.where())[0]))
            os.kill(hit[0], blow)
        return handle

    monkeypatch.setattr(on_ray.RayLine, "ask", ask)
    versions: list[int] = []

    def strike(progress: Progress) -> None:
        versions.append(progress.version)

    ray = RayWorkers(give_up_s=60.0)
    there = simfl.run(one, tmp_path / "there", Options(workers=2, ray=ray, watch=strike))

    assert same(there, here)
    (lost,) = [one for one in there.warnings if one.kind == "lost_workers"]
    assert str(hit[0]) in lost.message
    assert ("no answer in 60 s" in lost.message) == (blow is signal.SIGSTOP)


@pytest.mark.slow
def test_what_befalls_accelerators_of_workers_stands_in_the_manifest(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their memory is occupied by others: cohorts are halved there, and no bit differs."""
    one = scenario("stacked", tmp_path)
    here = simfl.run(one, tmp_path / "here", Options(device="cpu"))
    monkeypatch.setattr(RayWorkers, "device", Posing(4e6, free_bytes=3e5))

    there = simfl.run(one, tmp_path / "there", Options(workers=2, ray=RayWorkers()))

    assert there.manifest["numeric_platform"]["workers"]["device"] == "posing"
    told = {each.kind: each.message for each in there.warnings}
    assert "memory of posing ran out" in told["halved_cohorts"]
    assert "results of posing may differ in their last bits" in told["cohort_dependent"]
    assert there.manifest["fingerprint"] == here.manifest["fingerprint"]
    models = [each.file("model.safetensors").read_bytes() for each in (there, here)]
    assert models[0] == models[1]


@pytest.mark.slow
def test_a_node_is_lost_and_the_others_go_on(cluster: Any, tmp_path: Path) -> None:
    """With all its workers."""
    one = scenario("stacked", tmp_path)
    here = simfl.run(one, tmp_path / "here", Options(device="cpu"))
    node = cluster.add_node(num_cpus=2, resources={"leaving": 1})
    cluster.wait_for_nodes()

    def leave(progress: Progress) -> None:
        if progress.version == 2:
            cluster.remove_node(node, allow_graceful=False)

    there = Options(workers=10, ray=RayWorkers(give_up_s=120.0), watch=leave)

    assert same(simfl.run(one, tmp_path / "there", there), here)


@pytest.mark.slow
def test_a_run_and_a_study_share_a_cluster(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven of eight cores are others' points: one of four workers is there, until they end. While
    two workers have four cores each, a point waits for the end of the run."""
    import ray

    one = scenario("stacked", tmp_path)
    here = simfl.run(one, tmp_path / "here", Options(device="cpu"))
    until = tmp_path / "points may end"

    def point() -> None:
        while not until.exists():
            time.sleep(0.1)

    points = ray.remote(num_cpus=1)(point)
    held = [points.remote() for _ in range(7)]
    while ray.available_resources().get("CPU", 0) > 1:
        time.sleep(0.1)
    asked: set[on_ray.RayLine] = set()
    give = on_ray.RayLine.ask

    def ask(self: on_ray.RayLine, *request: Any) -> Any:
        asked.add(self)
        return give(self, *request)

    monkeypatch.setattr(on_ray.RayLine, "ask", ask)
    few = simfl.run(one, tmp_path / "few", Options(workers=4, ray=RayWorkers()))
    assert same(few, here) and len(asked) == 1
    until.touch()
    ray.get(held)

    late: list[Any] = []
    waits: list[bool] = []

    def submit(progress: Progress) -> None:
        if not late:
            while ray.available_resources().get("CPU", 0) > 0:
                time.sleep(0.1)
            late.append(points.remote())
        waits.append(not ray.wait(late, timeout=0.5)[0])

    all_cores = RayWorkers(cpus_per_worker=4.0)
    many = simfl.run(one, tmp_path / "many", Options(workers=2, ray=all_cores, watch=submit))

    assert same(many, here) and waits and all(waits)
    assert ray.get(late) == [None]


LOSE_THE_HEAD = """
import sys
from pathlib import Path
import ray
from ray.cluster_utils import Cluster
from simfl.assembly.simulation import Options
from simfl.learning.workers.on_ray import RayWorkers
from simfl.runs.execution import run
from simfl.scenario.scenario import Scenario

head = {"num_cpus": 2, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=head)
ray.init(address=cluster.address, log_to_driver=False)

def strike(progress):
    print("version", progress.version, flush=True)
    if progress.version == 2:
        cluster.head_node.kill_gcs_server()
        cluster.head_node.kill_raylet()

run(
    Scenario.from_yaml(sys.argv[1]),
    sys.argv[2],
    Options(workers=2, ray=RayWorkers(give_up_s=60.0), watch=strike, snapshot_seconds=0.0),
)
"""


@pytest.mark.slow
def test_a_lost_head_leaves_a_run_that_goes_on_without_it(tmp_path: Path) -> None:
    """On another number of workers: here, none."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'simfl[ray]'")
    one = scenario("stacked", tmp_path)
    file = tmp_path / "scenario.yaml"
    file.write_text(one.to_yaml(), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", LOSE_THE_HEAD, str(file), str(tmp_path / "there")],
        cwd=ROOT,
        env={
            **os.environ,
            "RAY_gcs_rpc_server_reconnect_timeout_s": "5",
            "RAY_raylet_start_wait_time_s": "180",
            "RAY_agent_register_timeout_ms": "180000",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )

    assert done.returncode != 0 and "version 2" in done.stdout, done.stderr
    resumed = simfl.run(one, tmp_path / "there", Options(device="cpu"), resume=True)
    assert resumed.manifest["counts"]["jobs_trained"] < resumed.manifest["counts"]["jobs_asked"]
    assert same(resumed, simfl.run(one, tmp_path / "here", Options(device="cpu")))


def test_what_cannot_be_asked_of_a_cluster_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one line that names the option; without Ray too, and nothing is written."""
    monkeypatch.setitem(sys.modules, "ray", None)
    out = tmp_path / "out"
    for options, said in (
        ([], "pip install 'simfl[ray]'"),
        (["--give-up-s", "0"], "--give-up-s: found 0, accepted: more than 0 seconds"),
        (["--cpus-per-worker", "0"], "--cpus-per-worker: found 0, without GPUs"),
        (["--gpus-per-worker", "1.5"], "--gpus-per-worker: found 1.5, accepted: a share of one"),
        (["--device", "cuda"], "--device: found 'cuda', which needs --gpus-per-worker"),
        (["--trainer", "sequential"], "--trainer: found 'sequential', but workers"),
        (["--workers", "-1"], "--workers: found -1"),
    ):
        arguments = ["run", "quickstart", "--engine", "ray", *options, "--out", str(out)]
        found = CliRunner().invoke(app, arguments)
        assert found.exit_code == 2, found.output
        assert said in found.stderr
    assert not out.exists()
