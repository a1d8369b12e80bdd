"""The interface of every processor: duration and power of computations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray
from simfl.common.model_work import ModelWork
from simfl.system.cost import ComputeCost, MissingCost

TRAINING_FLOPS_PER_FORWARD = 3.0
"""Forward and backward pass, relative to the forward pass: the backward pass costs two of them."""


class Processor(ABC):
    """Base of every processor: a frozen dataclass whose fields are the keys of `processor:`.

    A subclass has the attributes below and defines `flops_cycles` and `compute`; it overrides
    `cycles` if work is not counted in floating-point operations, and `training_cycles` if kinds of
    work, or steps, take times of their own.
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

    def training_cycles(
        self,
        examples: ArrayLike,
        work: ModelWork | None,
        steps: ArrayLike = 0.0,
        example_bits: float | None = None,
    ) -> FloatArray:
        """Cycles of training on `examples` in this number of `steps`, for a model with this work.

        The default is `cycles`.
        """
        flops = None if work is None else work.forward_flops
        return self.cycles(examples, flops, example_bits)

    @property
    def cycles_per_training(self) -> float:
        """Cycles of every local training beside its steps and examples; 0 by default."""
        return 0.0

    def unpowered_cycles(self, steps: ArrayLike, trainings: ArrayLike = 0.0) -> FloatArray:
        """Of the cycles of so many steps and trainings, those that draw nothing beyond idle power.

        None, unless a subclass knows better: `compute` says what the others draw.
        """
        return np.zeros_like(np.asarray(steps, dtype=float))

    @property
    def counts_bits(self) -> bool:
        """Whether `cycles` may depend on the stored size of an example."""
        return type(self).cycles is not Processor.cycles

    def power_law(self) -> tuple[float, float] | None:
        """(kappa, static power) of a busy core with static + kappa f^3 watts at clock f.

        Units W/Hz^3 and W. None, the default: the processor has no such law.
        """
        return None

    def levels(self) -> FloatArray | None:
        """The existing clock frequencies in Hz, ascending; None if any in the range is possible."""
        levels = self.frequency_levels_hz
        return None if levels is None else np.asarray(levels, dtype=float)

    def nearest_level(self, frequency_hz: ArrayLike) -> FloatArray:
        """The level nearest to `frequency_hz` within the range (the lower one in a tie)."""
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
        """The highest level up to `frequency_hz`; the lowest if all are above."""
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
