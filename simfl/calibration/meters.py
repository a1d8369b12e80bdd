"""Energy meters of this machine: RAPL, a battery's sensor, NVML.

Each meter counts joules. RAPL covers the processor's packages and NVML the GPU's board, not the
whole device; a discharging battery covers all of it.
"""

from __future__ import annotations

import ctypes
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

MICRO = 1e-6
KHZ = 1e3


class Meter(ABC):
    """A counter of joules; `name` says what it covers."""

    name: str

    @abstractmethod
    def joules(self) -> float:
        """Joules since the meter was created; must be read often if it samples watts."""


class Rapl(Meter):
    """The energy counters of the processor's packages, which wrap around."""

    name = "RAPL, the processor's packages"

    def __init__(self, packages: list[Path]) -> None:
        self._packages = packages
        self._ranges = [_number(one / "max_energy_range_uj") for one in packages]
        self._last = self._read()
        self._total_uj = 0.0

    def joules(self) -> float:
        """The sum over packages."""
        now = self._read()
        for before, after, whole in zip(self._last, now, self._ranges, strict=True):
            self._total_uj += after - before + (whole if after < before else 0.0)
        self._last = now
        return MICRO * self._total_uj

    def _read(self) -> list[float]:
        return [_number(one / "energy_uj") for one in self._packages]


class Battery(Meter):
    """A discharging battery's power, integrated over the time between two readings."""

    name = "battery, the whole device"

    def __init__(self, folder: Path, clock: Callable[[], float] = time.perf_counter) -> None:
        self._folder, self._clock = folder, clock
        self._last_w, self._last_s = self._watts(), clock()
        self._total_j = 0.0

    def joules(self) -> float:
        """Adds the mean of this and the last reading times the seconds between them."""
        watts, now_s = self._watts(), self._clock()
        self._total_j += (watts + self._last_w) / 2.0 * (now_s - self._last_s)
        self._last_w, self._last_s = watts, now_s
        return self._total_j

    def _watts(self) -> float:
        if (self._folder / "power_now").exists():
            return MICRO * abs(_number(self._folder / "power_now"))
        amperes = MICRO * abs(_number(self._folder / "current_now"))
        return amperes * MICRO * _number(self._folder / "voltage_now")


class Nvml(Meter):
    """The energy counter of an NVIDIA GPU."""

    name = "NVML, the GPU's board"

    def __init__(self, library: Any) -> None:
        """Raises OSError if the library has no such counter."""
        self._library, self._gpu = library, ctypes.c_void_p()
        self._check(library.nvmlInit_v2())
        self._check(library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self._gpu)))
        self._first_j = self._read()

    def joules(self) -> float:
        """Joules of the first GPU."""
        return self._read() - self._first_j

    def _read(self) -> float:
        millijoules = ctypes.c_ulonglong()
        asked = self._library.nvmlDeviceGetTotalEnergyConsumption
        self._check(asked(self._gpu, ctypes.byref(millijoules)))
        return 1e-3 * millijoules.value

    @staticmethod
    def _check(code: int) -> None:
        if code:
            raise OSError(f"NVML says {code}")


def find_meter(of_gpu: bool, system: Path = Path("/sys")) -> Meter | None:
    """The meter that covers most of the computation; None if none can be read."""
    if of_gpu:
        with suppress(OSError, AttributeError):
            return Nvml(ctypes.CDLL("libnvidia-ml.so.1"))
        return None
    for folder in sorted(system.glob("class/power_supply/*")):
        with suppress(OSError, ValueError):
            if _text(folder / "type") == "Battery" and _text(folder / "status") == "Discharging":
                return Battery(folder)
    # On most machines only root may read the counters.
    with suppress(OSError, ValueError):
        # Another domain beside them, psys, includes what the packages count.
        packages = [
            one
            for one in sorted(system.glob("class/powercap/*-rapl:*[0-9]"))
            if re.fullmatch(r"[a-z]+-rapl:\d+", one.name)
            and _text(one / "name").startswith("package")
        ]
        if packages:
            return Rapl(packages)
    return None


def clock_hz(system: Path = Path("/sys")) -> float | None:
    """The current frequency of the fastest core; None if the machine does not tell.

    A core that computes runs faster than waiting ones, and may be any of them.
    """
    cores = system.glob("devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq")
    found: list[float] = []
    for core in cores:
        with suppress(OSError, ValueError):
            found.append(KHZ * _number(core))
    return max(found, default=None)


def _number(file: Path) -> float:
    return float(_text(file))


def _text(file: Path) -> str:
    return file.read_text(encoding="ascii").strip()
