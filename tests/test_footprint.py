"""CO2 and money beside joules, over whole runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simfl.runs.execution import run
from simfl.runs.runfolder import LoadedRun
from simfl.runs.summary import main_figures
from simfl.study.comparable import caveat_of_pair
from simfl.study.rows import row
from tests.small import SMALL, small

KWH = 3.6e6
HOURS = """# A grid whose intensity doubles every tenth of a second, and begins again.
kind: region
carbon_gco2_per_kwh: [[0, 100], [0.1, 200], [0.2, 400]]
price_per_kwh: [[0, 0.25]]
period_s: 0.3
"""


def test_a_constant_grid_weighs_every_joule_alike(tmp_path: Path) -> None:
    """Every client's grams are its joules times 365.477 g/kWh; the manifest has all machines'."""
    one = run(small(population={"region": "grid_germany"}), tmp_path / "run")

    assert one.clients["carbon_gco2"].to_numpy() == pytest.approx(
        one.clients["energy_j"].to_numpy() / KWH * 365.477
    )
    assert one.clients["electricity_cost"].to_numpy() == pytest.approx(
        one.clients["energy_j"].to_numpy() / KWH * 0.3234
    )
    assert one.manifest["carbon_gco2"] == pytest.approx(one.manifest["energy_j"] / KWH * 365.477)


def test_no_region_no_columns(tmp_path: Path) -> None:
    """Without a region nothing is counted; without a price there is no cost."""
    plain = run(small(), tmp_path / "plain")
    poland = run(small(population={"region": "grid_poland"}), tmp_path / "poland")

    assert not {"carbon_gco2", "electricity_cost"} & {*plain.clients, *plain.manifest}
    assert "carbon_gco2" in poland.clients
    assert not {"electricity_cost"} & {*poland.clients, *poland.manifest}
    assert plain.manifest["fingerprint"] == poland.manifest["fingerprint"]


def test_an_hourly_grid_is_integrated_row_by_row(tmp_path: Path) -> None:
    """Each event's joules spread evenly over its time: the same sum by quadrature of the log."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "hours.yaml").write_text(HOURS)
    keys = {"region": "hours", "profiles": [str(tmp_path / "own")]}
    protocol = {"name": "hierarchical", "edge_rounds": 2}
    one = run(small(population=keys, protocol=protocol), tmp_path / "run")

    def intensity(time_s: np.ndarray) -> np.ndarray:
        return 100.0 * 2.0 ** np.floor((time_s % 0.3) / 0.1)

    points = (np.arange(4000) + 0.5) / 4000
    events = one.events
    means = [
        intensity(start + (end - start) * points).mean()
        for start, end in zip(events["start_s"], events["time_s"], strict=True)
    ]
    grams = events["energy_j"] / KWH * np.array(means)

    by_client = grams.groupby(events["client"]).sum()
    assert one.clients["carbon_gco2"].to_numpy() == pytest.approx(by_client.to_numpy(), rel=1e-3)
    assert one.manifest["carbon_gco2"] == pytest.approx(grams.sum(), rel=1e-3)
    assert one.clients["carbon_gco2"].sum() > one.clients["energy_j"].sum() / KWH * 100


def test_groups_in_different_regions(tmp_path: Path) -> None:
    """The same joules weigh as much as the client's own region says."""
    groups = [
        {**group, "region": name}
        for group, name in zip(
            SMALL["population"]["groups"], ("grid_sweden", "grid_india"), strict=True
        )
    ]
    one = run(small(population={"groups": groups, "region": "grid_japan"}), tmp_path / "run")

    intensity = one.clients["carbon_gco2"] / one.clients["energy_j"] * KWH
    by_device = intensity.groupby(one.clients["device"]).mean()
    assert by_device["rpi_4b"] == pytest.approx(45.817)
    assert by_device["phone_high_sd865"] == pytest.approx(637.182)


def test_co2_and_money_are_shown_with_their_currency(tmp_path: Path) -> None:
    """For all machines; without known figures there is no line."""
    germany = run(small(population={"region": "grid_germany"}), tmp_path / "germany").manifest
    poland = run(small(population={"region": "grid_poland"}), tmp_path / "poland").manifest
    plain = run(small(), tmp_path / "plain").manifest

    def shown(manifest: dict[str, Any]) -> dict[str, str]:
        keys = ("CO2 equivalent", "electricity")
        return {key: text for key, text in main_figures(manifest, None) if key in keys}

    kwh = germany["energy_j"] / KWH
    assert shown(germany) == {
        "CO2 equivalent": f"{kwh * 365.477:.3g} g",
        "electricity": f"{kwh * 0.3234:.3g} EUR",
    }
    assert list(shown(poland)) == ["CO2 equivalent"]
    assert shown(plain) == {}


def test_studies_compare_co2_and_money_of_one_currency_alone(tmp_path: Path) -> None:
    """Nor are runs compared that charge idle power differently."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "hours.yaml").write_text(HOURS + "currency: JPY\n")
    own = {"region": "hours", "profiles": [str(tmp_path / "own")]}
    keys: dict[str, dict[str, Any]] = {
        "germany": {"region": "grid_germany"},
        "own": own,
        "spared": {**own, "server_idle_share": 0.5},
    }
    rows = {
        name: row(run(small(population=its), tmp_path / "runs" / name), {})
        for name, its in keys.items()
    }

    def why(first: str, other: str, metric: str) -> str | None:
        found = caveat_of_pair(rows[first], rows[other], metric)
        return None if found is None else found.name

    assert rows["own"]["carbon_gco2"] > 0 and rows["own"]["electricity_cost"] > 0
    assert why("germany", "own", "electricity_cost") == "other currencies"
    assert why("germany", "own", "carbon_gco2") is None
    assert why("own", "spared", "carbon_gco2") == "counted differently"
    assert why("own", "spared", "electricity_cost") == "counted differently"


BATTERIES = {"initial": [0.5, 0.5], "charge_w": 5.0}
SUN = {**BATTERIES, "harvest_w": [[0, 1.0]]}


@pytest.mark.parametrize(
    ("region", "batteries", "said"),
    [
        ("hours", BATTERIES, ["by the hour when they give joules, not when they were charged"]),
        ("grid_germany", SUN, ["as if what they harvest came from the grid"]),
        (
            "hours",
            SUN,
            [
                "by the hour when they give joules, not when they were charged, and as if what"
                " they harvest came from the grid"
            ],
        ),
        ("grid_germany", BATTERIES, []),
        ("hours", None, []),
        (None, SUN, []),
    ],
)
def test_co2_of_batteries_is_told_to_be_of_other_hours(
    region: str | None, batteries: dict[str, Any] | None, said: list[str], tmp_path: Path
) -> None:
    """Where the hour makes a difference, or a panel charges them; the Raspberry Pis have none."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "hours.yaml").write_text(HOURS)
    keys = {"region": region, "batteries": batteries, "profiles": [str(tmp_path / "own")]}
    one: LoadedRun = run(small(population=keys), tmp_path / "run")

    told = [notice for notice in one.warnings if notice.kind == "charged_at_other_hours"]
    phones = int((one.clients["device"] == "phone_high_sd865").sum())
    assert [(notice.count, notice.message) for notice in told] == [
        (phones, f"CO2 and money of {phones} clients on batteries are counted {words}")
        for words in said
    ]
