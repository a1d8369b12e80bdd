"""Processors by what a stopwatch and a wattmeter say: seconds of a training step, watts meanwhile.

Both hold for the model and the clock that they were measured with. A processor turns them into its
own terms when it is made: cycles of an example, which take so long at that clock, whatever the
scenario's model; and its law of power, which draws so much there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from simfl.system.cost import MissingCost
from simfl.system.processor import Processor


@dataclass(frozen=True, kw_only=True)
class MeasuredProcessor(Processor):
    """What every kind of processor may be given in place of its own terms."""

    seconds_per_example: Annotated[
        float | None, "> 0", "measured seconds of one example's training step, whatever the model"
    ] = field(default=None, repr=False)
    seconds_per_batch: Annotated[
        float | None, "> 0", "measured seconds of a training step, with batch_examples"
    ] = field(default=None, repr=False)
    batch_examples: Annotated[int | None, ">= 1", "examples of the measured step"] = field(
        default=None, repr=False
    )
    measured_hz: Annotated[
        float | None, "> 0", "the clock that it was measured at; null: the highest"
    ] = field(default=None, repr=False)

    def measured_s(self) -> float | None:
        """Seconds of an example at `clock_hz`; None where none were measured."""
        if self.seconds_per_batch is None:
            if self.batch_examples is not None:
                raise MissingCost("seconds_per_batch")
            return self.seconds_per_example
        if self.seconds_per_example is not None:
            raise ValueError("seconds_per_example and seconds_per_batch exclude each other")
        if self.batch_examples is None:
            raise MissingCost("batch_examples")
        return self.seconds_per_batch / self.batch_examples

    def clock_hz(self) -> float:
        """The clock that was measured at; ValueError where the processor has no such clock."""
        clock_hz = self.frequency_max_hz if self.measured_hz is None else self.measured_hz
        if not self.frequency_min_hz <= clock_hz <= self.frequency_max_hz:
            raise ValueError(
                f"measured_hz: found {clock_hz:g}, accepted: {self.frequency_min_hz:g} to"
                f" {self.frequency_max_hz:g}"
            )
        return clock_hz

    def taken(self, **terms: float | None) -> None:
        """Set the terms that what was measured comes to, in its place."""
        measured = ("seconds_per_example", "seconds_per_batch", "batch_examples", "measured_hz")
        for name, value in {**dict.fromkeys(measured), **terms}.items():
            object.__setattr__(self, name, value)
