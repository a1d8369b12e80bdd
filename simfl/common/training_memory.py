"""The device memory that training a model needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray


@dataclass(frozen=True)
class TrainingMemory:
    """The bytes that training needs at the same time, with float32 values.

    `model_bytes` are the model's weights and buffers, `trained_bytes` the weights that have a
    gradient (each of an optimizer's states takes as much again); `example_bytes` is what one
    example's forward pass stores for the backward pass. Memory used by the system and the framework
    is not included.
    """

    model_bytes: float
    trained_bytes: float
    example_bytes: float

    def fixed_bytes(self, states: int) -> float:
        """The part that does not depend on the batch, with `states` optimizer values per weight."""
        return self.model_bytes + (1 + states) * self.trained_bytes

    def needed_bytes(self, rows: ArrayLike, states: int) -> FloatArray:
        """The total for batches of `rows` examples."""
        return self.fixed_bytes(states) + self.example_bytes * np.asarray(rows, dtype=float)

    def most_rows(self, memory_bytes: float, states: int) -> int:
        """The largest batch that fits, 0 if none does; 1 if all do."""
        left = memory_bytes - self.fixed_bytes(states)
        return int(max(left, 0.0) // self.example_bytes) if self.example_bytes else int(left >= 0)
