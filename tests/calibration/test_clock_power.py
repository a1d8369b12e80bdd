"""Watts of a CPU at several clocks: the share that does not fall with the clock."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from simfl.calibration.calibrate import Calibration, calibrate
from simfl.calibration.clock_power import TYPICAL_SHARE
from simfl.calibration.twins import Figure
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.system.catalogue import Catalogue
from simfl.system.cpu import Cpu
from simfl.system.device import Device
from tests.calibration.planted import file_of

HEAD = "device,state,watts,clock_hz"
STATIC = "processor.power_static_w"
IDLE_W, ADDED_W, TOP_HZ = 2.0, 5.0, 1.8e9
CLOCKS_HZ = (0.6e9, 0.9e9, 1.2e9, 1.5e9, 1.8e9)


def planted_w(share: float, clock_hz: float, exponent: float = 3.0) -> float:
    """Watts of the whole device that trains at a clock."""
    return IDLE_W + ADDED_W * (share + (1.0 - share) * (clock_hz / TOP_HZ) ** exponent)


def calibration(folder: Path, rows: list[str], base: str = "rpi_4b") -> Calibration:
    """From rows of a device `pi`, and three of its idle power."""
    rows = [f"pi,idle,{IDLE_W},"] * 3 + rows
    return calibrate(file_of(folder, rows, HEAD), [base], folders=[folder])


def static_w(found: Calibration) -> Figure:
    """Static power per core."""
    (figure,) = (one for one in found.twins[0].figures if one.key == STATIC)
    return figure


def device_of(folder: Path, found: Calibration, draw: int | None = None) -> Device:
    """The calibrated device."""
    (folder / "mine").mkdir(exist_ok=True)
    (folder / "mine" / "pi.yaml").write_text(found.twins[0].text())
    return Catalogue([folder / "mine"], draw=draw).device("pi")


def sweep(share: float, exponent: float = 3.0) -> list[str]:
    """One row per clock."""
    return [f"pi,train,{planted_w(share, hz, exponent):.4g},{hz:g}" for hz in CLOCKS_HZ]


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_watts_at_several_clocks_tell_what_does_not_fall_with_them(
    share: float, tmp_path: Path
) -> None:
    """Within 15 % of what was planted, at 5 % in watts."""
    found = calibration(tmp_path, sweep(share))

    static, device = static_w(found), device_of(tmp_path, found)
    assert static.value == pytest.approx(share * ADDED_W / 4, rel=0.15)
    assert static.interval[0] < share * ADDED_W / 4 < static.interval[1]
    for hz in CLOCKS_HZ:
        watts = device.power_idle_w + device.computing_w(hz)
        assert watts == pytest.approx(planted_w(share, hz), rel=0.05)
    assert not found.warnings
    assert STATIC in device.sources and STATIC not in device.unverified


def test_watts_that_fall_by_another_law_are_met_within_a_tenth(tmp_path: Path) -> None:
    """With the square of the clock, where the base has its cube."""
    device = device_of(tmp_path, calibration(tmp_path, sweep(0.2, 2.0)))

    for hz in CLOCKS_HZ:
        watts = device.power_idle_w + device.computing_w(hz)
        assert watts == pytest.approx(planted_w(0.2, hz, 2.0), rel=0.1)


def test_models_at_different_clocks_are_not_one_that_falls(tmp_path: Path) -> None:
    """What a model draws is its own: two of one clock each do not tell the static share."""
    head = "device,batch_size,batches,seconds,convolution_flops,watts,clock_hz"
    rows = ["pi,16,20,218,3.6e9,7.0,1.8e9", "pi,16,20,436,3.6e9,6.4,0.9e9"]
    of_one = calibrate(file_of(tmp_path, rows, head), ["rpi_4b"])
    other = rows[1].replace("3.6e9", "8.2e9").replace("436", "990")
    of_two = calibrate(file_of(tmp_path, [rows[0], other], head), ["rpi_4b"])

    one, two = static_w(of_one), static_w(of_two)
    assert one.value > 2.0 * two.value
    assert not one.origin and two.origin


def test_one_clock_leaves_the_static_share_open(tmp_path: Path) -> None:
    """Typical of cores, and told as such; nothing changes at the clock that was measured."""
    found = calibration(tmp_path, ["pi,train,7.0,"] * 3)

    static, device = static_w(found), device_of(tmp_path, found)
    assert static.value == pytest.approx(TYPICAL_SHARE * ADDED_W / 4, rel=0.05)
    assert static.interval[1] > 2.5 * static.value > 6.0 * static.interval[0]
    (warning,) = found.warnings
    assert warning.startswith(f"pi: no row tells {STATIC}; ")
    assert warning.endswith(" is typical of cores, and counts below the measured clock alone")
    assert STATIC in device.unverified
    assert device.power_idle_w + device.computing_w(TOP_HZ) == pytest.approx(7.0, rel=0.02)
    halved = [
        drawn.power_idle_w + drawn.computing_w(0.9e9)
        for drawn in (device_of(tmp_path, found, draw) for draw in range(20))
    ]
    assert min(halved) < planted_w(0.06, 0.9e9) < planted_w(0.35, 0.9e9) < max(halved)


def test_a_base_with_static_power_keeps_its_share(tmp_path: Path) -> None:
    """Half as much added power, half as much of it static."""
    base = Catalogue().device("rpi_zero_2w")
    processor = base.processor
    assert isinstance(processor, Cpu)
    share = 4 * processor.power_static_w / base.computing_w()
    head_w = IDLE_W + base.computing_w() / 2

    static = static_w(calibration(tmp_path, [f"pi,train,{head_w:.5g},"] * 3, "rpi_zero_2w"))

    assert static.value == pytest.approx(share * (head_w - IDLE_W) / 4, rel=0.1)
    assert static.origin == "the base's, and counts below the measured clock alone"


def test_cores_that_wait_for_memory_draw_less_at_a_higher_clock(tmp_path: Path) -> None:
    """A base whose cores wait: the clock decides how many are powered, too."""
    base = yaml.safe_load(Catalogue().profile("device", "rpi_4b").path.read_text())
    base["processor"] |= {"memory_bound": 0.4, "stall_utilization": 0.2, "power_static_w": 0.2}
    base["unverified"] += [
        f"processor.{key}" for key in ("memory_bound", "stall_utilization", "power_static_w")
    ]
    (tmp_path / "waits.yaml").write_text(yaml.safe_dump(base))
    its = Catalogue([tmp_path]).device("waits")
    rows = [f"pi,train,{IDLE_W + its.computing_w(hz):.4g},{hz:g}" for hz in CLOCKS_HZ]

    device = device_of(tmp_path, calibration(tmp_path, rows, "waits"))

    for hz in CLOCKS_HZ:
        assert device.computing_w(hz) == pytest.approx(its.computing_w(hz), rel=0.06)


def test_an_accelerator_has_the_watts_of_one_clock(tmp_path: Path) -> None:
    """Its modes are configured one by one, and its power is linear in the clock within one."""
    rows = ["pi,train,9.0,921.6e6", "pi,train,5.0,640e6"]

    with pytest.raises(ScenarioError) as caught:
        calibration(tmp_path, rows, "jetson_nano")

    assert ":6: clock_hz: found 640000000.0" in str(caught.value)
    assert "give rows of another mode another device" in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(("share", "exponent"), [(0.05, 3.0), (0.3, 3.0), (0.1, 2.0)])
@pytest.mark.parametrize("clocks_hz", [(1.8e9,), (0.9e9, 1.8e9), CLOCKS_HZ])
def test_intervals_of_watts_at_half_the_clock_hold(
    clocks_hz: tuple[float, ...], share: float, exponent: float, tmp_path: Path
) -> None:
    """In at least 17 of 20 files, by one reading in three percent per clock."""
    rng, inside = np.random.default_rng(5), 0
    truth_w = planted_w(share, TOP_HZ / 2, exponent)
    for _ in range(20):
        rows = [
            f"pi,train,{planted_w(share, hz, exponent) * np.exp(0.03 * rng.normal()):.4g},{hz:g}"
            for hz in clocks_hz
        ]
        idle, active, static = (
            np.array(one.draws) for one in calibration(tmp_path, rows).twins[0].figures
        )
        half_w = idle + 4 * static + (active - idle - 4 * static) / 8
        low, high = np.quantile(half_w, (0.05, 0.95))
        inside += bool(low <= truth_w <= high)

    assert inside >= 17
