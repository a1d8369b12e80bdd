"""Devices between activities: a radio's tail after the last message, then idle.

After a message a radio stays awake for its link's tail. The next message ends the tail early, and
then needs no promotion; the end of the run, switching off and absence also end it. The length of a
tail is known when it is over: it is booked then, and the wait after it when that ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.eventlog.accounts import Heading
from simfl.eventlog.kinds import KIND_INDEX
from simfl.eventlog.log import EventLog
from simfl.eventlog.rows import Rows, make_rows
from simfl.protocols.clock import Clock
from simfl.system.charge import Charge
from simfl.system.link_columns import LinkColumns


@dataclass(frozen=True, eq=False)
class _Devices:
    """Figures of devices: `first` is the log number of the first, the others are columns.

    `edge` is the value of that column in their rows.
    """

    first: int
    idle_w: FloatArray
    tail_s: FloatArray
    tail_w: FloatArray
    edge: IntArray


class _Radios:
    """The end of each radio's last message, and until when it is awake: one entry per device.

    `in_tail` are the devices with unbooked tails, each once (`listed`); the first of these tails
    ends at `soonest_s`.
    """

    def __init__(self, count: int) -> None:
        self.message_s: FloatArray = np.full(count, -np.inf)
        self.awake_s: FloatArray = self.message_s.copy()
        self.in_tail: IntArray = np.zeros(0, dtype=np.int64)
        self.listed: BoolArray = np.zeros(count, dtype=bool)
        self.soonest_s = np.inf


class IdleTracker:
    """Tracks since when devices are free, and until when their radios are awake.

    Devices are numbered from 0, which is `first_actor` of the log; `radios` has one entry for each,
    and `edge` the value of that column in its rows. `charge` is the state of their batteries; None:
    mains power.
    """

    def __init__(
        self,
        log: EventLog,
        clock: Clock,
        first_actor: int,
        radios: LinkColumns,
        edge: ArrayLike = -1,
        charge: Charge | None = None,
    ) -> None:
        count = radios.tail_s.size
        self._log = log
        self._clock = clock
        self._heading = log.accounts.heading(first_actor)
        self._devices = _Devices(
            first_actor,
            log.accounts.power_idle_w[first_actor : first_actor + count],
            radios.tail_s,
            radios.tail_w,
            np.broadcast_to(np.asarray(edge), (count,)),
        )
        self._charge = charge
        self._sleeps = bool((radios.tail_s + radios.promotion_s).any())
        self._free_s: FloatArray = np.zeros(count)
        self._tails_j: FloatArray = np.zeros(count)
        self._radios = _Radios(count if self._sleeps else 0)
        if self._sleeps or not log.accounts.pays_all:
            log.accounts.spending(self._spent_j)
        if self._sleeps:
            log.before_writing(self.settle)

    def free_s(self, who: IntArray) -> FloatArray:
        """Since when they have been free, or when they will be; inf: not known yet."""
        return self._free_s[who]

    @property
    def tails_j(self) -> FloatArray:
        """Joules above idle power of all tails of each that are booked."""
        return self._tails_j

    def waiting(self, now_s: float) -> IntArray:
        """The devices with unbooked waits that began before `now_s`."""
        return np.flatnonzero(self._free_s < now_s)

    def radio_idle_s(self, who: IntArray, at_s: FloatArray | float) -> FloatArray:
        """Seconds since their last messages, as for `World.plan_rounds`; inf: radios asleep."""
        if not self._sleeps:
            return np.zeros(who.size)
        # Not longer than the tail because of a rounding error.
        since_s = np.minimum(at_s - self._radios.message_s[who], self._devices.tail_s[who])
        return np.where(self._radios.awake_s[who] >= at_s, since_s, np.inf)

    def tail(self, who: IntArray, until_s: float) -> tuple[FloatArray, FloatArray]:
        """The end of their radios' tails, at most `until_s`, and the joules from now on.

        They are busy meanwhile.
        """
        now_s = self._clock.now_s
        if not self._sleeps:
            return np.full(who.size, now_s), np.zeros(who.size)
        ends_s = np.clip(self._radios.awake_s[who], now_s, until_s)
        return ends_s, self._devices.tail_w[who] * (ends_s - now_s)

    def busy(self, who: IntArray, until_s: FloatArray | float) -> None:
        """They are busy until then; book their rest (`until_now`) first."""
        self._free_s[who] = until_s

    def free(
        self,
        who: IntArray,
        from_s: FloatArray | float,
        radio_idle_s: FloatArray | float,
        present_until_s: FloatArray | float = np.inf,
    ) -> None:
        """They rest from `from_s` on, now or later; their last messages ended this long before.

        Radios that are off (inf) have no tail; no tail lasts beyond `present_until_s`.
        """
        self._free_s[who] = from_s
        if not self._sleeps:
            return
        radios = self._radios
        begun_s, tail_w = self._free_s[who], self._devices.tail_w[who]
        message_s = begun_s - radio_idle_s
        awake_s = np.minimum(message_s + self._devices.tail_s[who], present_until_s)
        if self._charge is not None:
            awake_s = self._charge.tails_end_s(who, begun_s, awake_s, tail_w)
        radios.message_s[who], radios.awake_s[who] = message_s, awake_s
        tailing = awake_s > begun_s
        fresh = who[tailing & ~radios.listed[who]]
        radios.listed[fresh] = True
        radios.in_tail = np.concatenate([radios.in_tail, fresh])
        radios.soonest_s = min(radios.soonest_s, float(awake_s[tailing].min(initial=np.inf)))

    def settle(self, now_s: float) -> None:
        """Books the tails that are over by now."""
        radios = self._radios
        if now_s < radios.soonest_s:
            return
        who = radios.in_tail
        over = radios.awake_s[who] <= now_s
        ended, radios.in_tail = who[over], who[~over]
        radios.listed[ended] = False
        radios.soonest_s = float(radios.awake_s[radios.in_tail].min(initial=np.inf))
        # Devices that are busy again have already booked their tails.
        ended = ended[self._free_s[ended] < radios.awake_s[ended]]
        self._log.add(self._rows(ended, radios.awake_s[ended], np.ones(ended.size, dtype=bool)))
        self._free_s[ended] = radios.awake_s[ended]

    def until_now(self, who: IntArray) -> Rows:
        """The rows of the rest until now, for those of them that are free."""
        now_s = self._clock.now_s
        self.settle(now_s)
        waited = who[self._free_s[who] < now_s]
        in_tail = np.zeros(waited.size, dtype=bool)
        if self._sleeps:
            in_tail = self._radios.awake_s[waited] > self._free_s[waited]
        rows = self._rows(waited, np.full(waited.size, now_s), in_tail)
        self._free_s[waited] = now_s
        return rows

    def _rows(self, who: IntArray, until_s: FloatArray, in_tail: BoolArray) -> Rows:
        """Tails and waits until then; empty batteries did not give all of their energy.

        Idle energy that is not charged to the training is excluded from the joules.
        """
        since_s = self._free_s[who]
        duration_s = until_s - since_s
        extra_j = np.where(in_tail, self._devices.tail_w[who], 0.0) * duration_s
        unmet_j = None
        if self._charge is not None:
            unmet_j = self._charge.unmet_j(who, until_s, in_tail)
            extra_j = extra_j - unmet_j
        self._tails_j[who[in_tail]] += extra_j[in_tail]
        idle_j = self._devices.idle_w[who] * duration_s
        energy_j = np.maximum(idle_j + extra_j, 0.0)
        if not self._log.accounts.pays_all:
            waits = ~in_tail
            unpaid_j = self._unpaid_j(who[waits], since_s[waits], until_s[waits])
            energy_j[waits] = np.maximum(energy_j[waits] - unpaid_j, 0.0)
            extra_j[waits] = energy_j[waits] - idle_j[waits]
        return make_rows(
            who.size,
            kind=np.where(in_tail, KIND_INDEX["tail"], KIND_INDEX["idle"]),
            actor=self._devices.first + who,
            edge=self._devices.edge[who],
            start_s=since_s,
            time_s=until_s,
            duration_s=duration_s,
            energy_j=energy_j,
            extra_j=extra_j,
            unmet_j=unmet_j,
        )

    def _unpaid_j(self, who: IntArray, from_s: FloatArray, until_s: FloatArray) -> FloatArray:
        """The joules of idle power while they waited that are not charged to the training."""
        return self._log.accounts.unpaid_idle_j(self._devices.first + who, from_s, until_s)

    def _spent_j(self) -> dict[Heading, float]:
        """Joules above idle power of tails and waits that are not booked yet."""
        now_s, radios = self._clock.now_s, self._radios
        who = radios.in_tail
        lasted_s = np.maximum(np.minimum(radios.awake_s[who], now_s) - self._free_s[who], 0.0)
        tails_j = float((self._devices.tail_w[who] * lasted_s).sum())
        if self._log.accounts.pays_all:
            return {self._heading: tails_j}
        waits_from_s = self._free_s
        if self._sleeps:
            waits_from_s = np.maximum(waits_from_s, radios.awake_s)
        who = np.flatnonzero(waits_from_s < now_s)
        unpaid_j = self._unpaid_j(who, waits_from_s[who], np.full(who.size, now_s))
        return {self._heading: tails_j, Heading.WAITING: -float(unpaid_j.sum())}
