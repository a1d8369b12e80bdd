"""As slow as the round permits: faster clients slow down instead of waiting for the slowest.

The slowest client needs T = max_n (c_n / f_max_n + transfers_n) for a dispatch, by the registered
hardware; client n meets T at

    f_n = c_n / (slack T - transfers_n).

Symbols: c_n cycles of the dispatch, transfers_n seconds of its messages, f_max_n in Hz.

Choices
1. T is the nominal time of the slowest client, not the observed latency: noise makes observed
   maxima longer than nominal ones, so frequencies chosen to fill them would fall from dispatch to
   dispatch.
2. `deadline_s` sets T for a whole dispatch instead; a client that cannot meet it computes at f_max.
3. Rounding to a device's nearest level may miss the deadline by half a step; `slack` below 1 is a
   reserve for that and for noise, above 1 it lengthens the round to save energy.
4. Below a device's clock of least energy a slower clock costs more: static power is drawn for
   longer. This rule goes there if the time permits; `min_energy` stops at that clock, and knows no
   deadline.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.decisions.base import Allocation
from simfl.decisions.views import ClientView


@dataclass(frozen=True)
class Deadline(Allocation):
    """The slowest frequency of each client that still meets the estimated time of the round.

    Where static power counts, that may be below the clock of least energy (see `min_energy`).
    """

    looks_at: ClassVar[frozenset[str] | None] = frozenset(
        {"cycles", "frequency_max_hz", "frequency_min_hz", "transfer_s"}
    )

    deadline_s: Annotated[
        float | None, "> 0", "seconds of a whole dispatch; null: the time of the slowest client"
    ] = None
    slack: Annotated[float, "> 0", "factor on the deadline"] = 1.0

    def decide(self, view: ClientView, rng: np.random.Generator) -> FloatArray:
        """f_n, within the client's range."""
        deadline_s = self.deadline_s
        if deadline_s is None:
            fastest_s = view.cycles / view.frequency_max_hz + view.transfer_s
            deadline_s = float(fastest_s.max())
        left_s = self.slack * deadline_s - view.transfer_s
        in_time = left_s > 0  # false, too, if nothing is known
        wanted_hz = np.where(in_time, view.cycles / np.where(in_time, left_s, 1.0), np.inf)
        return np.clip(wanted_hz, view.frequency_min_hz, view.frequency_max_hz)
