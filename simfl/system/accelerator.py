"""Accelerators: GPUs and whole machines, whose power is linear in their utilisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray
from simfl.system.cost import ComputeCost, MissingCost
from simfl.system.fields import suggestion
from simfl.system.measured import MeasuredProcessor


@dataclass(frozen=True)
class Mode:
    """A named power mode, as set by `nvpmodel`: a frequency cap, and the power at it."""

    frequency_max_hz: Annotated[float, "> 0", "the clock frequency in this mode"]
    power_active_w: Annotated[float, ">= 0", "power at full utilisation in this mode"]


@dataclass(frozen=True, kw_only=True)
class Accelerator(MeasuredProcessor):
    """A GPU, or a whole server: power linear in utilisation, P = P_idle + u (P_active - P_idle).

    A clock below the highest is a utilisation u = f / f_max: work takes longer, and costs the same
    joules beyond idle power. DVFS is described by `modes`, of which a population chooses one. Watts
    measured at `measured_hz` hold at that clock. u is `stall_utilization` during fixed times
    (`seconds_per_step`, `seconds_per_training`), in which it waits for kernels or data. A cost per
    example decides how long training takes; `flops_per_s` and `efficiency` beside it say how fast a
    server aggregates.
    """

    flops_per_s: Annotated[float | None, "> 0", "sustained float32 operations per second"] = None
    efficiency: Annotated[
        float | None, "> 0", "<= 1", "share of flops_per_s that training reaches"
    ] = None
    frequency_min_hz: Annotated[float, "> 0"]
    frequency_max_hz: Annotated[float, "> 0", "the clock frequency, unless set otherwise"]
    power_active_w: Annotated[
        float, ">= 0", "power at full utilisation, or in training at measured_hz"
    ]
    power_idle_w: Annotated[
        float, ">= 0", "power at zero utilisation, part of the device's idle power"
    ]
    frequency_levels_hz: Annotated[
        tuple[float, ...] | None, "the existing clock frequencies, ascending; null: any"
    ] = None
    stall_utilization: Annotated[
        float, ">= 0", "<= 1", "utilisation during fixed times, while it waits for its host"
    ] = 1.0
    modes: Annotated[Mapping[str, Mode], "power modes by name"] = field(default_factory=dict)
    cycles_per_example: Annotated[
        float | None, "> 0", "cycles to train on one example, for any model"
    ] = None

    def __post_init__(self) -> None:
        self.check_frequencies()
        if self.power_active_w < self.power_idle_w:
            raise ValueError(
                f"power_active_w: found {self.power_active_w:g}, accepted: at least power_idle_w"
                f" ({self.power_idle_w:g})"
            )
        measured_s, cycles, clock_hz = self.measured_s(), self.cycles_per_example, self.clock_hz()
        if measured_s is not None:
            if cycles is not None:
                raise ValueError(
                    f"{self.measured}: found beside cycles_per_example, accepted: one of them"
                )
            cycles = measured_s * clock_hz
        slower = self.frequency_max_hz / clock_hz
        kinds = {} if self.measured_hz is None else self.times_as_fast(slower)
        # Power beyond idle is proportional to the clock; this is its value at the highest clock.
        active_w = self.power_idle_w + (self.power_active_w - self.power_idle_w) * slower
        powers = {} if slower == 1 else {"power_active_w": active_w}
        if cycles is not None:
            self.refuse_kinds(self.measured or "cycles_per_example")
        elif self.rates is None and (self.flops_per_s is None or self.efficiency is None):
            raise MissingCost(
                "flops_per_s and efficiency, rates, or cycles_per_example, seconds_per_example or"
                " seconds_per_batch"
            )
        self.taken(cycles_per_example=cycles, **powers, **kinds)
        for name, mode in self.modes.items():
            if mode.frequency_max_hz > self.frequency_max_hz:
                raise ValueError(
                    f"modes.{name}.frequency_max_hz: found {mode.frequency_max_hz:g}, accepted: at"
                    f" most frequency_max_hz ({self.frequency_max_hz:g})"
                )
            if mode.power_active_w < self.power_idle_w:
                raise ValueError(
                    f"modes.{name}.power_active_w: found {mode.power_active_w:g}, accepted: at"
                    f" least power_idle_w ({self.power_idle_w:g})"
                )

    def in_mode(self, name: str) -> Accelerator:
        """The accelerator in one of its modes, with its rate scaled by the mode's clock.

        Raises ValueError, with the names of existing modes, for an unknown mode.
        """
        if not self.modes:
            raise ValueError(f"found {name!r}, accepted: null, as it has no modes")
        if name not in self.modes:
            raise ValueError(f"unknown mode {name!r}{suggestion(name, self.modes)}")
        mode = self.modes[name]
        levels = self.frequency_levels_hz
        return replace(
            self,
            **self.times_as_fast(mode.frequency_max_hz / self.frequency_max_hz),
            flops_per_s=self.flops_per_s
            and self.flops_per_s * mode.frequency_max_hz / self.frequency_max_hz,
            frequency_min_hz=min(self.frequency_min_hz, mode.frequency_max_hz),
            frequency_max_hz=mode.frequency_max_hz,
            frequency_levels_hz=levels and tuple(f for f in levels if f <= mode.frequency_max_hz),
            power_active_w=mode.power_active_w,
            modes={},
        )

    @property
    def cycles_per_s(self) -> float:
        """Cycles per second of the whole accelerator."""
        return self.frequency_max_hz

    def flops_cycles(self, flops: ArrayLike) -> FloatArray:
        """Clock cycles in which the whole accelerator computes `flops` at the sustained rate."""
        if self.flops_per_s is None or self.efficiency is None:
            raise MissingCost("flops_per_s and efficiency")
        rate = self.efficiency * self.flops_per_s
        return np.asarray(flops, dtype=float) / rate * self.cycles_per_s

    def cycles(
        self,
        examples: ArrayLike,
        forward_flops: float | None,
        example_bits: float | None = None,
    ) -> FloatArray:
        """Clock cycles of training on `examples`; a cost per example holds for any model."""
        if self.cycles_per_example is not None:
            return self.cycles_per_example * np.asarray(examples, dtype=float)
        return super().cycles(examples, forward_flops)

    def unpowered_cycles(self, steps: ArrayLike, trainings: ArrayLike = 0.0) -> FloatArray:
        """Those of the fixed times of steps and trainings, but for the share that draws power."""
        waiting_s = self.seconds_per_step * np.asarray(steps, dtype=float)
        waiting_s = waiting_s + self.seconds_per_training * np.asarray(trainings, dtype=float)
        return (1.0 - self.stall_utilization) * waiting_s * self.cycles_per_s

    @property
    def counts_bits(self) -> bool:
        """Always false."""
        return False

    def compute(self, cycles: ArrayLike, frequency_hz: ArrayLike) -> ComputeCost:
        """t = W / f, E = (P_active - P_idle) W / f_max."""
        total = np.asarray(cycles, dtype=float)
        duration_s = total / np.asarray(frequency_hz, dtype=float)
        busy_s = np.broadcast_to(total / self.frequency_max_hz, duration_s.shape)
        dynamic_j = (self.power_active_w - self.power_idle_w) * busy_s
        return ComputeCost(duration_s, dynamic_j, np.zeros_like(dynamic_j))
