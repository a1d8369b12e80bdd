"""docs/flash.md: its scenario is the shipped one, and its selection and its study act."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import yaml

import simfl
from simfl.study.plan import points
from simfl.study.studyfile import Study
from tests.small import small

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "flash.md").read_text(encoding="utf-8")


def test_the_population_is_that_of_the_scenario() -> None:
    """What the page shows stands in the shipped file, value for value."""
    shipped = yaml.safe_load((ROOT / "scenarios" / "flash.yaml").read_text(encoding="utf-8"))
    shown = yaml.safe_load(re.findall(r"```yaml\n(population:.*?)```", PAGE, re.DOTALL)[0])

    for key, value in shown["population"].items():
        assert shipped["population"][key] == value, key


def test_the_selection_and_the_study(tmp_path: Path) -> None:
    """On small data and without traces: cheap phones with much to learn are asked more often."""
    for name, text in re.findall(r"<!-- (\S+) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL):
        (tmp_path / name).write_text(text, encoding="utf-8")
    tiers = ("slow", "mid")
    groups = [{"device": f"flash_femnist_{one}", "link": "wifi5_ac", "count": 12} for one in tiers]
    base = small(
        data={"name": "digits"},
        population={"name": "catalogue", "clients": 24, "groups": groups},
    )
    (tmp_path / "base.yaml").write_text(base.to_yaml(), encoding="utf-8")

    study = Study.from_yaml(
        tmp_path / "study.yaml",
        {"flash": tmp_path / "base.yaml"},
        ["stop.versions=12", "evaluate.every=12"],
        [1],
    )
    found = points(study)

    assert [one.factors["decisions.selection"] for one in found] == ["random", "Oort", "thrifty"]
    run = simfl.run(found[2].scenario, tmp_path / "run")
    asked = run.clients["participations"].to_numpy()
    assert asked.sum() == 12 * 10
    # 3.1 J a batch against 4.8 J, and all clients have as much data, spread alike.
    assert asked[12:].sum() > asked[:12].sum()
    assert np.count_nonzero(asked) > 20
