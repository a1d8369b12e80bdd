"""Processors: how long a computation takes and what it draws at a clock frequency.

CMOS model of mobile and edge computing: with W cycles in total over n equally fast cores at clock
f, t = W / (n f) and E_dyn = kappa W f^2, independent of n (Mao et al., IEEE COMST 2017; Tran et
al., INFOCOM 2019, whose alpha/2 is kappa). Work comes as cycles per example or per bit (the
literature's forms) or as floating-point operations against a sustained rate (the form for real
devices). docs/hardware.md says why the two differ a thousandfold for convolutional networks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray
from simfl.system.cost import ComputeCost, MissingCost

TRAINING_FLOPS_PER_FORWARD = 3.0
"""Forward plus backward pass over forward pass; the backward pass costs two forward ones."""

_WORK_FORMS = ("cycles_per_example", "cycles_per_bit", "flops_per_s")


class Processor(ABC):
    """Base of every processor: a frozen dataclass whose fields are the keys of `processor:`.

    A subclass has the four attributes below and fills in `flops_cycles` and `compute`; it overrides
    `cycles` where work is not counted in floating-point operations.
    """

    frequency_min_hz: float
    frequency_max_hz: float
    frequency_levels_hz: tuple[float, ...] | None

    @abstractmethod
    def flops_cycles(self, flops: ArrayLike) -> FloatArray:
        """Cycles (over all cores) of `flops` floating-point operations; MissingCost if unknown."""

    @abstractmethod
    def compute(self, cycles: ArrayLike, frequency_hz: ArrayLike) -> ComputeCost:
        """Cost of `cycles` (total over all cores) at clock `frequency_hz`; broadcasts."""

    def cycles(
        self,
        examples: ArrayLike,
        forward_flops: float | None,
        example_bits: float | None = None,
    ) -> FloatArray:
        """Cycles of training on `examples` (passes times data, times any work factor).

        `forward_flops` are the floating-point operations of one example's forward pass,
        `example_bits` the size of one example as it is stored.
        """
        if forward_flops is None or not forward_flops > 0:
            raise MissingCost("forward_flops of the model")
        flops = TRAINING_FLOPS_PER_FORWARD * forward_flops * np.asarray(examples, dtype=float)
        return self.flops_cycles(flops)

    @property
    def counts_bits(self) -> bool:
        """Whether `cycles` may go by the stored size of an example."""
        return type(self).cycles is not Processor.cycles

    def power_law(self) -> tuple[float, float] | None:
        """(kappa, static power) of a busy core that draws static + kappa f^3 watts at clock f.

        Units W/Hz^3 and W. None, which is the default: no such law holds.
        """
        return None

    def levels(self) -> FloatArray | None:
        """The clock frequencies that exist in Hz, ascending; None where any in the range does."""
        levels = self.frequency_levels_hz
        return None if levels is None else np.asarray(levels, dtype=float)

    def nearest_level(self, frequency_hz: ArrayLike) -> FloatArray:
        """`frequency_hz` within the range and at the nearest level (the lower one in a tie)."""
        within = np.clip(
            np.asarray(frequency_hz, dtype=float), self.frequency_min_hz, self.frequency_max_hz
        )
        levels = self.levels()
        if levels is None or len(levels) == 1:
            return within if levels is None else np.full_like(within, levels[0])
        middles = (levels[1:] + levels[:-1]) / 2.0
        nearest: FloatArray = levels[np.searchsorted(middles, within)]
        return nearest

    def level_below(self, frequency_hz: ArrayLike) -> FloatArray:
        """The highest level that is no faster than `frequency_hz`; the lowest where all are."""
        within: FloatArray = np.clip(
            np.asarray(frequency_hz, dtype=float), self.frequency_min_hz, self.frequency_max_hz
        )
        levels = self.levels()
        if levels is None:
            return within
        number = np.searchsorted(levels, within, side="right") - 1
        below: FloatArray = levels[np.maximum(number, 0)]
        return below

    def check_frequencies(self) -> None:
        """ValueError unless 0 < minimum <= levels <= maximum, levels ascending."""
        low, high = self.frequency_min_hz, self.frequency_max_hz
        if not 0 < low <= high:
            raise ValueError(
                f"frequency_min_hz: found {low:g}, accepted: above 0, at most {high:g}"
            )
        levels = self.frequency_levels_hz
        if levels is None:
            return
        ascending = all(a < b for a, b in pairwise(levels))
        if not levels or not ascending or levels[0] < low or levels[-1] > high:
            raise ValueError(
                f"frequency_levels_hz: found {list(levels)}, accepted: ascending frequencies "
                f"from {low:g} to {high:g}"
            )


@dataclass(frozen=True)
class Cpu(Processor):
    """Equally fast cores under DVFS: P(core) = u (power_static_w + kappa f^exponent) beyond idle.

    Work is given by `cycles_per_example`, by `cycles_per_bit`, or by `flops_per_s` (all cores at
    the highest clock) and `efficiency`; power by `kappa` or by a measured `power_table`, which
    takes precedence. u is 1 while a core computes and `stall_utilization` while it waits for
    memory, which takes `memory_bound` of the time at the highest clock, whatever the clock.
    """

    cores: Annotated[int, ">= 1", "cores that train, all busy together"]
    frequency_min_hz: Annotated[float, "> 0"]
    frequency_max_hz: Annotated[float, "> 0"]
    frequency_levels_hz: Annotated[
        tuple[float, ...] | None, "the clock frequencies that exist, ascending; null is any"
    ] = None
    kappa: Annotated[float | None, ">= 0", "W/Hz^exponent per core: power is kappa f^exponent"] = (
        None
    )
    exponent: Annotated[float, ">= 1", "<= 10", "of the frequency in the dynamic power"] = 3.0
    power_static_w: Annotated[float, ">= 0", "per core, beyond idle power, while busy"] = 0.0
    power_table: Annotated[
        tuple[tuple[float, float], ...] | None,
        "measured [Hz, W] pairs per busy core, ascending, static power included; replaces kappa",
    ] = None
    cycles_per_example: Annotated[
        float | None, "> 0", "cycles of one example's training step, whatever the model"
    ] = None
    cycles_per_bit: Annotated[
        float | None, "> 0", "cycles of a training step per bit of the example, whatever the model"
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

    def __post_init__(self) -> None:
        self.check_frequencies()
        rated = [name for name in _WORK_FORMS if getattr(self, name) is not None]
        if not rated:
            raise MissingCost("cycles_per_example, cycles_per_bit or flops_per_s")
        if len(rated) > 1:
            raise ValueError(f"{' and '.join(rated)} exclude each other; give one")
        if self.flops_per_s is not None and self.efficiency is None:
            raise MissingCost("efficiency")
        if self.power_table is None:
            if self.kappa is None:
                raise MissingCost("kappa or power_table")
            return
        frequencies = [row[0] for row in self.power_table]
        if (
            not frequencies
            or any(a >= b for a, b in pairwise(frequencies))
            or frequencies[0] > self.frequency_min_hz
            or frequencies[-1] < self.frequency_max_hz
        ):
            raise ValueError(
                "power_table: its frequencies must ascend and cover frequency_min_hz to "
                "frequency_max_hz"
            )
        if any(row[1] < self.power_static_w for row in self.power_table):
            raise ValueError("power_table: powers include power_static_w and cannot be below it")

    def flops_cycles(self, flops: ArrayLike) -> FloatArray:
        """Cycles in which all cores at the highest clock do `flops` at the sustained rate."""
        if self.flops_per_s is None or self.efficiency is None:
            raise MissingCost("flops_per_s")
        cycles_per_s = self.cores * self.frequency_max_hz
        rate = self.efficiency * self.flops_per_s
        return np.asarray(flops, dtype=float) / rate * cycles_per_s

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
        """Where there are cycles per bit."""
        return self.cycles_per_bit is not None

    def power_law(self) -> tuple[float, float] | None:
        """As configured; the least-squares fit to a measured table."""
        if self.power_table is not None:
            frequency, power_w = np.asarray(self.power_table, dtype=float).T
            fitted = float((power_w - self.power_static_w) @ frequency**3 / (frequency**6).sum())
            return fitted, self.power_static_w
        assert self.kappa is not None, "checked on construction"
        return (self.kappa, self.power_static_w) if self.exponent == 3.0 else None

    def compute(self, cycles: ArrayLike, frequency_hz: ArrayLike) -> ComputeCost:
        """t = W / n ((1 - m) / f + m / f_max), m the memory-bound share: W / (n f) where m is 0.

        Joules are power times core-seconds, of which those that wait count `stall_utilization`:
        E_dyn = kappa W f^(exponent - 1) and E_static = P_static W / f where m is 0.
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
