"""What every driver shares: the work's figures, what it is to do, the stopwatch.

A driver is run as `python with_<peer>.py DATA ROWS FEATURES ROUNDS BEGAN`: the file of the clients'
data, how many rows each has and of how many values, how many rounds, and the time when the process
was started. Its last line says how it went.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from itertools import pairwise
from pathlib import Path

CLIENTS, A_ROUND = 50, 10
EPOCHS, BATCH, RATE = 5, 32, 0.05
HIDDEN, CLASSES = 200, 10
RESULT = "RESULT "


class Job:
    """One run of a peer: what it is to do, and how long each round took."""

    def __init__(self) -> None:
        self.data = Path(sys.argv[1])
        self.rows, self.features, self.rounds = map(int, sys.argv[2:5])
        self._began = float(sys.argv[5])
        self._ends: list[float] = []

    def round_ended(self) -> None:
        """To be called after each round."""
        self._ends.append(time.time())

    def report(self) -> None:
        """Print the seconds from start to the first round's end, of each round after it, memory."""
        if len(self._ends) < self.rounds:
            sys.exit(f"{len(self._ends)} of {self.rounds} rounds")
        peak_kb = sum(
            resource.getrusage(who).ru_maxrss
            for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        result = {
            "first_s": self._ends[0] - self._began,
            "round_s": [after - before for before, after in pairwise(self._ends)],
            "peak_bytes": 1024 * peak_kb,
        }
        print(f"\n{RESULT}{json.dumps(result)}", flush=True)
