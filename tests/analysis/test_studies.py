"""The shipped studies: valid as they are; their scripts read what they leave, at a small size."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
import yaml

from simfl.scenario.shipped import shipped_scenarios
from simfl.study.plan import points
from simfl.study.session import StudySession
from simfl.study.studyfile import Study
from tests.study.studies import run_here

ROOT = Path(__file__).parents[2]
STUDIES = ROOT / "scenarios" / "studies"


def shrunken(name: str, folder: Path, keys: dict[str, Any], sizes: dict[str, int]) -> Path:
    """A shipped study with `keys` set in every point, two seeds, and so many levels per factor."""
    content = yaml.safe_load((STUDIES / f"{name}.yaml").read_text("utf-8"))
    beside = STUDIES / content["scenario"]
    if beside.exists():
        content["scenario"] = str(beside)
    content["set"] = {**content.get("set", {}), **keys}
    content["seeds"] = [1, 2]
    grid = content["points"].get("grid", {})
    for factor, size in sizes.items():
        if factor == "variant":
            variants = content["points"]["variants"]
            content["points"]["variants"] = dict(list(variants.items())[:size])
        else:
            grid[factor] = grid[factor][:size]
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


# Few figures per example, so that training takes no time.
TINY = {
    "data": {
        "name": "synthetic",
        "features": 4,
        "outputs": 3,
        "noise": 0.1,
        "examples": 400,
        "test_examples": 60,
        "validation_share": 0.2,
        "partition": "iid",
    },
    "model": "linear",
}
CASES = {
    "caps_and_radios": (
        "caps_and_radios",
        {**TINY, "population.clients": 6, "stop": {"accuracy": 0.8, "versions": 12}},
        {"variant": 2, "decisions.allocation": 2, "population.groups.0.link": 2},
    ),
    "fedcure_beta": (
        "fedcure_beta",
        {"population.clients": 10, "stop.versions": 6, "evaluate.every": 3},
        {"decisions.scheduling.beta": 2, "protocol.concurrency": 2},
    ),
    "fairness": (
        "fairness_notions",
        {"population.clients": 2, "stop.versions": 1, "evaluate.every": 1},
        {"variant": 2},
    ),
}


@pytest.mark.parametrize("name", [*CASES, "boards/four_questions"])
def test_every_point_of_a_shipped_study_is_valid(name: str) -> None:
    """Whatever keys and names have become; with one of its seeds, in which they do not differ."""
    study = Study.from_yaml(STUDIES / f"{name}.yaml", shipped_scenarios())

    found = points(study.model_copy(update={"seeds": study.seeds[:1], "uncertainty": None}))

    assert len(found) * len(study.seeds) >= 30


@pytest.mark.parametrize(
    "name",
    ["caps_and_radios", *(pytest.param(one, marks=pytest.mark.slow) for one in list(CASES)[1:])],
)
def test_its_script_makes_tables_and_a_figure(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the study's folder alone."""
    script, keys, sizes = CASES[name]
    file = shrunken(name, tmp_path, keys, sizes)
    session = StudySession(Study.from_yaml(file, shipped_scenarios()), tmp_path / "out")
    assert {outcome.status for outcome in run_here(session)} == {"completed"}
    session.collect()
    path = ROOT / "analysis" / f"{script}.py"
    monkeypatch.setattr(sys, "argv", [str(path), str(tmp_path / "out")])

    runpy.run_path(str(path), run_name="__main__")

    plt.close("all")
    assert "against" in capsys.readouterr().out
    assert (tmp_path / "out" / f"{script}.png").read_bytes().startswith(b"\x89PNG")
