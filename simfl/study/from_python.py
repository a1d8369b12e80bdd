"""`simfl.study`: runs a study from Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simfl.console.study import follow_study
from simfl.console.watched import watched
from simfl.study.finished import is_finished
from simfl.study.loaded import LoadedStudy, load_study
from simfl.study.session import StudySession
from simfl.study.studyfile import Study


class StudyIncomplete(RuntimeError):
    """Runs of a study have failed; those that ended can be read."""


def study(
    study: Mapping[str, Any] | str | Path,
    out: Path | str | None = None,
    *,
    workers: int | None = None,
    data_root: Path | None = None,
    device: str = "auto",
) -> LoadedStudy:
    """Runs the points of a study that have not been run yet, in parallel, and loads it.

    The study is a YAML file, or a mapping of the same keys, in which `scenario` may be a `Scenario`
    or a mapping, and a part a class. `out` defaults to `runs/<name>`, `workers` to 2 (1 on a single
    core). Progress is shown in a terminal or a notebook. Calling it again needs no flag: finished
    runs are loaded, runs that are no longer part of the study are left alone.

    Raises `ScenarioError` for the first invalid point, `FolderInUse` if `out` holds something else,
    and `StudyIncomplete` if runs have failed.
    """
    asked = Study.from_mapping(study) if isinstance(study, Mapping) else Study.from_yaml(study)
    folder = Path(out) if out is not None else None
    if is_finished(asked, asked.folder(folder), data_root):
        return load_study(asked.folder(folder))
    session = StudySession(asked, folder, data_root=data_root, device=device)
    session.check()
    outcomes = follow_study(session, workers, None, None, quiet=not watched())
    loaded = session.collect()
    if session.missing() or session.unreadable:
        told = [f"{one.name}: {one.message}" for one in outcomes if one.status == "failed"]
        missing = f"{session.missing()} of {session.size()} runs are missing"
        reasons = "; ".join([missing, *session.unreadable, *told[:1]])
        raise StudyIncomplete(f"{loaded.path}: {reasons}; load_study reads those that ended")
    return loaded
