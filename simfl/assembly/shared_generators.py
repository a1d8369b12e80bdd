"""Detects use of process-wide random generators, which simfl does not seed.

simfl's own code draws nothing from them, or puts them back.
"""

from __future__ import annotations

from typing import Any

import torch

from simfl.learning.network import generator_state
from simfl.streams import process_states


class SharedGenerators:
    """A snapshot of their states, to be compared with later."""

    def __init__(self) -> None:
        self._before = _states()

    def used(self) -> tuple[str, ...]:
        """The names of generators whose state has changed: drawn from, or seeded."""
        return tuple(name for name, state in _states().items() if state != self._before[name])


def _states() -> dict[str, Any]:
    return {**process_states(), "torch": generator_state(torch.device("cpu")).numpy().tobytes()}
