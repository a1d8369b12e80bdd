"""The servers' observations of clients and edge servers, from which views are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.decisions.base import Estimator
from simfl.decisions.latencies import Latencies
from simfl.decisions.views import AssociationView, ClientView, EdgeView
from simfl.protocols.expectations import Expectations, unknown
from simfl.protocols.fates import Fates
from simfl.protocols.oracle import WorldExpectations
from simfl.system.presence import Presence
from simfl.system.server_id import ServerId
from simfl.system.world import World


@dataclass(frozen=True)
class ClientReports:
    """Rounds of distinct clients: arrival of each upload, duration and joules.

    `active_j` are those above idle power.
    """

    clients: IntArray
    uploaded_s: FloatArray
    duration_s: FloatArray
    energy_j: FloatArray
    active_j: FloatArray

    def take(self, which: BoolArray) -> ClientReports:
        """The rounds of a mask."""
        return ClientReports(
            self.clients[which],
            self.uploaded_s[which],
            self.duration_s[which],
            self.energy_j[which],
            self.active_j[which],
        )


@dataclass(frozen=True, eq=False)
class _OfClients:
    """The observations of each client, as in views: one entry each; NaN: not observed yet."""

    num_examples: IntArray
    edge: IntArray
    participations: IntArray
    past_seconds: FloatArray
    past_energy_j: FloatArray
    last_seen_s: FloatArray
    last_duration_s: FloatArray
    last_energy_j: FloatArray
    last_loss: FloatArray

    @classmethod
    def unseen(cls, num_examples: IntArray, edge: IntArray) -> _OfClients:
        """The columns before any client has taken part."""
        none = np.zeros(edge.size, dtype=np.int64)
        return cls(
            num_examples, edge, none, *np.zeros((2, edge.size)), *np.full((4, edge.size), np.nan)
        )

    def finished(self, reports: ClientReports) -> None:
        """Takes in finished rounds."""
        clients = reports.clients
        self.participations[clients] += 1
        self.past_seconds[clients] += reports.duration_s
        self.past_energy_j[clients] += reports.energy_j
        self.last_seen_s[clients] = reports.uploaded_s
        self.last_duration_s[clients] = reports.duration_s
        self.last_energy_j[clients] = reports.energy_j


@dataclass(frozen=True, eq=False)
class _OfEdges:
    """The observations of each edge server, one entry each.

    Its share of all training examples, number of dispatches, round of the last one (-1: never) and
    its latency (NaN: never). The latency has one more entry, by `ServerId.number`: the last is the
    cloud's, for protocols without edge servers.
    """

    data_share: FloatArray
    dispatches: IntArray
    last_dispatch_round: IntArray
    last_latency_s: FloatArray


class _OnTheirWay:
    """Uploads of closed rounds, and the counts of dropped ones (`Observations`)."""

    def __init__(self, clients: int, fates: Fates) -> None:
        self._fates = fates
        self.dropped: IntArray = np.zeros(clients, dtype=np.int64)
        self.dropped_late = 0
        self._waiting: list[tuple[ClientReports, bool]] = []

    def add(self, reports: ClientReports, *, dropped: bool) -> None:
        """Adds uploads that will arrive, and whether they are dropped then."""
        self._waiting.append((reports, dropped))

    def drop(self, clients: IntArray, active_j: FloatArray, rounds: IntArray | None) -> None:
        """Finished rounds, whose updates are dropped."""
        np.add.at(self.dropped, clients, 1)
        self._fates.drop(clients, active_j, rounds)

    def arrived(self, now_s: float) -> list[tuple[ClientReports, bool]]:
        """Uploads that have arrived since the last call, and whether they are dropped."""
        found: list[tuple[ClientReports, bool]] = []
        waiting = []
        for reports, dropped in self._waiting:
            there = reports.uploaded_s <= now_s
            if there.any():
                found.append((reports.take(there), dropped))
            if not there.all():
                waiting.append((reports.take(~there), dropped))
        self._waiting = waiting
        return found


class Observations:
    """Columns over clients and edge servers, updated as uploads arrive."""

    def __init__(
        self,
        world: World,
        num_examples: IntArray,
        edge: IntArray,
        estimator: Estimator,
        presence: Presence,
        fates: Fates,
    ) -> None:
        clients, edges = world.num_clients, world.num_edges
        self._world = world
        self._presence = presence
        self._device_class = np.array([device.device_class for device in world.devices])
        self.needs_world = estimator.needs_world
        self._clients = _OfClients.unseen(num_examples, edge)
        self._changes = 0
        self._expected = unknown(clients, edges)
        self._oracle: WorldExpectations | None = None
        self._rounds = Latencies(estimator, clients)
        totals = np.bincount(edge, weights=num_examples, minlength=edges)
        self._edges = _OfEdges(
            totals / totals.sum(),
            np.zeros(edges, dtype=np.int64),
            np.full(edges, -1, dtype=np.int64),
            np.full(edges + 1, np.nan),
        )
        self._latencies = Latencies(estimator, edges + 1)
        self._on_their_way = _OnTheirWay(clients, fates)

    @property
    def participations(self) -> IntArray:
        """Finished rounds per client."""
        return self._clients.participations

    @property
    def dropped(self) -> IntArray:
        """Of these, rounds whose update came too late, or whose round was given up."""
        return self._on_their_way.dropped

    @property
    def dropped_late(self) -> int:
        """How many came too late."""
        return self._on_their_way.dropped_late

    @property
    def data_share(self) -> FloatArray:
        """Each edge server's share of all training examples."""
        return self._edges.data_share

    @property
    def expects(self) -> bool:
        """Whether there were expectations before the first observation."""
        return self._expected.known

    def expect(self, expected: Expectations) -> None:
        """Takes in the expectations before any observation."""
        self._changes += 1
        self._expected = expected

    def consult(self, oracle: WorldExpectations) -> None:
        """Uses the simulated world's expectations from now on."""
        self._changes += 1
        self._oracle = oracle

    def allocated(self, server: ServerId, clients: IntArray, frequency_hz: FloatArray) -> None:
        """A server dispatches clients at these frequencies."""
        if self._oracle is not None:
            self._oracle.allocated(server, clients, frequency_hz)

    def finished(self, reports: ClientReports) -> None:
        """Uploads arrived."""
        self._changes += 1
        clients, duration_s = reports.clients, reports.duration_s
        self._rounds.observe(clients, duration_s, self._registered_s(clients))
        self._clients.finished(reports)

    def will_finish(self, reports: ClientReports, *, dropped: bool) -> None:
        """Uploads of closed rounds are on their way; each is observed when it arrives.

        `dropped` ones are then counted as dropped, too.
        """
        self._on_their_way.add(reports, dropped=dropped)

    def take_in(self, now_s: float) -> None:
        """Takes in those that have arrived by now."""
        for reports, dropped in self._on_their_way.arrived(now_s):
            self.finished(reports)
            if dropped:
                self.drop(reports.clients, reports.active_j)
                self._on_their_way.dropped_late += reports.clients.size

    def drop(self, clients: IntArray, active_j: FloatArray, rounds: IntArray | None = None) -> None:
        """Finished rounds, whose updates are dropped; `rounds` as for `Fates.drop`."""
        self._on_their_way.drop(clients, active_j, rounds)

    def losses(self, clients: IntArray, loss: FloatArray) -> None:
        """Clients have reported the mean loss on their data of the model that they received."""
        self._changes += 1
        self._clients.last_loss[clients] = loss

    def dispatched(self, edge: int, round_number: int) -> None:
        """The cloud has dispatched an edge server."""
        self._changes += 1
        self._edges.dispatches[edge] += 1
        self._edges.last_dispatch_round[edge] = round_number

    def arrived(self, server: ServerId, latency_s: float) -> None:
        """A server's model has arrived, `latency_s` after its dispatch."""
        which = np.array([server.number])
        self._changes += 1
        self._latencies.observe(which, np.array([latency_s]), self._latency_prior_s(which))
        self._edges.last_latency_s[server.number] = latency_s

    def batteries_stay_empty(self, now_s: float) -> int:
        """Clients whose batteries will not be charged enough to take part again."""
        clients = np.arange(self.participations.size)
        return int(self._presence.stays_empty(clients, now_s).sum())

    def clients(
        self, clients: IntArray, time_s: float, round_number: int, server: ServerId
    ) -> ClientView:
        """The view of some clients, by the server that would dispatch them."""
        self.take_in(time_s)
        world, expected, rounds = self._world, self._expected, self._rounds
        columns: dict[str, Callable[[], NDArray[Any]]] = {
            "device_class": lambda: self._device_class[world.device_index[clients]],
            "position_m": lambda: world.position_m[clients],
            "frequency_min_hz": lambda: world.frequency_min_hz[clients],
            "frequency_max_hz": lambda: world.frequency_max_hz[clients],
            "battery_level": lambda: self._presence.level(clients),
            "estimated_duration_s": lambda: rounds.estimate_s(
                clients, self._round_prior_s(clients, server)
            ),
            "cycles": lambda: expected.edge_rounds * expected.cycles[clients],
            "transfer_s": lambda: (
                expected.edge_rounds * expected.transfer_s[clients]
                + expected.backhaul_s[server.number]
            ),
            "edge_latency_s": lambda: np.repeat(self._latency_s(server), clients.size),
            "kappa": lambda: world.power_law[0][clients],
            "power_static_w": lambda: world.power_law[1][clients],
        }
        for field in fields(_OfClients):
            columns[field.name] = partial(self._own, field.name, clients)
        known = self._changes
        return ClientView.deferred(
            time_s,
            round_number,
            clients.copy(),  # the policy may change its view
            {name: partial(self._column, known, make) for name, make in columns.items()},
        )

    def _own(self, name: str, clients: IntArray) -> NDArray[Any]:
        column: NDArray[Any] = getattr(self._clients, name)[clients]
        return column

    def _column(self, known: int, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """A column as of the time of the view: raises if anything was observed since."""
        if self._changes != known:
            raise RuntimeError("a view's columns must be read during the decision, not later")
        return make()

    def _latency_s(self, server: ServerId) -> FloatArray:
        which = np.array([server.number])
        return self._latencies.estimate_s(which, self._latency_prior_s(which))

    def edges(self, time_s: float, round_number: int, idle: BoolArray) -> EdgeView:
        """The view of all edge servers."""
        which = np.arange(idle.size)
        estimate_s = self._latencies.estimate_s(which, self._latency_prior_s(which))
        known = self._edges
        return EdgeView(
            time_s=time_s,
            round=round_number,
            idle=idle,
            data_share=known.data_share.copy(),
            dispatches=known.dispatches.copy(),
            last_dispatch_round=known.last_dispatch_round.copy(),
            last_latency_s=known.last_latency_s[:-1].copy(),
            estimated_latency_s=np.where(known.data_share > 0, estimate_s, np.nan),
        )

    def posterior(self) -> dict[str, FloatArray]:
        """The estimator's further posterior parameters of the edge servers' latencies."""
        which = np.arange(self._edges.data_share.size)
        return self._latencies.posterior(which, self._latency_prior_s(which))

    def _round_prior_s(self, clients: IntArray, server: ServerId) -> FloatArray:
        """The prior of an unobserved client that this server would dispatch."""
        if self._oracle is not None:
            return self._oracle.round_s(clients, server)
        return self._registered_s(clients)

    def _registered_s(self, clients: IntArray) -> FloatArray:
        """The duration by registered hardware, otherwise the mean of all rounds."""
        promised_s = self._expected.round_s[clients]
        return np.where(np.isnan(promised_s), self._rounds.mean_s, promised_s)

    def _latency_prior_s(self, servers: IntArray) -> FloatArray:
        """The prior of an unobserved server: the mean of the others, or by registered hardware."""
        if self._oracle is not None:
            return self._oracle.latency_s(servers)
        mean_s = self._latencies.mean_s
        return np.where(np.isnan(mean_s), self._expected.latency_s[servers], mean_s)


def association_view(
    world: World, num_examples: IntArray, label_counts: IntArray
) -> AssociationView:
    """The view of clients and edge servers before training."""
    return AssociationView(
        clients=np.arange(world.num_clients),
        num_examples=_to_read(num_examples),
        label_counts=_to_read(label_counts),
        position_m=_to_read(world.position_m),
        edge_position_m=_to_read(world.edge_position_m),
        home_edge=_to_read(world.home_edge),
    )


def _to_read(column: NDArray[Any]) -> NDArray[Any]:
    """The same column, read-only."""
    view = column.view()
    view.flags.writeable = False
    return view
