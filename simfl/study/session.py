"""One invocation of a study: its points, the remaining work, and collecting results."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.study.asking import Choice, ask, the_optuna
from simfl.study.design import chosen, corners
from simfl.study.finished import set_finished
from simfl.study.folder import StudyFolder
from simfl.study.loaded import LoadedStudy, load_study
from simfl.study.local import Watch, run_locally
from simfl.study.on_ray import Resources, run_on_ray
from simfl.study.plan import Point, planned, points, shard
from simfl.study.searched import standing
from simfl.study.studyfile import Study
from simfl.study.worker import Outcome, Task

DEFAULT_WORKERS = 2


class BadShard(ValueError):
    """A share that does not exist."""


class StudySession:
    """A study and its folder (default `runs/NAME`).

    Raises ScenarioError for the first point that is not a valid scenario, and `FolderInUse`.
    """

    def __init__(
        self,
        study: Study,
        out: Path | None = None,
        *,
        data_root: Path | None = None,
        device: str = "auto",
    ) -> None:
        self.study = study
        self._data_root = data_root.absolute() if data_root is not None else None
        if study.search is None:
            self.points = points(study, self._data_root)
        else:
            the_optuna()
            one_seed = study.model_copy(update={"seeds": study.seeds[:1]})
            planned(one_seed, corners(study), self._data_root, must_be_read=True)
            self.points = []
        self.folder = StudyFolder(study.folder(out))
        self.folder.open(study)
        self.unreadable: list[str] = []
        self._asked: list[Choice] = []
        self._rows: list[dict[str, Any]] = []
        self._device = device
        while self.advance():
            pass

    def advance(self) -> bool:
        """Plan a search's next batch if all earlier runs have ended; returns whether there is one.

        Raises ScenarioError if the runs lack a figure that the search needs.
        """
        search = self.study.search
        if search is None or self.unasked == 0 or self.todo():
            return False
        done = len(self._rows)
        rows, self.unreadable = self.folder.rows(self.study, self.points[done:])
        if self.unreadable:
            return False
        self._rows += rows
        runs = pd.DataFrame(self._rows)
        absent = [name for name in search.figures if self._rows and name not in runs]
        if absent:
            accepted = "figures that the runs have"
            raise self.study.where("search").error(", ".join(absent), accepted)
        batch = ask(search, self.study.seeds[0], self._asked, runs)
        trials = [chosen(self.study, one) for one in batch]
        self.points += planned(self.study, trials, self._data_root, len(self._asked))
        self._asked += batch
        return True

    @property
    def unasked(self) -> int:
        """Number of a search's trials that have not been chosen yet."""
        search = self.study.search
        return search.trials - len(self._asked) if search is not None else 0

    def todo(self, share: str | None = None) -> list[Point]:
        """Points that have not been run to their end, each simulation once.

        `share` "2/8" is the second of eight shares of all points. Raises `BadShard`.
        """
        ended = {row["digest"] for row in self._rows}
        mine = [one for one in self._mine(share) if one.digest not in ended]
        return [one for one in mine if not self.folder.has_ended(one)]

    def size(self, share: str | None = None) -> int:
        """The number of different simulations, in all or in a share.

        For a search it is an upper bound: trials that are not chosen yet may repeat a simulation.
        """
        return len(self._mine(share)) + self.later

    @property
    def later(self) -> int:
        """Number of runs of trials that have not been chosen yet."""
        return self.unasked * len(self.study.seeds)

    def missing(self, share: str | None = None) -> int:
        """How many simulations have not been run to their end."""
        return len(self.todo(share)) + self.later

    def cost(self, share: str | None = None) -> str:
        """How many runs the drawn machines take, in words; empty without draws."""
        asked = self.study.uncertainty
        if asked is None:
            return ""
        settings, seeds = len({point.number for point in self.points}), len(self.study.seeds)
        one = settings == 1
        which, each = ("one setting", "") if one else (f"{settings} settings", " each setting")
        return (
            f"{len(self.points)} runs: {which} with {seeds} seed{'s' * (seeds > 1)}, and{each} on"
            f" {asked.draws} drawn machines; {self.missing(share)} of {self.size(share)} different"
            " ones are to do"
        )

    @property
    def standing(self) -> str:
        """The progress of a search: its trials so far and the best of them."""
        search = self.study.search
        if search is None or not self._rows:
            return ""
        return standing(pd.DataFrame(self._rows), search)

    def check(self) -> None:
        """Read the data of the first point to run; raises ScenarioError before anything runs."""
        for point in self.todo()[:1]:
            assemble(point.scenario, Options(data_root=self._data_root, device=self._device))

    def run(
        self,
        todo: list[Point],
        workers: int | None = None,
        watch: Watch | None = None,
        resources: Resources | None = None,
    ) -> Iterator[Outcome]:
        """Run points in processes of this machine; yields each outcome as soon as it is available.

        With `resources`, the points are run on a Ray cluster, each with these resources.
        """
        if resources is not None:
            return run_on_ray(self.tasks(todo), resources)
        count = workers or min(DEFAULT_WORKERS, os.cpu_count() or 1)
        return run_locally(self.tasks(todo), count, watch)

    def tasks(self, todo: list[Point]) -> list[Task]:
        """The tasks for an engine to run these points."""
        return [
            Task(
                name=point.folder_name,
                scenario=point.scenario,
                study=self.folder.path.absolute(),
                data_root=self._data_root,
                device=self._device,
            )
            for point in todo
        ]

    def collect(self) -> LoadedStudy:
        """Write the table of all runs that have ended, and load the study.

        `unreadable` then has a line for each damaged run, which gets no row.
        """
        table, self.unreadable = self.folder.collect(self.study, self.points)
        if len(table) == len(self.points) and not self.unasked:
            set_finished(self.study, self.folder.path, self._data_root)
        return load_study(self.folder.path)

    def _mine(self, share: str | None) -> list[Point]:
        unique = list({point.digest: point for point in self.points}.values())
        if share is None:
            return unique
        found = re.fullmatch(r"(\d+)/(\d+)", share)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise BadShard(f"--shard: found {share!r}, accepted: I/N with 1 <= I <= N, as 2/8")
        return shard(unique, int(found[1]), int(found[2]))
