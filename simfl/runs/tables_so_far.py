"""A run's tables while it goes on, for whoever looks at it, or finds it killed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from simfl.protocols.run import Run
from simfl.runs.outcome import write_rounds

MOST_TIME = 0.01
"""The share of a run's wall time that writing them may take."""


@dataclass
class TablesSoFar:
    """The tables of versions in a run folder, as far as the run has come."""

    folder: Path
    _rests_until: float = 0.0

    def write(self, one: Run) -> None:
        """Write them, unless that has taken too much of the time; raises `OSError`."""
        began = time.monotonic()
        if began >= self._rests_until:
            write_rounds(one, self.folder)
            ended = time.monotonic()
            self._rests_until = ended + (ended - began) / MOST_TIME
