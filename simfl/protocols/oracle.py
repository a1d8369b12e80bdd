"""Mean durations of dispatches in the simulated world, for the estimator `oracle`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.protocols.deliveries import Delivered
from simfl.protocols.learned_values import LearnedValues
from simfl.protocols.plain_rounds import ASLEEP, PlainRounds
from simfl.protocols.state_ref import StateRef
from simfl.streams import Streams
from simfl.system.server_id import ServerId

DRAWS = 1024
"""Cohorts drawn for an expectation."""

DRAWS_WITH_RIVALS = 64
"""Cohorts drawn if each must be simulated over its shared channel."""

MIXTURES = 4
"""Random divisions of a server's clients into cohorts, so that each meets different rivals."""

MOST_STATES = 64
"""Sets of awake radios for which a server's expectation is kept, to bound memory."""

MOST_ROWS = 200_000
"""Client rounds drawn at once, to bound memory."""


@dataclass(frozen=True, eq=False)
class Radios:
    """Seconds since the last messages of clients, and of a server; inf: asleep."""

    of_clients: Callable[[IntArray], FloatArray]
    of_server: Callable[[ServerId], float]


class WorldExpectations:
    """Mean latencies of dispatches of `edge_rounds` rounds that begin now, at the state `ref`.

    A server's expectation is for as many clients as it dispatched last (at first, as `together`
    says), drawn at random among its members, at the frequencies that they were last given
    (`allocated`), at first the highest; radios are in their current state. For a server that keeps
    `in_flight` clients it is the mean of one of them beside the others, as if they had begun
    together. Rounds are plain training of the whole model. Other servers' clients and messages are
    left out. The oracle has its own random draws.
    """

    def __init__(
        self,
        plain_rounds: PlainRounds,
        values: LearnedValues,
        ref: StateRef,
        edge_rounds: int,
        together: Callable[[int], int],
        radios: Radios,
        in_flight: int | None,
    ) -> None:
        world = plain_rounds.world
        own = replace(world, streams=Streams(world.streams.seed("oracle")))
        self._plain_rounds = replace(plain_rounds, world=own)
        self._quiet = self._plain_rounds.quiet
        self._values = values
        self._ref = ref
        self._edge_rounds = edge_rounds
        self._together = together
        self._radios = radios
        self._in_flight = in_flight
        self._frequency_hz = world.frequency_max_hz.copy()
        self._cohort: dict[ServerId, int] = {}
        # Expectations of each server, by the set of awake radios.
        self._known_s: dict[ServerId, dict[bytes, float]] = {}
        self._each_s: dict[ServerId, dict[bytes, FloatArray]] = {}

    def allocated(self, server: ServerId, clients: IntArray, frequency_hz: FloatArray) -> None:
        """A server dispatches clients at these clocks."""
        if (
            self._cohort.get(server) == clients.size
            and (self._frequency_hz[clients] == frequency_hz).all()
        ):
            return
        self._cohort[server] = clients.size
        self._frequency_hz[clients] = frequency_hz
        self._known_s.pop(server, None)
        self._each_s.pop(server, None)

    def round_s(self, clients: IntArray, server: ServerId) -> FloatArray:
        """The mean duration of each client's round, in the cohort that it is dispatched with."""
        radio_idle_s = self._idle_s(server)
        if not self._quiet.contended:
            return self._quiet_s(clients, radio_idle_s, server)
        state, known = self._state(server, radio_idle_s), self._each_s.setdefault(server, {})
        if state not in known:
            _make_room(known)
            known[state] = self._beside_others_s(server, radio_idle_s)
        return known[state][clients]

    def latency_s(self, servers: IntArray) -> FloatArray:
        """The mean latency of a dispatch of each server, by number; NaN without clients."""
        found_s = []
        for server in map(ServerId, servers.tolist()):
            radio_idle_s, known = self._idle_s(server), self._known_s.setdefault(server, {})
            state = self._state(server, radio_idle_s)
            if state not in known:
                _make_room(known)
                known[state] = self._expected_s(server, radio_idle_s)
            found_s.append(known[state])
        return np.array(found_s)

    def _members(self, server: ServerId) -> IntArray:
        edge = self._plain_rounds.edge
        return np.flatnonzero(edge == server.number) if server.is_edge else np.arange(edge.size)

    def _size(self, server: ServerId, members: IntArray) -> int:
        """The size of a server's cohorts."""
        if not server.is_edge and self._in_flight is not None:
            return min(self._in_flight, members.size)
        return min(self._cohort.get(server, self._together(members.size)), members.size)

    def _idle_s(self, server: ServerId) -> FloatArray:
        """Idle seconds of clients' radios when their server's message begins: 0, or inf (asleep).

        An edge server first gets its own message from the cloud.
        """
        everybody = np.arange(self._plain_rounds.edge.size)
        if not self._plain_rounds.sleeps:
            return np.zeros(everybody.size)
        idle_s = self._radios.of_clients(everybody)
        if server.is_edge:
            since_s = np.array([self._radios.of_server(server)])
            idle_s = idle_s + self._quiet.backhaul_s(
                np.array([server.number]), since_s, uplink=False
            )
        asleep = idle_s > self._plain_rounds.world.messenger.client_radios.tail_s
        return np.where(asleep, ASLEEP, 0.0)

    def _state(self, server: ServerId, radio_idle_s: FloatArray) -> bytes:
        """The set of sleeping radios, on which a server's expectation depends."""
        edge_awake = not server.is_edge or not self._plain_rounds.sleeps or self._edge_awake(server)
        awake = np.isfinite(radio_idle_s[self._members(server)])
        return np.packbits(awake).tobytes() + bytes([edge_awake])

    def _edge_awake(self, server: ServerId) -> bool:
        return self._radios.of_server(server) < np.inf

    def _expected_s(self, server: ServerId, radio_idle_s: FloatArray) -> float:
        members = self._members(server)
        if not members.size:
            return float("nan")
        size = self._size(server, members)
        if self._in_flight is not None:
            return float(self._one_of_many_s(server, members, radio_idle_s))
        pause_s = self._work_s(size) if server.is_edge else 0.0
        rounds_s = self._rounds_s(members, size, radio_idle_s, pause_s, server)
        if not server.is_edge:
            return rounds_s
        return rounds_s + self._quiet.around_s(server, self._radios.of_server(server), rounds_s)

    def _rounds_s(
        self, members: IntArray, size: int, idle_s: FloatArray, pause_s: float, server: ServerId
    ) -> float:
        """The mean of all rounds in a dispatch of `size` of the members."""
        total_s, draws, chunk = 0.0, self._draws(members, size), max(1, MOST_ROWS // members.size)
        for first in range(0, draws, chunk):
            cohorts = self._cohorts(members, size, np.arange(first, min(first + chunk, draws)))
            total_s += float(
                self._plain_rounds.latency_s(
                    cohorts,
                    self._frequency_hz,
                    idle_s,
                    self._edge_rounds,
                    pause_s,
                    server,
                    first,
                ).sum()
            )
        return total_s / draws

    def _draws(self, members: IntArray, size: int) -> int:
        """The number of cohorts for an expectation."""
        if self._plain_rounds.certain and size == members.size:
            return 1
        return DRAWS_WITH_RIVALS if self._plain_rounds.contended else DRAWS

    def _cohorts(self, members: IntArray, size: int, draws: IntArray) -> IntArray:
        """For each draw `size` of the members."""
        everybody = np.broadcast_to(members, (draws.size, members.size))
        if size == members.size:
            return everybody
        lots = self._plain_rounds.world.streams.uniform(
            "cohort", everybody, np.broadcast_to(draws[:, None], everybody.shape)
        )
        return np.take_along_axis(everybody, np.argpartition(lots, size - 1, axis=1), 1)[:, :size]

    def _one_of_many_s(
        self, server: ServerId, members: IntArray, radio_idle_s: FloatArray
    ) -> float:
        """The mean round of a client beside others in flight."""
        if self._plain_rounds.contended:
            return float(self._beside_others_s(server, radio_idle_s)[members].mean())
        draws = np.arange(1 if self._plain_rounds.certain else max(1, DRAWS // members.size))
        cohorts = np.broadcast_to(members, (draws.size, members.size))
        numbers = np.broadcast_to(draws[:, None], cohorts.shape)
        about = cohorts, numbers, self._frequency_hz, radio_idle_s[cohorts]
        return float(self._plain_rounds.rounds_s(*about, server)[0].mean())

    def _beside_others_s(self, server: ServerId, radio_idle_s: FloatArray) -> FloatArray:
        """Every client's round beside randomly drawn rivals, without noise; otherwise NaN."""
        members = self._members(server)
        size = self._size(server, members)
        total_s, count = np.zeros((2, radio_idle_s.size))
        for mixture in range(1 if size == members.size else MIXTURES):
            lots = self._plain_rounds.world.streams.uniform("mixture", members, mixture)
            order = members[np.argsort(lots)]
            for first in range(0, members.size, size):
                cohort = np.sort(order[min(first, members.size - size) :][:size])
                total_s[cohort] += self._quiet_s(cohort, radio_idle_s, server)
                count[cohort] += 1
        mean_s: FloatArray = np.full(count.size, np.nan)
        mean_s[members] = total_s[members] / count[members]
        return mean_s

    def _quiet_s(self, cohort: IntArray, radio_idle_s: FloatArray, server: ServerId) -> FloatArray:
        """Each client's round in a cohort, without noise."""
        one = cohort[None]
        about = one, np.zeros_like(one), self._frequency_hz, radio_idle_s[one]
        lasts_s = self._quiet.rounds_s(*about, server)[0]
        return lasts_s.reshape(cohort.shape)

    def _work_s(self, cohort: int) -> float:
        """An edge server's own work after each round."""
        arrived = Delivered(
            np.arange(cohort),
            np.full(cohort, self._ref.version),
            np.full(cohort, self._plain_rounds.price.up_bytes),
            [],
            np.zeros(cohort),
            np.zeros(cohort, dtype=np.int64),
        )
        work = self._values.server_work(self._ref, arrived)
        if not (work.flops or work.bytes_moved):
            return 0.0
        cost = self._plain_rounds.world.aggregate("edge", work.flops, work.bytes_moved)
        return float(cost.duration_s)


def _make_room(known: dict[bytes, Any]) -> None:
    """Drops the oldest state if the limit is reached."""
    if len(known) >= MOST_STATES:
        del known[next(iter(known))]
