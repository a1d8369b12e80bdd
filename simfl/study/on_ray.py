"""The Ray engine: runs points as tasks on an existing Ray cluster.

Workers that see the study's folder run points in it and share results, as in the local engine. The
others run a point in a folder of their own and send the run folder back. If a node is lost, its
task is retried on another one.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from simfl.common.ray_cluster import connect
from simfl.study.folder import StudyFolder
from simfl.study.local import MOST_DEATHS
from simfl.study.worker import Outcome, Task, work

LOCK_SECONDS = 60.0
"""How long a lock may outlive the node that held it, on a file system with leases."""


@dataclass(frozen=True)
class Resources:
    """What one point occupies: CPU cores and GPUs (may be fractional)."""

    cpus: float = 1.0
    gpus: float = 0.0


def run_on_ray(
    tasks: Sequence[Task], resources: Resources, address: str = "auto"
) -> Iterator[Outcome]:
    """Yields each task's outcome as soon as it is available.

    `address`: the cluster's, "auto" for the one that this machine belongs to. Raises `MissingRay`.
    """
    ray = connect(address)
    if not tasks:
        return
    study = StudyFolder(tasks[0].study)
    token = study.locks / f"{uuid4().hex}.token"
    token.touch()
    remote = ray.remote(
        num_cpus=resources.cpus, num_gpus=resources.gpus, max_retries=MOST_DEATHS - 1
    )(work_somewhere)
    waiting = {remote.remote(task, token): task for task in tasks}
    try:
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1)
            task = waiting.pop(ready[0])
            try:
                outcome, packed = ray.get(ready[0])
            except ray.exceptions.RayError as error:
                reason = str(error).partition("\n")[0]
                yield Outcome(task.name, "failed", f"{type(error).__name__}: {reason}")
                continue
            if packed is not None:
                unpack(packed, study.runs / task.name)
            yield outcome
    finally:
        for left in waiting:
            ray.cancel(left, force=True)
        token.unlink(missing_ok=True)


def work_somewhere(task: Task, token: Path) -> tuple[Outcome, bytes | None]:
    """Run a task on this node; also returns its packed run folder if the node does not see the
    token.
    """
    if token.exists():
        until = time.monotonic() + LOCK_SECONDS
        outcome = work(task)
        while outcome.status == "elsewhere" and time.monotonic() < until:
            time.sleep(1.0)  # a lost node may still hold the lock
            outcome = work(task)
        return outcome, None
    with tempfile.TemporaryDirectory() as name:
        own = StudyFolder(Path(name))
        own.make()
        outcome = replace(work(replace(task, study=own.path)), no_space=False)
        return outcome, pack(own.runs / task.name)


def pack(folder: Path) -> bytes | None:
    """A folder's files as one archive; None if there is no folder."""
    if not folder.is_dir():
        return None
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.add(folder, arcname=".")
    return buffer.getvalue()


def unpack(packed: bytes, folder: Path) -> None:
    """Extract the files of `pack` into a folder, which is created."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
        archive.extractall(folder, filter="data")
