"""Whether the random generators that a whole process shares were used: no seed of ours is theirs.

simfl's own code draws nothing from them, or puts them back.
"""

from __future__ import annotations

from typing import Any

import torch

from simfl.learning.network import generator_state
from simfl.streams import process_states


class SharedGenerators:
    """Where they stand when this is made, to be compared with later on."""

    def __init__(self) -> None:
        self._before = _states()

    def used(self) -> tuple[str, ...]:
        """The names of those that stand elsewhere now: drawn from, or seeded."""
        return tuple(name for name, state in _states().items() if state != self._before[name])


def _states() -> dict[str, Any]:
    return {**process_states(), "torch": generator_state(torch.device("cpu")).numpy().tobytes()}
