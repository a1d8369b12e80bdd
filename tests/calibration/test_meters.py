"""What a machine says of its energy and clock, from folders that a test wrote."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from simfl.calibration.meters import Battery, Nvml, Rapl, clock_hz, find_meter


def write(folder: Path, **values: object) -> Path:
    """Files with these contents, as sysfs has them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        (folder / name).write_text(f"{value}\n")
    return folder


def test_rapl_counts_joules_of_all_packages_and_over_a_wrap(tmp_path: Path) -> None:
    """Packages only: what lies within them is in their counters already.

    psys counts the whole platform, the packages among it.
    """
    powercap = tmp_path / "class" / "powercap"
    whole = {"max_energy_range_uj": 10_000_000}
    first = write(powercap / "intel-rapl:0", name="package-0", energy_uj=9_000_000, **whole)
    second = write(powercap / "intel-rapl:1", name="package-1", energy_uj=0, **whole)
    write(powercap / "intel-rapl:0:0", name="core", energy_uj=5, max_energy_range_uj=10)
    platform = write(powercap / "intel-rapl:2", name="psys", energy_uj=7, **whole)

    meter = find_meter(of_gpu=False, system=tmp_path)
    assert isinstance(meter, Rapl) and meter.joules() == 0.0
    write(first, energy_uj=500_000)
    write(second, energy_uj=2_000_000)
    write(platform, energy_uj=6_000_000)

    assert meter.joules() == pytest.approx(1.5 + 2.0)
    assert meter.joules() == pytest.approx(3.5)


@pytest.mark.parametrize(
    "power", [{"power_now": 5_000_000}, {"current_now": -1_000_000, "voltage_now": 5_000_000}]
)
def test_a_discharging_battery_is_asked_first(tmp_path: Path, power: dict[str, int]) -> None:
    """It sees the whole device: watts times seconds, in the mean of two looks."""
    write(
        tmp_path / "class/powercap/intel-rapl:0",
        name="package-0",
        energy_uj=0,
        max_energy_range_uj=10,
    )
    write(tmp_path / "class/power_supply/AC", type="Mains", online=0)
    folder = write(tmp_path / "class/power_supply/BAT0", type="Battery", status="Discharging")
    write(folder, **power)
    assert isinstance(find_meter(of_gpu=False, system=tmp_path), Battery)
    moments = iter([0.0, 2.0, 3.0])

    meter = Battery(folder, lambda: next(moments))
    assert meter.joules() == pytest.approx(10.0)
    write(folder, **({"power_now": 7_000_000} if "power_now" in power else {"voltage_now": 7e6}))

    assert meter.joules() == pytest.approx(10.0 + 6.0)


def test_where_there_is_no_meter_there_is_none(tmp_path: Path) -> None:
    """A battery that charges, counters that nobody may read, nothing at all."""
    assert find_meter(of_gpu=False, system=tmp_path) is None
    write(tmp_path / "class/power_supply/BAT0", type="Battery", status="Charging", power_now=5)
    write(tmp_path / "class/powercap/intel-rapl:0", name="package-0", max_energy_range_uj=10)
    assert find_meter(of_gpu=False, system=tmp_path) is None


def test_the_clock_is_read_in_hertz(tmp_path: Path) -> None:
    """Of the core that computes, whichever it is; None if the machine does not tell."""
    assert clock_hz(tmp_path) is None
    write(tmp_path / "devices/system/cpu/cpu0/cpufreq", scaling_cur_freq=600_000)
    write(tmp_path / "devices/system/cpu/cpu11/cpufreq", scaling_cur_freq=1_800_000)
    write(tmp_path / "devices/system/cpu/cpu2/cpufreq")
    write(tmp_path / "devices/system/cpu/cpufreq", scaling_cur_freq=9_000_000)
    assert clock_hz(tmp_path) == 1.8e9


class Library:
    """What `libnvidia-ml` has, with a counter of millijoules."""

    def __init__(self, readings: list[int]) -> None:
        self._readings = iter(readings)

    def nvmlInit_v2(self) -> int:  # noqa: N802  # NVML's name
        """Success."""
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: int, handle: object) -> int:  # noqa: N802
        """Success, of the first GPU."""
        return index

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: object, found: object) -> int:  # noqa: N802
        """The next reading; 3 (not supported) after the last."""
        value = next(self._readings, None)
        if value is None:
            return 3
        ctypes.cast(found, ctypes.POINTER(ctypes.c_ulonglong))[0] = value
        return 0


def test_nvml_counts_joules_from_where_it_began() -> None:
    """An error code is an error of the system."""
    meter = Nvml(Library([5_000, 7_500]))
    assert meter.joules() == pytest.approx(2.5)
    with pytest.raises(OSError, match="NVML says 3"):
        meter.joules()
