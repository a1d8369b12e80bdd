"""CO2 and money beside joules, over whole runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simfl.runs.execution import run
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
