"""Watts of devices: what a profile says of idle and training, and what is no such thing."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from simfl.calibration.calibrate import calibrate
from simfl.system.catalogue import Catalogue
from simfl.system.device import Device
from tests.calibration.planted import file_of

STATES = "device,state,watts"


def watts(device: Device, clock_hz: float) -> float:
    """Of the whole device while it trains at a clock."""
    cost = device.processor.compute(1e9, clock_hz)
    return float(device.power_idle_w + (cost.dynamic_j + cost.static_j) / cost.duration_s)


def twin_of(folder: Path, rows: list[str], head: str = STATES, base: str = "rpi_4b") -> Device:
    """The device `pi` as it was calibrated."""
    twin = calibrate(file_of(folder, rows, head), [base], folders=[folder]).twins[0]
    (folder / "mine").mkdir(exist_ok=True)
    (folder / "mine" / f"{twin.name}.yaml").write_text(twin.text())
    return Catalogue([folder / "mine"]).device(twin.name)


def test_idle_watts_leave_what_training_adds_at_the_clock_of_the_base(tmp_path: Path) -> None:
    """A base whose watts hold below its highest clock keeps them, at every clock."""
    base = yaml.safe_load(Catalogue().profile("device", "rpi_4b").path.read_text())
    added = {"power_active_w": 4.0, "measured_hz": 1.0e9}
    del base["processor"]["kappa"]
    base["processor"] |= added
    base["power_idle_w"] = 2.0
    base["unverified"] = [one for one in base["unverified"] if one != "processor.kappa"]
    base["unverified"] += [f"processor.{key}" for key in added]
    base["sources"].pop("processor.kappa", None)
    (tmp_path / "slow.yaml").write_text(yaml.safe_dump(base))
    its = Catalogue([tmp_path]).device("slow")

    twin = twin_of(tmp_path, ["pi,idle,2.0"] * 3, base="slow")

    for clock_hz in (1.0e9, 1.8e9):
        assert watts(twin, clock_hz) == pytest.approx(watts(its, clock_hz), rel=0.02)
