"""docs/flash.md: its scenario is the shipped one, and its selection and its study act."""

from __future__ import annotations

import gzip
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


def test_the_scenario_on_tables_of_a_few_rows(tmp_path: Path) -> None:
    """It runs on what lies below a data root, whose figures its clients have."""
    folder = tmp_path / "device_traces"
    folder.mkdir()
    speeds = "down_mean,down_std,up_mean,up_std\n1000,1,500,1\n300,1,2000,1\n"
    (folder / "flash_network_speed.csv").write_text(speeds)
    stays = "".join(f"{client},{72_000 + 10 * client},172800\n" for client in range(30))
    with gzip.open(folder / "flash_availability_strict.csv.gz", "wt") as file:
        file.write(f"client,start_s,end_s\n{stays}")
    changes = {
        "data.name": "digits",
        "model": "linear",
        "population.clients": 40,
        "protocol.wait_for.clients": 20,
        "stop.versions": 2,
    }
    scenario = simfl.Scenario.of("flash").with_overrides(changes)

    run = simfl.run(scenario, tmp_path / "run", options=simfl.Options(data_root=tmp_path))

    assert run.manifest["counts"]["versions"] == 2
    rates = {
        *zip(run.clients["uplink_bps"].round(), run.clients["downlink_bps"].round(), strict=True)
    }
    assert rates == {(500 * 8192, 1000 * 8192), (2000 * 8192, 300 * 8192)}
    # All clients come within 290 s; the server waits until 20 of its 40 are there.
    assert 0 < run.events.query("kind == 'select'")["time_s"].min() < 290
    shares = run.clients["device"].value_counts(normalize=True)
    assert abs(shares["flash_femnist_slow"] - 0.53) < 0.03


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
