"""Runs one point of a study, for every engine."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from simfl.assembly.simulation import Options
from simfl.protocols.publication import Diverged, Progress
from simfl.provenance.results import FolderStore
from simfl.runs.execution import run
from simfl.scenario.scenario import Scenario
from simfl.study.folder import StudyFolder

Report = Callable[[Progress], None]

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Task:
    """One run to do: its scenario, its name within the study's folder, and how to run it."""

    name: str
    scenario: Scenario
    study: Path
    data_root: Path | None = None
    device: str = "auto"


@dataclass(frozen=True)
class Outcome:
    """How a task ended: completed, diverged, failed, or elsewhere (another process runs it).

    `no_space`: it failed because the study's disk is full, so all others would fail as well.
    """

    name: str
    status: str
    message: str = ""
    no_space: bool = False


def work(task: Task, report: Report | None = None) -> Outcome:
    """Run a task unless another process does; continues where an earlier attempt stopped.

    `report` is called at every version. Whatever the run raises becomes an outcome, so one failing
    point does not affect the others.
    """
    study = StudyFolder(task.study)
    try:
        with study.claim(task.name) as mine:
            if not mine:
                return Outcome(task.name, "elsewhere", "another process is running it")
            folder = study.runs / task.name
            options = Options(
                data_root=task.data_root,
                device=task.device,
                watch=report,
                store=FolderStore(study.results),
            )
            loaded = run(task.scenario, folder, options, resume=True)
    except Diverged as error:
        return Outcome(task.name, "diverged", str(error))
    except Exception as error:  # noqa: BLE001  # a user's part may raise anything
        no_space = isinstance(error, OSError) and error.errno in _NO_SPACE
        return Outcome(task.name, "failed", f"{type(error).__name__}: {error}", no_space)
    return Outcome(task.name, str(loaded.manifest["status"]), str(loaded.manifest["reason"]))
