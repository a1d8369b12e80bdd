"""A study's folder: runs by their digests, shared results, locks, and the table of all runs.

Several processes, on one machine or many, may work in one folder. A point is run by the process
that holds its lock; the operating system releases the lock when that process ends for any reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pandas as pd
from filelock import FileLock, Timeout

from simfl.common.files import replacing
from simfl.runs.files import FolderInUse
from simfl.runs.runfolder import MANIFEST, RunFolderError, load_run
from simfl.scenario.yaml_source.error import ScenarioError, show
from simfl.scenario.yaml_source.source import read_source
from simfl.scenario.yaml_source.text import dump
from simfl.study.comparable import CAVEATS
from simfl.study.figures import FIGURES
from simfl.study.levels import in_one_column
from simfl.study.loaded import DRAW, STUDY, TABLE
from simfl.study.plan import Point
from simfl.study.rows import ENDED, row
from simfl.study.studyfile import Study


class StudyFolder:
    """The folder of one study; `open` creates it.

    `runs` holds the run folders, `results` what runs share, `locks` the locks of running points.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs, self.results, self.locks = (path / name for name in ("runs", "results", "locks"))

    def open(self, study: Study) -> None:
        """Create the folder, or continue in it; raises `FolderInUse` if it holds something else.

        A study that has changed since keeps every run that it still has; it is known by its name.
        """
        # A folder that merely contains a file of this name may be the user's own.
        is_study = (self.path / STUDY).is_file() and self.locks.is_dir()
        if self.path.exists() and not self.path.is_dir():
            raise FolderInUse(f"{self.path}: a file; choose another --out")
        if self.path.is_dir() and any(self.path.iterdir()) and not is_study:
            raise FolderInUse(f"{self.path}: not empty and no study's folder; choose another --out")
        if is_study:
            self._check_owner(study)
        self.make()
        _write(self.path / STUDY, dump(study.content).encode())

    def _check_owner(self, study: Study) -> None:
        """Raises `FolderInUse` where the folder is that of a study of another name."""
        try:
            content = read_source(self.path / STUDY).content
        except ScenarioError:  # damaged: nobody knows whose it was
            return
        owner = content.get("name")
        if not isinstance(owner, str) or owner == study.name:
            return
        runs = sum(one.is_dir() for one in self.runs.iterdir()) if self.runs.is_dir() else 0
        raise FolderInUse(
            f"{self.path}: holds {runs} run{'s' * (runs != 1)} of the study {show(owner)}, and this"
            f" one is {show(study.name)}; choose another --out, or, if it is the same study under"
            f" a new name, write 'name: {owner}' into its file"
        )

    def make(self) -> None:
        """Create the folders that a run needs."""
        for folder in (self.runs, self.results, self.locks):
            folder.mkdir(parents=True, exist_ok=True)

    def run_folder(self, point: Point) -> Path:
        """Where a point's run lies."""
        return self.runs / point.folder_name

    def has_ended(self, point: Point) -> bool:
        """Whether the point's run has ended; False if its manifest is damaged."""
        try:
            return _is_end_of(point, load_run(self.run_folder(point)).manifest)
        except (OSError, LookupError, RunFolderError):
            return False

    @contextmanager
    def claim(self, name: str) -> Iterator[bool]:
        """Whether the caller may run `name`; if so, the lock is held until the block ends.

        Raises `OSError` if the lock cannot be created.
        """
        lock = FileLock(self.locks / f"{name}.lock")
        try:
            lock.acquire(blocking=False)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def collect(self, study: Study, points: list[Point]) -> tuple[pd.DataFrame, list[str]]:
        """Write `runs.parquet`, one row per run that has ended, in the study's order; returns the
        table.

        Also returns a line for each damaged run, which gets no row.
        """
        rows, unreadable = self.rows(study, points)
        factors = list(points[0].factors)
        if rows:
            table = pd.DataFrame(rows)
            if DRAW in table:
                table[DRAW] = table[DRAW].astype("Int64")
        else:
            names = ("study", "point", "seed", "digest", "folder", *factors, "status", "reason")
            said = (
                "warning_kinds",
                "warning_counts",
                "warning_messages",
                *(caveat.column for caveat in CAVEATS),
            )
            table = pd.DataFrame(columns=[*names, *FIGURES, *said, *study.target_columns()])
        for column in factors:
            if table[column].map(type).nunique() > 1:
                table[column] = in_one_column(table[column].tolist())
        _write(self.path / TABLE, table.to_parquet(index=False))
        return table, unreadable

    def rows(self, study: Study, points: list[Point]) -> tuple[list[dict[str, Any]], list[str]]:
        """A row of the table for each of these runs that has ended, and a line for each damaged
        one.
        """
        targets = study.target_columns()
        rows: list[dict[str, Any]] = []
        unreadable: dict[Path, str] = {}
        for point in points:
            folder = self.run_folder(point)
            if not (folder / MANIFEST).exists():
                continue
            head = {
                "study": study.name,
                "point": point.number,
                "seed": point.seed,
                **({} if study.uncertainty is None else {DRAW: point.draw}),
                "digest": point.digest,
                "folder": str(folder.relative_to(self.path)),
            }
            try:
                run = load_run(folder)
                if _is_end_of(point, run.manifest):
                    rows.append({**head, **point.factors, **row(run, targets)})
            except RunFolderError as error:
                unreadable[folder] = f"{error}; remove {folder} to run it again"
            except (OSError, LookupError, TypeError, ValueError, AttributeError) as error:
                what = f"holds what simfl does not write ({type(error).__name__}: {error})"
                unreadable[folder] = f"{folder}: {what}; remove it to run it again"
        return rows, list(unreadable.values())


def _is_end_of(point: Point, manifest: Mapping[str, Any]) -> bool:
    return manifest["status"] in ENDED and manifest["digest"] == point.digest


def _write(path: Path, content: bytes) -> None:
    """Write a file atomically: readers see the old or the new content, never a part of it."""
    with replacing(path, f".{uuid4().hex}.partial") as partial:
        partial.write_bytes(content)
