"""The fates of clients' rounds: whose updates reach their servers, why others do not, and when
servers know.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.common.notices import Notice, notice
from simfl.protocols.deliveries import Delivered
from simfl.protocols.timeline import NOT_STOPPED, Timeline
from simfl.system.interruptions import CAUSES
from simfl.system.server_id import ServerId

BATTERY_EMPTY = CAUSES.index("battery_empty")
ARRIVED, LOST, UNHEARD = range(len(CAUSES), len(CAUSES) + 3)
FATES = (*CAUSES, "arrived", "lost", "unheard")
"""What broke a round off; or its update arrived, a message of it was lost for good, or its server
failed meanwhile or before it had passed the update on."""

MOST_GIVEN_UP = 0.5
"""Up to this share of all rounds may be given up."""


class Absences(NamedTuple):
    """Absences of clients in their rounds: how many rounds went on without their client, and for
    how many of the `lasted_s` seconds of all rounds these were paused.
    """

    ignored: int
    paused_s: float
    lasted_s: float


class Fates:
    """Counts the rounds of this many clients by fate; queries do not count.

    A client has one round at a time, so `end` is called for each only after its previous one has
    ended. `given_up_s` (clients,): when the server gives up each client's last round that was
    broken off; -inf: at once. `waits`: how servers' waits ended.
    """

    def __init__(self, clients: int) -> None:
        self.waits = Waits()
        self._counts: IntArray = np.zeros(len(FATES), dtype=np.int64)
        self._emptied: IntArray = np.zeros(clients, dtype=np.int64)
        self._last: IntArray = np.full(clients, ARRIVED)
        self._last_ends_s: FloatArray = np.full(clients, np.inf)
        self._absences = _Absences(clients)
        self._tails = _TailsInVain(clients)
        # Joules above idle power: of each client's last round, and of all before that were in vain.
        self._last_active_j: FloatArray = np.zeros(clients)
        self._wasted_active_j = 0.0
        self.given_up_s: FloatArray = np.full(clients, -np.inf)
        # Clients and joules of updates that each edge server has received, but not passed on.
        self._unreported: dict[ServerId, list[tuple[IntArray, FloatArray]]] = {}

    def begun(self, clients: IntArray, tails_j: FloatArray) -> None:
        """Clients begin a round, a query or a message outside rounds: their radios' tails are over.

        `tails_j` are the joules of all tails of each so far.
        """
        self._tails.over(clients, tails_j)

    def end(
        self,
        timeline: Timeline,
        places: IntArray,
        ends_s: FloatArray,
        tails_j: FloatArray,
        rounds: IntArray,
    ) -> None:
        """Records the fates of the rounds of `places`, which end at `ends_s`, now or later.

        All (places,): `tails_j` as for `begun`, those before these rounds; `rounds` as in
        `Delivered`.
        """
        clients = timeline.actors[places]
        before = np.isfinite(self._last_ends_s[clients])
        self._counts += np.bincount(self._last[clients[before]], minlength=len(FATES))
        self._emptied[clients[before]] += self._last[clients[before]] == BATTERY_EMPTY
        self._wasted_active_j += self._lost_j(clients[before])
        self._absences.end(timeline, places, ends_s)
        self._last[clients], self._last_ends_s[clients] = _of(timeline)[places], ends_s
        self._last_active_j[clients] = timeline.spent_j[places]
        self._tails.ended(clients, rounds, tails_j, self._last[clients] != ARRIVED)

    def carry(self, clients: IntArray) -> None:
        """The updates of these clients' last rounds come late, and will be carried over."""
        self._tails.carry(clients)

    def drop(self, clients: IntArray, active_j: FloatArray, rounds: IntArray | None) -> None:
        """Rounds whose updates have arrived were in vain: these are dropped.

        `rounds` as in `Delivered`; None: each client's last one.
        """
        self._wasted_active_j += float(active_j.sum())
        self._tails.in_vain(clients, rounds)

    def received(self, server: ServerId, updates: Delivered) -> None:
        """A server has more updates; the cloud's are safe."""
        if server.is_edge:
            self._unreported.setdefault(server, []).append((updates.clients, updates.active_j))
        self._tails.received(updates, held=server.is_edge)

    def reported(self, server: ServerId) -> None:
        """An edge server has passed on what it had."""
        for clients, _ in self._unreported.pop(server, []):
            self._tails.reported(clients)

    def crashed(self, server: ServerId) -> None:
        """An edge server has lost what it had not passed on."""
        for clients, active_j in self._unreported.pop(server, []):
            self.lose(clients, active_j)

    def lose(self, clients: IntArray, active_j: FloatArray) -> None:
        """Rounds whose updates an edge server held were in vain: it lost them."""
        self._unheard(active_j)
        self._tails.lose(clients)

    def lose_carried(self, updates: Delivered) -> None:
        """So were those of late updates, which it would have carried over."""
        self._unheard(updates.active_j)
        self._tails.in_vain(updates.clients, updates.rounds)

    def _unheard(self, active_j: FloatArray) -> None:
        self._counts[ARRIVED] -= active_j.size
        self._counts[UNHEARD] += active_j.size
        self._wasted_active_j += float(active_j.sum())

    def wasted_active_j(self, now_s: float, tails_j: FloatArray) -> float:
        """Joules above idle power of rounds that have ended by now without a merged update.

        With the radios' tails after these rounds. `tails_j` (clients,) as for `begun`.
        """
        over = np.flatnonzero(self._last_ends_s <= now_s)
        return self._wasted_active_j + self._lost_j(over) + self._tails.by(tails_j)

    def _lost_j(self, clients: IntArray) -> float:
        """The joules of these clients' last rounds if they brought no update."""
        lost = clients[self._last[clients] != ARRIVED]
        return float(self._last_active_j[lost].sum())

    def emptied(self, now_s: float) -> IntArray:
        """How many of each client's rounds an empty battery has ended by now (clients,)."""
        emptied: IntArray = self._emptied + (
            (self._last == BATTERY_EMPTY) & (self._last_ends_s <= now_s)
        )
        return emptied

    def absences(self, now_s: float) -> Absences:
        """The absences in the rounds that have ended by now."""
        return self._absences.by(self._last_ends_s <= now_s)

    def counts(self, now_s: float) -> dict[str, int]:
        """The number of rounds that have ended by now, by fate."""
        over = self._last_ends_s <= now_s
        last = np.bincount(self._last[over], minlength=len(FATES))
        return dict(zip(FATES, (self._counts + last).tolist(), strict=True))


class _Absences:
    """Sums `Absences` over the rounds of this many clients: earlier ones, and each one's last."""

    def __init__(self, clients: int) -> None:
        self._earlier: FloatArray = np.zeros(len(Absences._fields))
        self._last: FloatArray = np.zeros((len(Absences._fields), clients))

    def end(self, timeline: Timeline, places: IntArray, ends_s: FloatArray) -> None:
        """As `Fates.end`."""
        clients = timeline.actors[places]
        until_s = dict(zip(clients.tolist(), ends_s.tolist(), strict=True))
        paused_s: dict[int, float] = {}
        for one in timeline.pauses:
            if (end_s := until_s.get(one.client, -np.inf)) > one.time_s:
                lasts_s = min(one.lasts_s, end_s - one.time_s)
                paused_s[one.client] = paused_s.get(one.client, 0.0) + lasts_s
        self._earlier += self._last[:, clients].sum(axis=1)
        self._last[:, clients] = (
            timeline.ends.absent_from_s[places] < ends_s,
            [paused_s.get(client, 0.0) for client in clients.tolist()],
            np.maximum(ends_s - timeline.begins_s[places], 0.0),
        )

    def by(self, over: BoolArray) -> Absences:
        """Of all rounds but the last ones of clients for which these are not `over`."""
        ignored, paused_s, lasted_s = (self._earlier + self._last[:, over].sum(axis=1)).tolist()
        return Absences(int(ignored), paused_s, lasted_s)


class _TailsInVain:
    """Joules of radios' tails after rounds that brought no update: of earlier rounds, and of each
    client's last one, whose tail has not been cut off yet.

    Updates that an edge server holds may yet be lost, and late ones that are carried over dropped.
    """

    def __init__(self, clients: int) -> None:
        self._earlier_j = 0.0
        self._before_j: FloatArray = np.zeros(clients)
        self._in_vain, self._held, self._carried = np.zeros((3, clients), dtype=bool)
        self._of_held_j: FloatArray = np.zeros(clients)
        self._last_round: IntArray = np.full(clients, -1)
        # By client and round, where a later round has begun before the update was taken in.
        self._of_carried_j: dict[tuple[int, int], float] = {}

    def ended(
        self, clients: IntArray, rounds: IntArray, tails_j: FloatArray, in_vain: BoolArray
    ) -> None:
        """Rounds after which tails may follow; `tails_j` were before them."""
        self._last_round[clients] = rounds
        self._before_j[clients], self._in_vain[clients] = tails_j, in_vain

    def carry(self, clients: IntArray) -> None:
        """The updates of these clients' last rounds will be carried over."""
        self._carried[clients] = True

    def received(self, updates: Delivered, *, held: bool) -> None:
        """Updates have been taken in; those that an edge server holds may yet be lost."""
        clients = updates.clients
        earlier_j, last = self._known(clients, updates.rounds)
        self._carried[clients[last]] = False
        if held:
            self._held[clients[last]] = True
            np.add.at(self._of_held_j, clients, earlier_j)

    def reported(self, clients: IntArray) -> None:
        """It has passed on all that it held of these clients."""
        self._held[clients], self._of_held_j[clients] = False, 0.0

    def lose(self, clients: IntArray) -> None:
        """It has lost that."""
        clients = np.unique(clients)
        self._earlier_j += float(self._of_held_j[clients].sum())
        self._in_vain[clients] |= self._held[clients]
        self.reported(clients)

    def in_vain(self, clients: IntArray, rounds: IntArray | None) -> None:
        """These rounds were in vain; None: the last ones of these clients."""
        if rounds is None:
            rounds = self._last_round[clients]
        earlier_j, last = self._known(clients, rounds)
        self._earlier_j += float(earlier_j.sum())
        self._in_vain[clients[last]], self._carried[clients[last]] = True, False

    def _known(self, clients: IntArray, rounds: IntArray) -> tuple[FloatArray, BoolArray]:
        """The joules of the tails after earlier rounds, and which are the clients' last ones."""
        earlier_j = np.zeros(clients.size)
        if self._of_carried_j:
            keys = zip(clients.tolist(), rounds.tolist(), strict=True)
            earlier_j[:] = [self._of_carried_j.pop(key, 0.0) for key in keys]
        return earlier_j, self._last_round[clients] == rounds

    def over(self, clients: IntArray, tails_j: FloatArray) -> None:
        """No tail after these clients' last rounds goes on."""
        wasted, of_last_j = self._in_vain[clients], tails_j - self._before_j[clients]
        self._earlier_j += float(of_last_j[wasted].sum())
        self._of_held_j[clients] += np.where(self._held[clients] & ~wasted, of_last_j, 0.0)
        for place in np.flatnonzero(self._carried[clients] & ~wasted).tolist():
            key = int(clients[place]), int(self._last_round[clients[place]])
            self._of_carried_j[key] = float(of_last_j[place])
        self._before_j[clients], self._in_vain[clients] = tails_j, False
        self._held[clients] = self._carried[clients] = False

    def by(self, tails_j: FloatArray) -> float:
        """The joules by now; `tails_j` (clients,) are those of all tails."""
        return self._earlier_j + float((tails_j - self._before_j)[self._in_vain].sum())


class Waits:
    """Counts how servers' waits for clients ended: at once, as one failed; with too few updates."""

    def __init__(self) -> None:
        self._waits = self._shortened = 0
        self._first_shortened_s: float | None = None
        self._closed = self._abandoned = 0

    def waited(self, closed_s: float, *, shortened: bool) -> None:
        """A server has stopped waiting for clients, because one failed at that moment or not."""
        self._waits += 1
        if shortened:
            self._shortened += 1
            if self._first_shortened_s is None:
                self._first_shortened_s = closed_s

    def closed(self) -> None:
        """A round of a server has closed."""
        self._closed += 1

    def abandoned(self) -> None:
        """It had too few updates."""
        self._abandoned += 1

    def warnings(self) -> Iterator[Notice]:
        """Warnings if failures have shortened waits, or most rounds were given up."""
        if self._abandoned > MOST_GIVEN_UP * self._closed:
            message = (
                f"{self._abandoned} of {self._closed} rounds were given up, because fewer updates"
                " than needed had arrived: their seconds, joules and bytes count, but not their"
                " updates"
            )
            yield notice("mostly_given_up", message, self._abandoned)
        if self._shortened:
            message = (
                f"{self._shortened} of {self._waits} times a server stopped waiting at the moment"
                " when a client left, crashed, ran empty or lost a message for good, or an edge"
                " server crashed, although nobody told it"
            )
            yield notice("noticed_at_once", message, self._shortened, self._first_shortened_s)


def _of(timeline: Timeline) -> IntArray:
    """The fate of each round, as an index into `FATES`."""
    stopped_by = timeline.ends.stopped_by
    failed = (timeline.stages.over & timeline.messages.fails).any(axis=0)
    fate = np.where(failed, LOST, UNHEARD)
    fate = np.where(stopped_by != NOT_STOPPED, stopped_by, fate)
    found: IntArray = np.where(np.isfinite(timeline.arrives_s), ARRIVED, fate)
    return found
