"""What the simulated world expects of a dispatch: the knowledge of the estimator `oracle`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.protocols.deliveries import Delivered
from simfl.protocols.learned_values import LearnedValues
from simfl.protocols.state_ref import StateRef
from simfl.streams import Streams
from simfl.system.world import World

DRAWS = 1024
"""Turns of a cohort that an expectation is the mean of."""

MOST_ROWS = 200_000
"""Clients' turns that are drawn at once, to bound memory."""


class Oracle:
    """Mean latencies of dispatches of `edge_rounds` turns, at the state `ref`.

    A server's expectation is of as many clients as it dispatched last, drawn at random among its
    members, at the clocks that they were last given (`allocated`); at first of all of them at the
    highest. Turns are plain training of the whole model, and radios are awake: how long they will
    have slept depends on the schedule that is asking. The draws are the oracle's own.
    """

    def __init__(
        self,
        world: World,
        values: LearnedValues,
        num_examples: IntArray,
        edge: IntArray,
        ref: StateRef,
        edge_rounds: int,
    ) -> None:
        self._world = replace(world, streams=Streams(world.streams.seed("oracle")))
        self._quiet = world.without_noise
        self._values = values
        self._examples = values.examples(num_examples, ref.version)
        self._price = values.tier_price(ref)
        self._edge = edge
        self._ref = ref
        self._edge_rounds = edge_rounds
        self._frequency_hz = world.frequency_max_hz.copy()
        self._cohort: dict[int, int] = {}
        self._known_s: dict[int, float] = {}

    def allocated(self, server: int, clients: IntArray, frequency_hz: FloatArray) -> None:
        """A server (-1: the flat one) dispatches clients at these clocks."""
        if (
            self._cohort.get(server) == clients.size
            and (self._frequency_hz[clients] == frequency_hz).all()
        ):
            return
        self._cohort[server] = clients.size
        self._frequency_hz[clients] = frequency_hz
        self._known_s.pop(server, None)

    def turn_s(self, clients: IntArray) -> FloatArray:
        """The mean duration of each client's turn."""
        return self._turns_s(self._quiet, clients, np.zeros_like(clients))

    def latency_s(self, servers: IntArray) -> FloatArray:
        """The mean latency of a dispatch of each server (-1: the flat one); NaN without clients."""
        for server in servers.tolist():
            if server not in self._known_s:
                self._known_s[server] = self._expected_s(server)
        return np.array([self._known_s[server] for server in servers.tolist()])

    def _expected_s(self, server: int) -> float:
        flat = server < 0
        members = np.arange(self._edge.size) if flat else np.flatnonzero(self._edge == server)
        if not members.size:
            return float("nan")
        cohort = min(self._cohort.get(server, members.size), members.size)
        round_s = self._longest_s(members, cohort)
        return round_s if flat else self._around_s(server, cohort) + self._edge_rounds * round_s

    def _longest_s(self, members: IntArray, cohort: int) -> float:
        """The mean of the longest turn among `cohort` of the members."""
        total_s, chunk = 0.0, max(1, MOST_ROWS // members.size)
        for first in range(0, DRAWS, chunk):
            draws = np.arange(first, min(first + chunk, DRAWS))
            clients = np.broadcast_to(members, (draws.size, members.size))
            numbers = np.broadcast_to(draws[:, None], clients.shape)
            turn_s = self._turns_s(self._world, clients.ravel(), numbers.ravel())
            turn_s = turn_s.reshape(clients.shape)
            if cohort < members.size:
                lots = self._world.streams.uniform("cohort", clients, numbers)
                drawn = np.argpartition(lots, cohort - 1, axis=1)[:, :cohort]
                turn_s = np.take_along_axis(turn_s, drawn, axis=1)
            total_s += float(turn_s.max(axis=1).sum())
        return total_s / DRAWS

    def _around_s(self, edge: int, cohort: int) -> float:
        """An edge server's own work in all rounds, and its messages to and from the cloud."""
        arrived = Delivered(
            np.arange(cohort),
            np.full(cohort, self._ref.version),
            np.full(cohort, self._price.up_bytes),
            [],
        )
        work = self._values.server_work(self._ref, arrived)
        around_s = 0.0
        if work.flops or work.bytes_moved:
            once_s = self._world.aggregate("edge", work.flops, work.bytes_moved).duration_s
            around_s += self._edge_rounds * float(once_s)
        for size, uplink in ((self._price.down_bytes, False), (self._price.up_bytes, True)):
            if size:
                around_s += float(
                    self._quiet.backhaul_transfer(edge, 0, size, uplink).duration_s[0]
                )
        return around_s

    def _turns_s(self, world: World, clients: IntArray, numbers: IntArray) -> FloatArray:
        """Durations of turns in `world`, which may be without noise."""
        plan = world.plan_rounds(
            clients,
            numbers,
            self._examples[clients],
            self._values.forward_flops,
            self._price.down_bytes,
            self._price.up_bytes,
            self._frequency_hz[clients],
        )
        return plan.download_s + plan.compute_s + plan.upload_s
