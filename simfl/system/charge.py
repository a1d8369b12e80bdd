"""Clients' batteries during and between their rounds.

Choices
1. A client whose battery is empty is off until it is charged to `lowest`: it draws nothing, neither
   idle power nor for messages outside rounds, and its radio is asleep.
2. A battery that runs empty in mid-round ends the round.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.system.battery import Batteries


class Charge:
    """The charge of every client's battery, each at a time of its own.

    `idle_w` is each client's power while it does nothing.
    """

    def __init__(self, batteries: Batteries, idle_w: FloatArray) -> None:
        self._batteries = batteries
        self._idle_w = idle_w
        # Joules that empty batteries did not provide: to waiting clients, and to radios' tails.
        self._unmet_j: FloatArray = np.zeros((2, idle_w.size))
        # The power of a radio's tail, its end, and whether the battery is then empty.
        self._tail_w: FloatArray = np.zeros(idle_w.size)
        self._tail_ends_s: FloatArray = np.zeros(idle_w.size)
        self._dries: BoolArray = np.zeros(idle_w.size, dtype=bool)
        # Power beyond idle of clients in rounds of unknown course; NaN for all others.
        self._active_w: FloatArray = np.full(idle_w.size, np.nan)
        # Joules that empty batteries did not provide to them.
        self._missed_j: FloatArray = np.zeros(idle_w.size)
        # When a client that cannot take part can do so; valid until then.
        self._ready_s: FloatArray = np.zeros(idle_w.size)

    def level(self, clients: IntArray) -> FloatArray:
        """Charge divided by capacity at each client's last update."""
        return self._batteries.level(clients)

    def can_take_part(self, clients: IntArray, now_s: float) -> BoolArray:
        """Whether each is now charged enough, or plugged in."""
        self.settle(clients, now_s)
        return self._batteries.can_take_part(clients)

    def ready_s(self, clients: IntArray, now_s: float) -> FloatArray:
        """The earliest time at which each may be charged enough; inf: never."""
        ready_s = np.full(clients.size, now_s)
        low = ~self._batteries.can_take_part(clients)
        unknown = clients[low & (self._ready_s[clients] <= now_s)]
        self._ready_s[unknown] = self._batteries.ready_s(unknown, self._idle_w[unknown])
        ready_s[low] = self._ready_s[clients[low]]
        return ready_s

    def settle(self, clients: IntArray, now_s: float) -> IntArray:
        """Update idle clients' batteries; returns those that were empty for part of the time."""
        self._rest(clients, np.full(clients.size, now_s))
        return clients[(self._unmet_j[:, clients] > 0).any(axis=0)]

    def spend(self, clients: IntArray, times_s: FloatArray, joules: FloatArray) -> FloatArray:
        """Draw `joules` (segments, clients) beyond idle power, even from empty batteries.

        `times_s` (segments + 1, clients) are the bounds of the segments. Returns the joules that
        empty batteries did not provide, in the same shape.
        """
        self._rest(clients, times_s[0])
        return np.array(
            [
                self._batteries.advance(clients, times_s[row + 1], load_w).unmet_j
                for row, load_w in enumerate(self._loads_w(clients, times_s, joules))
            ]
        ).reshape(joules.shape)

    def unmet_j(self, clients: IntArray, until_s: FloatArray, in_tail: BoolArray) -> FloatArray:
        """Joules that empty batteries did not provide to clients resting until then; reset to 0.

        `in_tail` selects those of the radios' tails instead of those of waiting.
        """
        self._rest(clients, until_s)
        which = in_tail.astype(np.int64)
        unmet_j = self._unmet_j[which, clients]
        self._unmet_j[which, clients] = 0.0
        return unmet_j

    def tails_end_s(
        self, clients: IntArray, from_s: FloatArray, until_s: FloatArray, tail_w: FloatArray
    ) -> FloatArray:
        """When radios with tails from `from_s` to at most `until_s` fall asleep or go off.

        A tail draws `tail_w` beyond idle power. A client that is off has no tail.
        """
        until_s = np.where(self._batteries.off[clients], -np.inf, until_s)
        load_w = self._idle_w[clients] + tail_w
        empty_s = self._batteries.foresee(clients, np.maximum(until_s, from_s), load_w).empty_s
        self._dries[clients] = empty_s < until_s
        self._tail_w[clients] = tail_w
        self._tail_ends_s[clients] = np.minimum(until_s, empty_s)
        return self._tail_ends_s[clients]

    def discharge(
        self, clients: IntArray, times_s: FloatArray, joules: FloatArray, stops_s: FloatArray
    ) -> FloatArray:
        """Draw the power of activities until they end or stop; when batteries ran empty, or inf.

        `times_s` and `joules` are as in `spend`.
        """
        batteries, empty_s = self._batteries, np.full(clients.size, np.inf)
        self._rest(clients, times_s[0])
        for row, load_w in enumerate(self._loads_w(clients, times_s, joules)):
            end_s = np.maximum(np.minimum(times_s[row + 1], stops_s), batteries.time_s[clients])
            end_s = np.where(np.isfinite(empty_s), batteries.time_s[clients], end_s)
            dry_s = batteries.foresee(clients, end_s, load_w).empty_s
            batteries.advance(clients, np.minimum(end_s, dry_s), load_w)
            empty_s = np.minimum(empty_s, dry_s)
        batteries.switch_off(clients[np.isfinite(empty_s)])
        return empty_s

    def _loads_w(
        self, clients: IntArray, times_s: FloatArray, joules: FloatArray
    ) -> Iterator[FloatArray]:
        """Watts in each segment, including idle power."""
        idle_w = self._idle_w[clients]
        for row, spent_j in enumerate(joules):
            lasts_s = times_s[row + 1] - times_s[row]
            active_w = np.divide(spent_j, lasts_s, out=np.zeros_like(lasts_s), where=lasts_s > 0)
            yield idle_w + active_w

    def on_battery(self, clients: IntArray) -> BoolArray:
        """Whether each client has a battery that can run empty."""
        finite: BoolArray = np.isfinite(self._batteries.capacity_j[clients])
        return finite

    def draws_otherwise(self, clients: IntArray, active_w: FloatArray) -> BoolArray:
        """Which clients, of those in `draw`, have a power other than `active_w`."""
        known_w = self._active_w[clients]
        other: BoolArray = ~np.isnan(known_w) & (known_w != active_w)
        return other

    def draw(
        self, clients: IntArray, now_s: float, active_w: FloatArray, until_s: float | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """From now on clients draw `active_w` beyond idle power, until `release`.

        Returns when their batteries run empty (inf: not in the foreseen time), and the end of the
        foreseen time: `until_s`, or the next change of a supply.
        """
        batteries, load_w = self._batteries, self._idle_w[clients] + active_w
        self._follow(clients, now_s)
        self._missed_j[clients[np.isnan(self._active_w[clients])]] = 0.0
        self._active_w[clients] = active_w
        at_s = batteries.time_s[clients]
        ahead_s = batteries.next_change_s(clients, at_s)
        if until_s is not None:
            ahead_s = np.full(clients.size, until_s)
        return batteries.foresee(clients, ahead_s, load_w).empty_s, ahead_s

    def release(self, clients: IntArray, now_s: float) -> None:
        """From now on clients rest."""
        self._follow(clients, now_s)
        self._active_w[clients] = np.nan

    def missed_j(self, client: int, now_s: float) -> float:
        """Joules that an empty battery has not provided since its client's first `draw`."""
        self._follow(np.array([client]), now_s)
        return float(self._missed_j[client])

    def _follow(self, clients: IntArray, now_s: float) -> None:
        """Update to the present, for resting clients and others."""
        self._rest(clients, np.full(clients.size, now_s))
        under_way = clients[~np.isnan(self._active_w[clients])]
        load_w = self._idle_w[under_way] + self._active_w[under_way]
        self._missed_j[under_way] += self._batteries.advance(under_way, now_s, load_w).unmet_j

    def run_empty(self, clients: IntArray, now_s: float) -> None:
        """Switch off batteries that run empty now, in mid-round."""
        self.release(clients, now_s)
        self._batteries.switch_off(clients)

    def _rest(self, clients: IntArray, until_s: FloatArray) -> None:
        """Update resting clients: first the radio's tail, then idle power only."""
        batteries = self._batteries
        behind = (batteries.time_s[clients] < until_s) & np.isnan(self._active_w[clients])
        free, end_s = clients[behind], until_s[behind]
        tail_s = np.clip(self._tail_ends_s[free], batteries.time_s[free], end_s)
        load_w = self._idle_w[free] + self._tail_w[free]
        self._unmet_j[1, free] += batteries.advance(free, tail_s, load_w).unmet_j
        dry = free[self._dries[free] & (self._tail_ends_s[free] <= end_s)]
        batteries.switch_off(dry)
        self._dries[dry] = False
        self._unmet_j[0, free] += batteries.advance(free, end_s, self._idle_w[free]).unmet_j
