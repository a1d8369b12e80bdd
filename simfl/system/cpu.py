"""CPUs: duration and power of computations at a clock frequency.

The CMOS model of mobile and edge computing: with W cycles in total over n equally fast cores at
clock f, t = W / (n f) and E_dyn = kappa W f^2, independent of n (Mao et al., IEEE COMST 2017; Tran
et al., INFOCOM 2019, whose alpha/2 is kappa). Work is given as cycles per example or per bit (as in
the literature), or as floating-point operations at a sustained rate (for real devices).
docs/hardware.md explains why the two differ a thousandfold for convolutional networks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray
from simfl.system.cost import ComputeCost, MissingCost
from simfl.system.measured import MeasuredProcessor

_WORK_FORMS = ("cycles_per_example", "cycles_per_bit", "flops_per_s")


@dataclass(frozen=True)
class Cpu(MeasuredProcessor):
    """Equally fast cores under DVFS: P(core) = u (power_static_w + kappa f^exponent) beyond idle.

    Work is given by `cycles_per_example`, by `cycles_per_bit`, by `flops_per_s` (all cores at the
    highest clock) and `efficiency`, by measurements (`seconds_per_batch`, `seconds_per_example`),
    or by `rates` of each kind of work; power by `kappa`, by a measured `power_table`, which takes
    precedence, or by `power_active_w`. u is 1 while a core computes and `stall_utilization` while
    it waits for memory. This waiting takes the share `memory_bound` of the time at the highest
    clock, and the same number of seconds at any clock.
    """

    cores: Annotated[int, ">= 1", "cores that train, all busy together"]
    frequency_min_hz: Annotated[float, "> 0"]
    frequency_max_hz: Annotated[float, "> 0"]
    frequency_levels_hz: Annotated[
        tuple[float, ...] | None,
        "the existing clock frequencies, ascending; null: any (thermal_cpu needs them)",
    ] = None
    kappa: Annotated[float | None, ">= 0", "W/Hz^exponent per core: power is kappa f^exponent"] = (
        None
    )
    exponent: Annotated[
        float, ">= 1", "<= 10", "exponent of the frequency in the dynamic power"
    ] = 3.0
    power_static_w: Annotated[float, ">= 0", "static power per busy core, above idle power"] = 0.0
    power_table: Annotated[
        tuple[tuple[float, float], ...] | None,
        "measured [Hz, W] pairs per busy core, ascending, static power included; replaces kappa",
    ] = None
    cycles_per_example: Annotated[
        float | None, "> 0", "cycles to train on one example, for any model"
    ] = None
    cycles_per_bit: Annotated[
        float | None, "> 0", "cycles to train per bit of an example, for any model"
    ] = None
    flops_per_s: Annotated[
        float | None, "> 0", "sustained float32 operations per second at the highest clock"
    ] = None
    efficiency: Annotated[
        float | None, "> 0", "<= 1", "share of flops_per_s that training reaches"
    ] = None
    memory_bound: Annotated[
        float, ">= 0", "< 1", "share of the time at the highest clock spent waiting for memory"
    ] = 0.0
    stall_utilization: Annotated[
        float, ">= 0", "<= 1", "share of the active power drawn while waiting for memory"
    ] = 1.0

    power_active_w: Annotated[
        float | None,
        ">= 0",
        "measured watts of the whole device while all cores train, in place of kappa",
    ] = field(default=None, kw_only=True, repr=False)
    power_idle_w: Annotated[
        float | None,
        ">= 0",
        "the idle power included in power_active_w; null: the device's power_idle_w",
    ] = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        self.check_frequencies()
        measured = self.measured
        self._take_measured()
        rated = [name for name in _WORK_FORMS if getattr(self, name) is not None]
        if measured is not None:
            rated[rated.index("cycles_per_example")] = measured
        if not rated and self.rates is None:
            raise MissingCost(
                "cycles_per_example, cycles_per_bit, seconds_per_example, seconds_per_batch, rates"
                " or flops_per_s"
            )
        if len(rated) > 1:
            raise ValueError(
                f"{rated[0]}: found beside {' and '.join(rated[1:])}, accepted: one of them"
            )
        if rated and rated[0] != "flops_per_s":
            self.refuse_kinds(rated[0])
        if self.flops_per_s is not None and self.efficiency is None:
            raise MissingCost("efficiency")
        if self.power_table is None:
            if self.kappa is None:
                raise MissingCost("kappa, power_table or power_active_w")
            return
        frequencies = [row[0] for row in self.power_table]
        if (
            not frequencies
            or any(a >= b for a, b in pairwise(frequencies))
            or frequencies[0] > self.frequency_min_hz
            or frequencies[-1] < self.frequency_max_hz
        ):
            raise ValueError(
                f"power_table: found the frequencies {', '.join(f'{one:g}' for one in frequencies)}"
                f", accepted: ascending ones from at most {self.frequency_min_hz:g} to at least"
                f" {self.frequency_max_hz:g}"
            )
        least_w = min(row[1] for row in self.power_table)
        if least_w < self.power_static_w:
            raise ValueError(
                f"power_table: found {least_w:g} W, accepted: at least power_static_w"
                f" ({self.power_static_w:g}), which is part of it"
            )

    def _take_measured(self) -> None:
        """Sets cycles that take the measured seconds, and kappa from the measured watts."""
        measured_s, clock_hz = self.measured_s(), self.clock_hz()
        busy, waiting = (
            (1.0 - self.memory_bound) / clock_hz,
            self.memory_bound / self.frequency_max_hz,
        )
        slower = (busy + waiting) * self.frequency_max_hz
        cycles, kappa = self.cycles_per_example, self.kappa
        if measured_s is not None:
            if cycles is not None:
                raise ValueError(
                    f"{self.measured}: found beside cycles_per_example, accepted: one of them"
                )
            cycles = self.cores * measured_s / (busy + waiting)
        if self.power_active_w is not None:
            if kappa is not None or self.power_table is not None:
                other = "power_table" if kappa is None else "kappa"
                raise ValueError(
                    f"power_active_w: found beside {other}, accepted: one of kappa, power_table and"
                    " power_active_w"
                )
            if self.power_idle_w is None:
                raise MissingCost("power_idle_w")
            powered_cores = float(self.powered_cores(clock_hz))
            active_w = (self.power_active_w - self.power_idle_w) / powered_cores
            if active_w < self.power_static_w:
                least_w = self.power_idle_w + self.power_static_w * powered_cores
                raise ValueError(
                    f"power_active_w: found {self.power_active_w:g}, accepted: at least"
                    f" {least_w:.4g}, power_idle_w and power_static_w of every core that is powered"
                )
            kappa = (active_w - self.power_static_w) / clock_hz**self.exponent
        kinds = {} if self.measured_hz is None else self.times_as_fast(slower)
        of_power = {"kappa": kappa, "power_active_w": None, "power_idle_w": None}
        self.taken(cycles_per_example=cycles, **of_power, **kinds)

    @property
    def cycles_per_s(self) -> float:
        """Cycles per second of all cores."""
        return self.cores * self.frequency_max_hz

    def flops_cycles(self, flops: ArrayLike) -> FloatArray:
        """Cycles in which all cores at the highest clock compute `flops` at the sustained rate."""
        if self.flops_per_s is None or self.efficiency is None:
            raise MissingCost("flops_per_s")
        rate = self.efficiency * self.flops_per_s
        return np.asarray(flops, dtype=float) / rate * self.cycles_per_s

    def cycles(
        self,
        examples: ArrayLike,
        forward_flops: float | None,
        example_bits: float | None = None,
    ) -> FloatArray:
        """Cycles of training on `examples`; a cost per example or bit disregards the model."""
        if self.cycles_per_example is not None:
            return self.cycles_per_example * np.asarray(examples, dtype=float)
        if self.cycles_per_bit is None:
            return super().cycles(examples, forward_flops)
        if example_bits is None:
            raise MissingCost("example_bits of the data")
        return self.cycles_per_bit * example_bits * np.asarray(examples, dtype=float)

    @property
    def counts_bits(self) -> bool:
        """If `cycles_per_bit` is given."""
        return self.cycles_per_bit is not None

    def powered_cores(self, frequency_hz: ArrayLike) -> FloatArray:
        """How many cores draw power while all train: those waiting for memory count
        `stall_utilization`.
        """
        busy = (1.0 - self.memory_bound) / np.asarray(frequency_hz, dtype=float)
        waiting = self.memory_bound / self.frequency_max_hz
        cores: FloatArray = (
            self.cores * (busy + self.stall_utilization * waiting) / (busy + waiting)
        )
        return cores

    def power_law(self) -> tuple[float, float] | None:
        """The configured law, or the least-squares fit to a measured table."""
        if self.power_table is not None:
            frequency, power_w = np.asarray(self.power_table, dtype=float).T
            fitted = float((power_w - self.power_static_w) @ frequency**3 / (frequency**6).sum())
            return fitted, self.power_static_w
        assert self.kappa is not None, "checked on construction"
        return (self.kappa, self.power_static_w) if self.exponent == 3.0 else None

    def compute(self, cycles: ArrayLike, frequency_hz: ArrayLike) -> ComputeCost:
        """t = W / n ((1 - m) / f + m / f_max), m the memory-bound share: W / (n f) where m is 0.

        Joules are power times core-seconds, where waiting cores count `stall_utilization`: E_dyn =
        kappa W f^(exponent - 1) and E_static = P_static W / f where m is 0.
        """
        total = np.asarray(cycles, dtype=float)
        frequency = np.asarray(frequency_hz, dtype=float)
        busy_s = (1.0 - self.memory_bound) * total / frequency
        waiting_s = self.memory_bound * total / self.frequency_max_hz
        powered_s = busy_s + self.stall_utilization * waiting_s
        if self.power_table is not None:
            table = np.asarray(self.power_table, dtype=float)
            power_w = np.interp(frequency, table[:, 0], table[:, 1])
            dynamic_w = power_w - self.power_static_w
        else:
            assert self.kappa is not None, "checked on construction"
            dynamic_w = self.kappa * frequency**self.exponent
        return ComputeCost(
            (busy_s + waiting_s) / self.cores,
            powered_s * dynamic_w,
            powered_s * self.power_static_w,
        )
