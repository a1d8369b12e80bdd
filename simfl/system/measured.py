"""Processors from measurements: seconds of a training step, rates by kind of work.

Seconds and watts hold for the model and the clock of the measurement. When a processor is created,
they are converted to its own terms: cycles per example that take these seconds at that clock,
whatever the scenario's model, and a power law that gives these watts there.

Rates by kind of work, traffic over a bandwidth and fixed times predict the seconds of any model:

    t = (3 sum over kinds of FLOPs / rate + 3 traffic / bandwidth) examples
        + (sum over kinds of a step's operations / rate + seconds_per_place places
           + seconds_per_step) steps
        + seconds_per_training

at `measured_hz`, with a model's work as counted by `ModelWork`. All of it is converted to cycles
and scales with the clock, except for the processor's `memory_bound` share: see docs/hardware.md.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray
from simfl.common.model_work import FORWARD_KINDS, STEP_KINDS, ModelWork
from simfl.system.cost import MissingCost
from simfl.system.processor import TRAINING_FLOPS_PER_FORWARD, Processor
from simfl.system.rates import Rates


@dataclass(frozen=True, kw_only=True)
class MeasuredProcessor(Processor):
    """Measured keys that every kind of processor accepts instead of its own."""

    rates: Annotated[Rates | None, "sustained rates by kind of work; null: flops_per_s for all"] = (
        None
    )
    bandwidth_bytes_per_s: Annotated[
        float | None, "> 0", "memory bandwidth for activations of layers; null: these take no time"
    ] = None
    seconds_per_step: Annotated[float, ">= 0", "fixed time of every training step"] = 0.0
    seconds_per_place: Annotated[
        float, ">= 0", "fixed time in a step for every position of a recurrent layer"
    ] = 0.0
    seconds_per_training: Annotated[
        float,
        ">= 0",
        "fixed time of every local training (loading code and data), beside any of these keys",
    ] = 0.0
    seconds_per_example: Annotated[
        float | None, "> 0", "measured seconds to train on one example, for any model"
    ] = field(default=None, repr=False)
    seconds_per_batch: Annotated[
        float | None, "> 0", "measured seconds of a training step, with batch_examples"
    ] = field(default=None, repr=False)
    batch_examples: Annotated[int | None, ">= 1", "examples of the measured step"] = field(
        default=None, repr=False
    )
    measured_hz: Annotated[
        float | None, "> 0", "the clock frequency of the measurement; null: the highest"
    ] = field(default=None, repr=False)

    @property
    @abstractmethod
    def cycles_per_s(self) -> float:
        """Cycles per second, over all cores, at the highest clock."""

    @property
    def cycles_per_training(self) -> float:
        """Cycles in the fixed time of a training."""
        return self.seconds_per_training * self.cycles_per_s

    @property
    def goes_by_kind(self) -> bool:
        """Whether a step is more than floating-point operations at a single rate."""
        fixed = self.seconds_per_step or self.seconds_per_place
        return bool(self.rates or self.bandwidth_bytes_per_s or fixed)

    def training_cycles(
        self,
        examples: ArrayLike,
        work: ModelWork | None,
        steps: ArrayLike = 0.0,
        example_bits: float | None = None,
    ) -> FloatArray:
        """See the top of this file; a processor without any of these terms uses `cycles`."""
        if not self.goes_by_kind:
            return super().training_cycles(examples, work, steps, example_bits)
        if work is None or not work.forward_flops > 0:
            raise MissingCost("forward_flops of the model")
        rates, per_s = self.rates or Rates(), self.cycles_per_s
        each, step_s = np.zeros(()), self.seconds_per_step
        for kind in FORWARD_KINDS:
            flops, rate = getattr(work, kind), getattr(rates, kind)
            if flops:
                each = each + (
                    self._at_one_rate(flops, kind) if rate is None else flops / rate * per_s
                )
        if self.bandwidth_bytes_per_s is not None:
            each = each + work.traffic_bytes / self.bandwidth_bytes_per_s * per_s
        for kind in STEP_KINDS:
            flops, rate = getattr(work, kind), getattr(rates, kind)
            if rate is not None:
                step_s += flops / rate
        step_s += work.recurrent_places * self.seconds_per_place
        total: FloatArray = TRAINING_FLOPS_PER_FORWARD * each * np.asarray(examples, dtype=float)
        return total + step_s * per_s * np.asarray(steps, dtype=float)

    def _at_one_rate(self, flops: float, kind: str) -> FloatArray:
        """Cycles of a kind of work that has no rate of its own."""
        try:
            return self.flops_cycles(flops)
        except MissingCost as missing:
            raise MissingCost(f"rates.{kind} or {missing.field}") from missing

    def times_as_fast(self, factor: float) -> dict[str, Any]:
        """Rates and fixed times of a machine that is `factor` times as fast."""
        return {
            "rates": self.rates and self.rates.times(factor),
            "bandwidth_bytes_per_s": self.bandwidth_bytes_per_s
            and self.bandwidth_bytes_per_s * factor,
            "seconds_per_step": self.seconds_per_step / factor,
            "seconds_per_place": self.seconds_per_place / factor,
            "seconds_per_training": self.seconds_per_training / factor,
        }

    def refuse_kinds(self, name: str) -> None:
        """ValueError if there are such terms beside `name`, which would ignore them."""
        if self.goes_by_kind:
            terms = ("rates", "bandwidth_bytes_per_s", "seconds_per_step", "seconds_per_place")
            found = ", ".join(term for term in terms if getattr(self, term))
            raise ValueError(
                f"{name}: found beside {found}, accepted: one or the other, as {name} holds for"
                " whole steps of any model"
            )

    @property
    def measured(self) -> str | None:
        """Which key has measured seconds; None if there is none."""
        keys = ("seconds_per_batch", "seconds_per_example")
        return next((key for key in keys if getattr(self, key) is not None), None)

    def measured_s(self) -> float | None:
        """Seconds per example at `clock_hz`; None if not measured."""
        if self.seconds_per_batch is None:
            if self.batch_examples is not None:
                raise MissingCost("seconds_per_batch")
            return self.seconds_per_example
        if self.seconds_per_example is not None:
            raise ValueError(
                "seconds_per_batch: found beside seconds_per_example, accepted: one of them"
            )
        if self.batch_examples is None:
            raise MissingCost("batch_examples")
        return self.seconds_per_batch / self.batch_examples

    def clock_hz(self) -> float:
        """The clock of the measurement; ValueError if the processor has no such clock."""
        clock_hz = self.frequency_max_hz if self.measured_hz is None else self.measured_hz
        if not self.frequency_min_hz <= clock_hz <= self.frequency_max_hz:
            raise ValueError(
                f"measured_hz: found {clock_hz:g}, accepted: {self.frequency_min_hz:g} to"
                f" {self.frequency_max_hz:g}"
            )
        return clock_hz

    def taken(self, **terms: Rates | float | None) -> None:
        """Set the converted terms in place of the measurements."""
        measured = ("seconds_per_example", "seconds_per_batch", "batch_examples", "measured_hz")
        for name, value in {**dict.fromkeys(measured), **terms}.items():
            object.__setattr__(self, name, value)
