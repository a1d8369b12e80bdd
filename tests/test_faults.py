"""What goes wrong around a run loses nothing that was written."""

import errno
import math
import os
import stat

import pytest
import torch

import simfl
from simfl.eventlog import log
from simfl.protocols.publication import Diverged
from simfl.runs.files import FolderInUse
from simfl.scenario.scenario import Scenario
from tests.small import SEMI_ASYNCHRONOUS, final_weights, largest_difference, simulated, small

SCENARIO = small(
    dtype="float32",
    protocol=SEMI_ASYNCHRONOUS,
    stop={"versions": 8},
    log={"rows_per_segment": 60},
)


@pytest.fixture
def full_disk(monkeypatch):
    """A disk on which the third segment of the log, and everything after it, finds no room."""
    write, written = log.write_parquet, []

    def refuse(table, path):
        written.append(path)
        if len(written) > 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(table, path)

    monkeypatch.setattr(log, "write_parquet", refuse)
    return written


def test_a_full_disk_leaves_a_readable_folder_that_goes_on(tmp_path, full_disk, monkeypatch):
    """The run stops with the system's error; what was written is read, and resumed from."""
    with pytest.raises(OSError, match="No space left"):
        simfl.run(SCENARIO, tmp_path / "run")
    so_far = simfl.load_run(tmp_path / "run")
    assert len(so_far.events) >= 60 and so_far.manifest["status"] != "completed"
    monkeypatch.undo()

    resumed = simfl.run(SCENARIO, tmp_path / "run", resume=True)

    whole = simfl.run(SCENARIO, tmp_path / "whole")
    first, second = ((run.path / "events.parquet").read_bytes() for run in (whole, resumed))
    assert first == second


def test_an_unfinished_manifest_is_never_left_behind(tmp_path, monkeypatch):
    """A crash while the manifest is written leaves the old one."""
    simfl.run(SCENARIO, tmp_path / "run")
    (tmp_path / "run" / "manifest.partial").write_text('{"status": "runn')

    assert simfl.load_run(tmp_path / "run").manifest["status"] == "completed"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder_is_refused_before_anything_is_trained(tmp_path):
    """The error names the folder."""
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises((FolderInUse, PermissionError), match=str(tmp_path)):
            simfl.run(SCENARIO, tmp_path / "run")
    finally:
        tmp_path.chmod(stat.S_IRWXU)


@pytest.fixture
def exploding(tmp_path):
    """An algorithm whose client 2 sends NaN in its second client round."""
    (tmp_path / "exploding.py").write_text(
        "from dataclasses import dataclass\n"
        "import torch\n"
        "from simfl.algorithms.fedavg import FedAvg\n"
        "@dataclass(frozen=True)\n"
        "class Exploding(FedAvg):\n"
        "    def brief(self, network, state, client, held):\n"
        "        brief = super().brief(network, state, client, held)\n"
        "        bad = float('nan') if (client, state.version) == (2, 1) else 0.0\n"
        "        return type(brief)(brief.start, brief.recipe, brief.price,\n"
        "                           {'bad': torch.tensor([bad], dtype=network.dtype)})\n"
        "    def loss(self, parameters, batch):\n"
        "        return super().loss(parameters, batch) * (1 + batch.own['bad'][:, 0])\n"
    )
    local = {"batch_size": 16, "learning_rate": 0.1, "momentum": 0.5, "keep_optimizer": True}
    return lambda policy: small(
        dtype="float32",
        algorithm={
            "name": f"{tmp_path / 'exploding.py'}:Exploding",
            "non_finite": policy,
            "local": local,
        },
        stop={"versions": 4},
    )


def test_a_nan_update_ends_the_run_by_default(tmp_path, exploding):
    """Status diverged, the folder readable, the version named."""
    with pytest.raises(Diverged, match="version 2"):
        simfl.run(exploding("stop"), tmp_path / "run")

    run = simfl.load_run(tmp_path / "run")
    assert run.manifest["status"] == "diverged"
    assert run.rounds["version"].tolist() == [1]


@pytest.mark.parametrize("stop", [{"versions": 4}, {"versions": None, "bytes": 4e5}], ids=str)
def test_divergence_that_nobody_looked_at(tmp_path, exploding, stop):
    """Versions are computed when they are evaluated, at the latest when the run is over."""
    scenario = exploding("stop").as_mapping() | {"stop": stop, "evaluate": {"every": 100}}
    with pytest.raises(Diverged, match="version 2"):
        simfl.run(Scenario.from_mapping(scenario), tmp_path / "run")

    run = simfl.load_run(tmp_path / "run")
    assert run.manifest["status"] == "diverged"
    assert len(run.rounds) > 1
    assert len(run.events) == run.manifest["counts"]["events"]
    assert len(run.clients) == 8


def test_a_run_that_diverges_is_not_judged_by_its_standalone_baseline(tmp_path):
    """Whose clients diverge alone, too: the error and the manifest are the run's own."""
    scenario = small(
        dtype="float32",
        data={"name": "synthetic", "task": "regression", "partition": "iid"},
        model="linear",
        algorithm={
            "name": "fedavg",
            "local": {"steps": 1, "batch_size": 16, "learning_rate": 1e25},
            "contributions": {"rounds": 1},
        },
    )
    with pytest.raises(Diverged, match="the loss is inf at version 1") as raised:
        simfl.run(scenario, tmp_path / "run")

    run = simfl.load_run(tmp_path / "run")
    assert (run.manifest["status"], run.manifest["reason"]) == ("diverged", str(raised.value))
    assert len(run.clients) == 8


def test_a_dropped_nan_update_comes_back_with_the_clients_momentum(tmp_path, exploding):
    """Dropping leaves a NaN in the client's kept optimizer: each later update is dropped too."""
    _, run = simulated(exploding("drop"))

    assert all(torch.isfinite(tensor).all() for tensor in final_weights(run).values())
    kept = run.values.last_job(2, run.clock.now_s).memory()
    assert any(torch.isnan(tensor).any() for tensor in kept.optimizer.values())


def test_a_reset_client_starts_afresh(tmp_path, exploding):
    """With `reset` the client forgets its momentum, and its next updates count again."""
    _, run = simulated(exploding("reset"))

    assert all(torch.isfinite(tensor).all() for tensor in final_weights(run).values())
    kept = run.values.last_job(2, run.clock.now_s).memory()
    assert kept.optimizer and all(torch.isfinite(t).all() for t in kept.optimizer.values())
    dropped = simulated(exploding("drop"))[1]
    assert largest_difference(final_weights(run), final_weights(dropped)) > 0.0


@pytest.mark.parametrize("algorithm", [{"name": "ditto", "closeness": 1e6}, {"name": "standalone"}])
def test_a_reset_client_forgets_a_model_of_its_own_that_diverged(algorithm):
    """Nothing of it is in the update; the client is served the server's model again."""
    rate = 0.1 if "closeness" in algorithm else 1e30
    local = {"batch_size": 16, "learning_rate": rate}
    part = {**algorithm, "non_finite": "reset", "local": local}
    _, run = simulated(small(dtype="float32", algorithm=part))

    assert all(math.isfinite(version["loss"]) for version in run.publications.rounds)
    assert not run.values.last_job(0, run.clock.now_s).memory().private
