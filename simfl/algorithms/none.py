"""No learning: the simulated system alone, with messages and work as if a model were trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from simfl.algorithms.base import Algorithm


@dataclass(frozen=True)
class NoLearning(Algorithm):
    """Timing only: nothing is trained, aggregated or evaluated, nothing is held in memory.

    `local` says how much work a client's turn would be.
    """

    name: ClassVar[str] = "none"
    learns: ClassVar[bool] = False
