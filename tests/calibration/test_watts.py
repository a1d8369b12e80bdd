"""Watts of devices: a profile's idle and training power, and invalid figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

import simfl
from simfl.calibration.calibrate import calibrate
from simfl.calibration.measurements import read_measurements
from simfl.calibration.power import MODELS, power_figures
from simfl.calibration.twins import Figure
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.system.catalogue import Catalogue
from simfl.system.device import Device
from tests.calibration.planted import file_of

STATES = "device,state,watts"


def watts(device: Device, clock_hz: float) -> float:
    """Watts of the whole device while it trains at a clock frequency."""
    cost = device.processor.compute(1e9, clock_hz)
    return float(device.power_idle_w + (cost.dynamic_j + cost.static_j) / cost.duration_s)


def twin_of(folder: Path, rows: list[str], head: str = STATES, base: str = "rpi_4b") -> Device:
    """The calibrated device `pi`."""
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


WORKS = ("218,3.6e9,1e6,6e7", "652,8.2e9,4e6,2.6e8", "700,2.3e8,4.2e10,2.6e8", "56,9e8,1e6,6e7")
"""Seconds and work of four models."""
COMPUTED = "device,batch_size,batches,seconds,convolution_flops,dense_flops,traffic_bytes,watts"


def intervals(
    folder: Path, watts_of: tuple[float, ...], repeats: int, idle_w: tuple[float, ...] = ()
) -> dict[str, tuple[float, float]]:
    """Intervals of both powers, with so many rows for each of some models and idle readings."""
    rows = [
        f"pi,16,20,{row},{its},"
        for row, its in zip(WORKS, watts_of, strict=False)
        for _ in range(repeats)
    ]
    rows += [f"pi,,,,,,,{its},idle" for its in idle_w]
    measured = read_measurements(file_of(folder, rows, f"{COMPUTED},state"))
    found = power_figures(measured, {"pi": Catalogue().device("rpi_4b")}, {"pi": None}, {})
    return {one.key: one.interval for one in found["pi"]}


def active_w(
    folder: Path, watts_of: tuple[float, ...], repeats: int, idle_w: tuple[float, ...] = ()
) -> tuple[float, float]:
    """The interval of the active power."""
    return intervals(folder, watts_of, repeats, idle_w)["processor.power_active_w"]


def test_the_active_power_holds_for_a_model_that_was_not_measured(tmp_path: Path) -> None:
    """What models draw lies in its interval, however often each was read, and not far within."""
    models_w = (5.0, 6.0, 7.0, 8.0)

    low, high = active_w(tmp_path, models_w, 6)

    assert low < min(models_w) and max(models_w) < high < 3.0 * low
    left_out = active_w(tmp_path, models_w[:3], 6)
    assert left_out[0] < models_w[3] < left_out[1]


def test_watts_of_one_model_that_are_read_again_are_not_those_of_many(tmp_path: Path) -> None:
    """Twelve readings of one model leave nearly as much open as three."""
    often, thrice = (active_w(tmp_path, (6.0,), repeats) for repeats in (12, 3))

    assert np.log(often[1] / often[0]) > 0.7 * np.log(thrice[1] / thrice[0])


def test_how_far_models_differ_is_not_how_far_idle_watts_are_off(tmp_path: Path) -> None:
    """Idle readings that agree leave the active power as open as models do, and the other way."""
    alike, unlike = (6.0, 6.1, 6.2, 6.3), (4.0, 6.0, 8.0, 11.0)
    often = (2.0, 2.01, 1.99) * 4

    low, high = active_w(tmp_path, unlike, 3, often)

    assert low < min(unlike) and max(unlike) < high
    assert np.log(high / low) == pytest.approx(
        np.log(np.divide(*active_w(tmp_path, unlike, 3)[::-1])), rel=0.1
    )
    its, theirs = (intervals(tmp_path, one, 3, often)["power_idle_w"] for one in (alike, unlike))
    assert its == pytest.approx(theirs, rel=0.01) and 1.75 < its[0] < its[1] < 2.25


def test_readings_of_one_meter_share_its_error_and_those_of_several_do_not(tmp_path: Path) -> None:
    """Ten readings of an idle device by one meter leave nearly as much open as one."""

    def width(rows: list[str]) -> float:
        twin = calibrate(file_of(tmp_path, rows, f"{STATES},meter"), ["rpi_4b"]).twins[0]
        low, high = next(one for one in twin.figures if one.key == "power_idle_w").interval
        return float(np.log(high / low))

    once, often = (width(["pi,idle,2.0,plug"] * count) for count in (1, 10))
    several = width([f"pi,idle,2.0,plug_{number}" for number in range(10)])

    assert 0.6 * once < often <= 1.05 * once
    assert several < 0.5 * once


def gpu_figures(folder: Path, rows: list[str], base: str = "jetson_nano") -> dict[str, Figure]:
    """Powers of a device `gpu` from rows, as they stand in its profile."""
    head = f"{COMPUTED},state"
    twin = calibrate(file_of(folder, rows, head), [base]).twins[0]
    return {one.key: one for one in twin.figures if one.unit in ("W", "")}


def waiting_rows(watts_of: tuple[float, float, float]) -> list[str]:
    """Rows of the gpu: large steps, smaller ones, and those that are nearly all fixed time.

    A step takes 0.1 s, and 3.6e11 FLOP/s of convolutions.
    """
    rows = []
    for flops, watts in zip((3.6e10, 1.2e9, 1e6), watts_of, strict=True):
        seconds = 20 * (0.1 + 3 * 16 * flops / 3.6e11)
        rows += [f"gpu,16,20,{seconds:.4g},{flops:g},,,{watts},"] * 2
    return rows


def test_what_an_accelerator_draws_while_it_waits_is_told_by_small_steps(tmp_path: Path) -> None:
    """Planted: 2 W idle, 12 W while it computes, 3 W in the fixed time: a share of 0.1."""
    shares = [1.0 - 0.1 / (0.1 + 3 * 16 * flops / 3.6e11) for flops in (3.6e10, 1.2e9, 1e6)]
    large, middle, small = (round(3.0 + 9.0 * share, 2) for share in shares)
    idle = ["gpu,,,,,,,2.0,idle"] * 6

    found = gpu_figures(tmp_path, [*waiting_rows((large, middle, small)), *idle])

    assert found["processor.power_active_w"].value == pytest.approx(12.0, rel=0.1)
    stall = found["processor.stall_utilization"]
    assert stall.value == pytest.approx(0.1, abs=0.04)
    assert stall.draws.min() >= 0.0 and stall.draws.max() <= 1.0 and stall.interval[1] > 0.8
    only_large = gpu_figures(tmp_path, [*waiting_rows((12.0, 12.0, 12.0))[:2], *idle])
    assert "processor.stall_utilization" not in only_large
    of_cpu = gpu_figures(tmp_path, [*waiting_rows((8.0, 7.0, 4.0)), *idle], "rpi_4b")
    assert "processor.stall_utilization" not in of_cpu


def test_a_model_that_was_not_measured_may_let_an_accelerator_wait(tmp_path: Path) -> None:
    """Its power reaches down to idle; a CPU's does not, and the best figure is the same."""
    rows = ["gpu,,,,,,,9.0,train", "gpu,,,,,,,10.0,train", "gpu,,,,,,,11.0,train"]
    rows += ["gpu,,,,,,,2.0,idle"] * 4

    gpu, cpu = (
        gpu_figures(tmp_path, rows, base)["processor.power_active_w"]
        for base in ("jetson_nano", "rpi_4b")
    )

    assert gpu.value == pytest.approx(cpu.value, rel=0.02)
    assert gpu.value == pytest.approx(10.0, rel=0.05)
    assert 2.0 < gpu.interval[0] < 3.0 < 6.0 < cpu.interval[0]
    assert gpu.interval[1] <= 1.05 * cpu.interval[1]


@pytest.mark.parametrize("draw", [1, 6])
def test_drawn_accelerators_train_at_their_drawn_watts(draw: int, tmp_path: Path) -> None:
    """Their own idle power is drawn with the device's, also if nobody read it."""
    rows = ["gpu,16,200,76,1.2e9,,,8.0,", "gpu,16,200,60,1.0e9,,,8.0,"]
    (twin,) = calibrate(file_of(tmp_path, rows, f"{COMPUTED},state"), ["jetson_nano"]).twins
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "gpu.yaml").write_text(twin.text(), encoding="utf-8")
    catalogue = Catalogue([tmp_path / "mine"])

    device = Catalogue([tmp_path / "mine"], draw=draw).device("gpu")

    drawn = catalogue.profile("device", "gpu").uncertainty.drawn(draw)
    assert device.power_idle_w == drawn["power_idle_w"] != catalogue.device("gpu").power_idle_w
    assert watts(device, device.processor.frequency_max_hz) == pytest.approx(
        drawn["processor.power_active_w"]
    )


def test_a_mode_at_the_measured_clock_has_the_measured_watts(tmp_path: Path) -> None:
    """Others keep the base's; and their clocks are not those that were calibrated."""
    head = "device,model,input_shape,outputs,batch_size,batches,seconds,watts,state"
    rows = ["gpu,linear,1x8x8,10,16,1000,7.6,6,train", "gpu,,,,,,,1.5,idle"]
    path = file_of(tmp_path, rows, head)
    (twin,) = calibrate(path, ["jetson_nano"], for_model="linear").twins
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "gpu.yaml").write_text(twin.text(), encoding="utf-8")
    gpu = Catalogue([tmp_path / "mine"]).device("gpu")

    for machine, expected in ((gpu, 6.0), (gpu.in_mode("MaxN"), 6.0), (gpu.in_mode("5W"), 5.0)):
        top_hz = machine.processor.frequency_max_hz
        assert watts(machine, top_hz) == pytest.approx(expected, rel=0.02)
    for mode, warned in (("MaxN", False), ("5W", True)):
        scenario = {
            "data": {"name": "sizes", "examples_per_client": 32, "input_shape": [1, 8, 8]},
            "model": "linear",
            "population": {
                "name": "catalogue",
                "clients": 2,
                "profiles": [str(tmp_path / "mine")],
                "groups": [{"device": "gpu", "link": "ethernet_1g", "mode": mode}],
            },
            "algorithm": {"name": "none", "local": {"batch_size": 16}},
            "protocol": "synchronous",
            "stop": {"versions": 1},
        }
        run = simfl.run(scenario, tmp_path / mode)
        told = [one.message for one in run.warnings if one.kind == "beyond_calibration"]
        assert any("frequencies that their devices' profiles" in one for one in told) == warned


def test_idle_power_that_nobody_read_is_a_share_of_the_active_one(tmp_path: Path) -> None:
    """The base's, by a factor of three either way of idle to added power; never above."""
    base = Catalogue().device("rpi_4b")
    idle_w, training_w = base.power_idle_w, watts(base, base.processor.frequency_max_hz)
    odds = idle_w / (training_w - idle_w)

    (idle,) = (
        calibrate(file_of(tmp_path, ["pi,train,14.0"] * 9, STATES), ["rpi_4b"]).twins[0].figures[:1]
    )

    assert idle.value == pytest.approx(14.0 * idle_w / training_w, rel=0.05)
    low, high = (14.0 * its / (1.0 + its) for its in (odds / 3.0, odds * 3.0))
    assert idle.interval == pytest.approx((low, high), rel=0.15) and idle.draws.max() < 14.0
    assert idle.origin == "the base's"


@pytest.mark.slow
def test_intervals_of_watts_cover_other_models(tmp_path: Path) -> None:
    """If models differ as much as expected, 90 % intervals hold 85 to 97 %."""
    rng, inside = np.random.default_rng(3), []
    for _ in range(120):
        scatter = MODELS[0] * np.exp(MODELS[1] * rng.standard_normal())
        measured, others = (7.0 * np.exp(scatter * rng.standard_normal(count)) for count in (3, 40))
        read = np.round(measured, 3).tolist()
        low, high = active_w(tmp_path, tuple(read), 2, (1.6, 1.61, 1.59))
        inside.append(np.mean((low < others) & (others < high)))

    assert 0.85 < np.mean(inside) < 0.97


def test_a_device_that_draws_more_while_idle_is_refused(tmp_path: Path) -> None:
    """By the median of its readings, with both lines; what scatters by a few percent is read."""
    rows = ["pi,idle,5.0", "pi,idle,5.1", "pi,train,3.0", "pi,train,3.1"]

    with pytest.raises(ScenarioError) as caught:
        twin_of(tmp_path, rows)

    assert ":2: watts: found 5.05 while idle, accepted: less" in str(caught.value)
    assert "than the 3.05 of training (line 4), by one meter" in str(caught.value)
    twin = twin_of(tmp_path, ["pi,idle,5.0", "pi,train,4.9", "pi,train,5.2"])
    assert watts(twin, 1.8e9) == pytest.approx(5.1, rel=0.1)


def test_meters_that_see_a_part_or_not_the_same_are_warned_of(tmp_path: Path) -> None:
    """RAPL's packages are no whole device; a wattmeter for both states is."""
    part = "RAPL, the processor's packages"

    def warnings(idle: str, training: str) -> list[str]:
        rows = [f'pi,idle,2.0,"{idle}"', f'pi,train,5.0,"{training}"']
        path = file_of(tmp_path, rows, f"{STATES},meter")
        told = calibrate(path, ["rpi_4b"]).warnings
        return [one for one in told if "power_static_w" not in one]

    assert warnings("wall plug", "wall plug") == warnings("", "wall plug") == []
    (partial,) = warnings(part, part)
    assert partial.startswith(f"pi: its watts are those of {part}; ")
    two, partial = warnings("wall plug", part)
    assert two.startswith(f"pi: wall plug read its watts while idle, {part} while training; ")
