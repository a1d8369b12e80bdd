"""Thermal throttling in closed form: a CPU that lowers its frequency when its case gets hot.

The case is one heat capacity behind one thermal resistance (a lumped RC model, as in Linux's
thermal governors):

    C dT/dt = P - (T - T_rest) / R,    T(t) = T_inf + (T(0) - T_inf) exp(-t / (R C)),
    T_inf = T_rest + R P(f),

where P is the power beyond idle and T_rest the temperature of the idle device. A governor with
hysteresis steps down when T reaches `temperature_hot_c`, until the case cools, and one level up
when T has fallen to `temperature_cool_c`. From then on, the frequency alternates periodically
between two neighbouring levels (or stays at the lower one if its T_inf is between the thresholds),
so that a computation of any length costs the same few array operations.

Choices
1. Every computation begins at T_rest: the time between a device's rounds is not simulated. A
   client that trains round after round is therefore simulated slightly too cool.
2. Steps are immediate, and several at once if the levels between would still heat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray
from simfl.system.cost import ComputeCost
from simfl.system.cpu import Cpu


@dataclass(frozen=True)
class ThermalCpu(Cpu):
    """A `Cpu` whose clock depends on its temperature; the defaults are those of a phone.

    They are an estimate: a time constant of 320 s, a surface of at most 45 degrees C.
    """

    thermal_resistance_k_per_w: Annotated[float, "> 0", "kelvin above rest per active watt"] = 8.0
    heat_capacity_j_per_k: Annotated[float, "> 0"] = 40.0
    temperature_rest_c: Annotated[float, "temperature of the idle device"] = 25.0
    temperature_hot_c: Annotated[float, "temperature at which it lowers its frequency"] = 45.0
    temperature_cool_c: Annotated[float, "temperature at which it raises its frequency again"] = (
        42.0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frequency_levels_hz is None:
            raise ValueError(
                "frequency_levels_hz: found nothing, accepted: levels, as a thermal CPU steps"
                " between them"
            )
        if not self.temperature_rest_c < self.temperature_cool_c < self.temperature_hot_c:
            raise ValueError(
                f"temperature_cool_c: found {self.temperature_cool_c:g}, accepted: between"
                f" temperature_rest_c ({self.temperature_rest_c:g}) and temperature_hot_c"
                f" ({self.temperature_hot_c:g})"
            )

    def reaches_c(self, power_w: ArrayLike, time_s: float) -> FloatArray:
        """The temperature of the case after this time at `power_w` beyond idle, from rest."""
        heated = 1.0 - np.exp(-time_s / self._time_constant_s)
        above_k = self.thermal_resistance_k_per_w * np.asarray(power_w, dtype=float) * heated
        reached: FloatArray = self.temperature_rest_c + above_k
        return reached

    def compute(self, cycles: ArrayLike, frequency_hz: ArrayLike) -> ComputeCost:
        """The cost of `cycles` begun at rest at clock `frequency_hz`, throttled if necessary."""
        total, asked_hz = np.broadcast_arrays(
            np.asarray(cycles, dtype=float), np.asarray(frequency_hz, dtype=float)
        )
        lower_hz, upper_hz = self._throttled_hz(asked_hz)
        until_hot = self._speed(asked_hz) * self._time_to_hot(asked_hz, self.temperature_rest_c)
        fast = np.minimum(total, until_hot)
        left = total - fast
        cooling = self._speed(lower_hz) * self._time_to_cool(lower_hz)
        heating = self._speed(upper_hz) * self._time_to_hot(upper_hz, self.temperature_cool_c)
        # The rest consists of complete periods of cooling and heating, and a part of one. If the
        # case never cools, there are no periods: everything runs at the lower clock.
        periodic = np.isfinite(cooling + heating)
        in_cooling, in_heating = np.where(periodic, cooling, 0.0), np.where(periodic, heating, 1.0)
        periods = np.floor(left / (in_cooling + in_heating))
        rest = left - periods * (in_cooling + in_heating)
        slow = np.where(periodic, periods * in_cooling + np.minimum(rest, in_cooling), left)
        first, second, third = (
            super(ThermalCpu, self).compute(part, clock)
            for part, clock in ((fast, asked_hz), (slow, lower_hz), (left - slow, upper_hz))
        )
        return ComputeCost(
            first.duration_s + second.duration_s + third.duration_s,
            first.dynamic_j + second.dynamic_j + third.dynamic_j,
            first.static_j + second.static_j + third.static_j,
        )

    def _throttled_hz(self, asked_hz: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The clock that the governor falls back to from `asked_hz`, and the next higher one.

        The first is the highest level that does not get too hot, otherwise the lowest one.
        """
        levels = np.asarray(self.frequency_levels_hz, dtype=float)
        bearable = int((self._settles_at_c(levels) <= self.temperature_hot_c).sum())
        index = max(bearable - 1, 0)
        lower_hz = np.minimum(levels[index], asked_hz)
        return lower_hz, np.minimum(levels[min(index + 1, levels.size - 1)], asked_hz)

    def _settles_at_c(self, frequency_hz: FloatArray) -> FloatArray:
        """T_inf at a clock, degrees C."""
        one = super().compute(1.0, frequency_hz)
        settled: FloatArray = (
            self.temperature_rest_c
            + self.thermal_resistance_k_per_w * one.active_j / one.duration_s
        )
        return settled

    def _speed(self, frequency_hz: FloatArray) -> FloatArray:
        """Cycles per second over all cores."""
        return 1.0 / super().compute(1.0, frequency_hz).duration_s

    def _time_to_hot(self, frequency_hz: FloatArray, start_c: float) -> FloatArray:
        """Seconds from `start_c` to the hot threshold; inf if it is never reached."""
        settled = self._settles_at_c(frequency_hz)
        heats = settled > self.temperature_hot_c
        far, near = settled - start_c, settled - self.temperature_hot_c
        seconds = self._time_constant_s * np.log(np.where(heats, far, 1) / np.where(heats, near, 1))
        return np.where(heats, seconds, np.inf)

    def _time_to_cool(self, frequency_hz: FloatArray) -> FloatArray:
        """Seconds from the hot to the cool threshold; inf if it is never reached."""
        settled = self._settles_at_c(frequency_hz)
        cools = settled < self.temperature_cool_c
        far, near = self.temperature_hot_c - settled, self.temperature_cool_c - settled
        seconds = self._time_constant_s * np.log(np.where(cools, far, 1) / np.where(cools, near, 1))
        return np.where(cools, seconds, np.inf)

    @property
    def _time_constant_s(self) -> float:
        return self.thermal_resistance_k_per_w * self.heat_capacity_j_per_k
