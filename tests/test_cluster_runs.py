"""Whole runs whose workers are on a cluster, which here lies within the process of the test."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import simfl
from simfl.assembly import assemble, simulation
from simfl.assembly.simulation import Options
from simfl.learning.task import Task
from simfl.learning.workers.on_ray import RayWorkers
from simfl.learning.workers.remote import RemoteTrainer
from simfl.pictures.report.of_run import report_run
from simfl.protocols.publication import Progress
from simfl.runs.files import FolderInUse
from simfl.runs.runfolder import MANIFEST
from tests.learning.clusters import Cluster
from tests.learning.posing import Posing
from tests.small import SEMI_ASYNCHRONOUS, small
from tests.test_ray import same, scenario

ON_CLUSTER = Options(workers=2, ray=RayWorkers())


def clusters(monkeypatch: pytest.MonkeyPatch, *fates: str | Mapping[str, Any]) -> list[Cluster]:
    """Have runs use clusters whose workers meet these fates; the first says what all compute on."""
    made: list[Cluster] = []
    other = fates[0] if fates and isinstance(fates[0], Mapping) else {}

    class Here(Cluster):
        def __init__(self, workers: RayWorkers) -> None:
            super().__init__(*fates)
            made.append(self)

        def asked(self, what: Any, prepare: Any, longest_s: float) -> dict[str, Any]:
            return {**what(), **other}

    for module in (assemble, simulation):
        monkeypatch.setattr(module, "RayCluster", Here)
    return made


def test_a_run_on_a_cluster_is_the_run_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker is killed: the manifest says so, nothing else differs, and all workers are ended.

    Clients train alone first, so that two trainings have workers, one after the other.
    """
    made = clusters(monkeypatch, "", "killed")
    scenario = small(
        algorithm={"name": "cffl", "local": {"epochs": 1}},
        data={"validation_share": 0.1},
        dtype="float32",
        stop={"versions": 2},
    )

    here = simfl.run(scenario, tmp_path / "here", Options(device="cpu"))
    there = simfl.run(scenario, tmp_path / "there", ON_CLUSTER)

    for name in ("fingerprint", "numeric_platform", "counts"):
        assert there.manifest[name] == here.manifest[name]
    assert (
        there.file("model.safetensors").read_bytes() == here.file("model.safetensors").read_bytes()
    )
    (lost,) = [one for one in there.warnings if one.kind == "lost_workers"]
    assert "machine 1 (it was killed)" in lost.message
    assert here.manifest["workers"] == []
    workers = there.manifest["workers"]
    assert [each["worker"] for each in workers] == ["machine 0", "machine 2"]
    assert sum(each["jobs"] for each in workers) == there.manifest["counts"]["jobs_trained"]
    page = report_run(there, tmp_path / "report.html").read_text("utf-8")
    for each in workers:
        row = [f">{each[column]}<" for column in ("worker", "jobs", "training_s")]
        assert re.search(".*".join(map(re.escape, row)), page)
    assert there.warnings != here.warnings
    lines = [line for cluster in made for line in cluster.lines]
    assert lines and all(line.ended for line in lines)


@pytest.mark.parametrize(
    "protocol", ["hierarchical", SEMI_ASYNCHRONOUS], ids=["hierarchical", "semi_asynchronous"]
)
def test_sums_by_edge_server_come_with_the_answers(
    protocol: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients of several edge servers train together, as they are chosen by losses of their states.

    No worker is asked for a sum, and no bit differs.
    """
    monkeypatch.setattr("simfl.learning.workers.remote.LEAST_HELD_BYTES", 0)
    choice = {"selection": {"name": "power_of_choice", "count": 3}}
    one = small(dtype="float32", protocol=protocol, decisions=choice)
    trainings: list[set[int]] = []
    cut = RemoteTrainer.cut

    def watched(self: RemoteTrainer, tasks: Sequence[Task]) -> list[list[int]]:
        trainings.append({id(task.state) for task in tasks})
        return cut(self, tasks)

    monkeypatch.setattr(RemoteTrainer, "cut", watched)
    here = simfl.run(one, tmp_path / "here", Options(device="cpu"))
    assert same(simfl.run(one, tmp_path / "2", Options(device="cpu", workers=2)), here)
    for workers in (1, 2):
        made = clusters(monkeypatch)
        on_cluster = Options(workers=workers, ray=RayWorkers())
        there = simfl.run(one, tmp_path / f"on {workers}", on_cluster)

        assert same(there, here)
        lines = [line for cluster in made for line in cluster.lines]
        assert lines and not any(line.sums for line in lines)
    assert any(len(states) > 1 for states in trainings)


@pytest.mark.parametrize("how", ["interrupted", "killed"])
def test_a_resumed_run_still_says_which_workers_were_lost_before(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of both parts in one warning, even if nothing was left to report at the end."""
    scenario = small(dtype="float32")

    def cut_off(progress: Progress) -> None:
        if progress.version == 2:
            if how == "killed":  # then the manifest is what the last snapshot left beside it
                kept.append((tmp_path / MANIFEST).read_bytes())
            raise KeyboardInterrupt

    kept: list[bytes] = []
    clusters(monkeypatch, "", "killed")
    cut = replace(ON_CLUSTER, watch=cut_off, snapshot_seconds=0.0)
    with pytest.raises(KeyboardInterrupt):
        simfl.run(scenario, tmp_path, cut)
    for content in kept:
        (tmp_path / MANIFEST).write_bytes(content)
    (before,) = [one for one in simfl.load_run(tmp_path).warnings if one.kind == "lost_workers"]

    clusters(monkeypatch, "killed")
    resumed = simfl.run(scenario, tmp_path, ON_CLUSTER, resume=True)

    (lost,) = [one for one in resumed.warnings if one.kind == "lost_workers"]
    assert (before.count, lost.count) == (1, 2)
    assert lost.message.startswith(f"{before.message}; workers lost or given up: machine 0")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["stacked", "one_by_one", "loop"])
def test_whatever_befalls_workers_there_is_one_fingerprint_and_one_model(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 1, 2 and 4 workers, with one killed and one hung, and resumed with another number."""
    one = scenario(form, tmp_path)
    here = simfl.run(one, tmp_path / "here", Options(device="cpu"))
    assert here.manifest["numeric_platform"]["kernel_family"] == form

    def there(workers: int, *fates: str, **options: Any) -> Options:
        clusters(monkeypatch, *fates)
        return Options(workers=workers, ray=RayWorkers(give_up_s=0.5), **options)

    def cut_off(progress: Progress) -> None:
        if progress.version == 2:
            raise KeyboardInterrupt

    for name, workers, fates in (
        ("1", 1, ()),
        ("2", 2, ()),
        ("4", 4, ()),
        ("killed", 2, ("", "killed")),
        ("hung", 2, ("", "hangs")),
    ):
        run = simfl.run(one, tmp_path / name, there(workers, *fates))
        assert same(run, here), name
        warned = [each.kind for each in run.warnings]
        assert ("lost_workers" in warned) == bool(fates)
    for now in (0, 3):
        folder = tmp_path / f"resumed with {now}"
        with pytest.raises(KeyboardInterrupt):
            simfl.run(one, folder, there(2, watch=cut_off, snapshot_seconds=0.0))
        on = there(now) if now else Options(device="cpu")
        resumed = simfl.run(one, folder, on, resume=True)
        assert same(resumed, here)
        assert resumed.manifest["counts"]["jobs_trained"] < here.manifest["counts"]["jobs_trained"]


def test_where_workers_compute_otherwise_the_run_is_of_another_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest says in what; without the cluster it is not resumed."""
    clusters(monkeypatch, *[{"cpu": "other"}] * 2)
    scenario = small(stop={"versions": 1})

    there = simfl.run(scenario, tmp_path / "there", ON_CLUSTER)

    assert there.manifest["numeric_platform"]["workers"] == {"cpu": "other"}
    with pytest.raises(FolderInUse, match=r"numeric platform .*workers"):
        simfl.run(scenario, tmp_path / "there", Options(device="cpu"), resume=True)
    assert (
        simfl.run(scenario, tmp_path / "there", ON_CLUSTER, resume=True).manifest == there.manifest
    )


def test_workers_of_a_run_count_on_their_share_of_an_accelerator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its platform says so; half of the memory holds no cohort of the whole one's size."""
    clusters(monkeypatch)
    monkeypatch.setattr(RayWorkers, "device", Posing(4e6))
    one = scenario("stacked", tmp_path)
    sizes = {}
    for share in (1.0, 0.5):
        workers = RayWorkers(gpus_per_worker=share)
        run = simfl.run(one, tmp_path / f"{share}", Options(workers=2, ray=workers))
        sizes[share] = run.manifest["numeric_platform"]["workers"]["cohort_jobs"]
        assert not {"refused_workers", "halved_cohorts"} & {each.kind for each in run.warnings}

    assert sizes[0.5] != sizes[1.0]
