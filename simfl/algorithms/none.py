"""No learning: only the simulated system, with the messages and work of training a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from simfl.algorithms.base import Algorithm


@dataclass(frozen=True)
class NoLearning(Algorithm):
    """Timing only: nothing is trained, aggregated, evaluated or kept in memory.

    `local` sets the work of a client's round.
    """

    name: ClassVar[str] = "none"
    learns: ClassVar[bool] = False

    @property
    def idle_keys(self) -> dict[str, str]:
        """All keys of `local` that change neither the amount of work nor the memory for it."""
        keys = ["learning_rate", "learning_rate_decay", "weight_decay", "keep_optimizer"]
        return {f"local.{key}": "nothing is trained" for key in keys}
