"""A protocol of one's own: cyclic weight transfer (Chang et al., JAMIA 2018)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfl.plugins import Process, Protocol, Run


@dataclass(frozen=True)
class Cyclic(Protocol):
    """The model visits the selected clients one after the other; each visit is a new version."""

    @property
    def most_updates(self) -> int:
        """Each client's by itself."""
        return 1

    def process(self, run: Run) -> Process:
        """What takes simulated time is driven with `yield from`."""
        ref, cycle = run.begin("cloud"), 0
        while True:
            chosen = yield from run.select(ref, run.all_clients, cycle)
            for client in chosen:
                delivered = yield from run.client_rounds(np.array([client]), ref, cycle)
                ref = yield from run.aggregate(ref, delivered, cycle)
                if run.publish(ref, cycle, participants=1, staleness=0):
                    return ref
            cycle += 1
