"""A tiny study that tests vary."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from simfl.study.session import StudySession
from simfl.study.studyfile import Study
from simfl.study.worker import Outcome, work

BASE: dict[str, Any] = {
    "data": {"name": "digits", "partition": {"name": "dirichlet", "alpha": 1.0}},
    "model": "linear",
    "population": {
        "name": "catalogue",
        "clients": 4,
        "edges": 2,
        "groups": [{"device": "rpi_4b", "link": "wifi5_ac", "share": 1.0}],
    },
    "algorithm": {
        "name": "fedavg",
        "local": {"steps": 1, "batch_size": 32, "learning_rate": 0.1},
    },
    "protocol": "synchronous",
    "stop": {"versions": 2},
}

STUDY: dict[str, Any] = {
    "scenario": "base.yaml",
    "points": {
        "grid": {"population.groups.0.device": ["rpi_4b", "rpi_5"], "algorithm.local.steps": [1, 2]}
    },
    "seeds": [1, 2],
    "questions": {"targets": {"accuracy": [0.1]}},
}


def write_study(folder: Path, base: dict[str, Any] | None = None, **changes: Any) -> Path:
    """The tiny study's file, and its scenario's beside it, with changed top-level keys."""
    scenario = {**copy.deepcopy(BASE), **(base or {})}
    (folder / "base.yaml").write_text(yaml.safe_dump(scenario, sort_keys=False))
    file = folder / "tiny.yaml"
    content = {key: one for key, one in {**STUDY, **changes}.items() if one is not None}
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


def session(folder: Path, **changes: Any) -> StudySession:
    """The tiny study, ready to run in `folder`/out."""
    return StudySession(Study.from_yaml(write_study(folder, **changes)), folder / "out")


def run_here(one: StudySession, share: str | None = None) -> list[Outcome]:
    """Run what there is to do in this process."""
    return [work(task) for task in one.tasks(one.todo(share))]
