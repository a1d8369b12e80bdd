"""What the servers have observed of clients and edge servers: the memory behind every view."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simfl.decisions.estimation import RunningMean
from simfl.decisions.views import AssociationView, ClientView, EdgeView
from simfl.system.world import World

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class Observations:
    """Columns over clients and edge servers, filled as uploads arrive."""

    def __init__(self, world: World, num_examples: IntArray, edge: IntArray) -> None:
        clients, edges = world.num_clients, world.num_edges
        self._world = world
        self._num_examples = num_examples
        self._edge = edge
        self._device_class = np.array([device.device_class for device in world.devices])
        self._participations = np.zeros(clients, dtype=np.int64)
        self._past_seconds, self._past_energy_j = np.zeros(clients), np.zeros(clients)
        self._last_seen_s = np.full(clients, np.nan)
        self._last_duration_s = np.full(clients, np.nan)
        self._last_energy_j = np.full(clients, np.nan)
        self._turn_estimate = RunningMean(clients)
        totals = np.bincount(edge, weights=num_examples, minlength=edges)
        self._data_share: FloatArray = totals / totals.sum()
        self._dispatches = np.zeros(edges, dtype=np.int64)
        self._last_dispatch_round = np.full(edges, -1, dtype=np.int64)
        self._last_latency_s = np.full(edges, np.nan)
        self._latency_estimate = RunningMean(edges)

    @property
    def participations(self) -> IntArray:
        """Finished turns per client."""
        return self._participations

    def turns(
        self, clients: IntArray, now_s: FloatArray, duration_s: FloatArray, energy_j: FloatArray
    ) -> None:
        """Uploads of distinct clients arrived: when, after how long, for how many joules."""
        self._participations[clients] += 1
        self._past_seconds[clients] += duration_s
        self._past_energy_j[clients] += energy_j
        self._last_seen_s[clients] = now_s
        self._last_duration_s[clients] = duration_s
        self._last_energy_j[clients] = energy_j
        self._turn_estimate.observe(clients, duration_s)

    def dispatched(self, edge: int, round_number: int) -> None:
        """The cloud has dispatched an edge server."""
        self._dispatches[edge] += 1
        self._last_dispatch_round[edge] = round_number

    def arrived(self, edge: int, latency_s: float) -> None:
        """An edge server's model reached the cloud, so long after its dispatch."""
        self._last_latency_s[edge] = latency_s
        self._latency_estimate.observe(edge, latency_s)

    def clients(self, clients: IntArray, time_s: float, round_number: int) -> ClientView:
        """The view of some clients."""
        world = self._world
        return ClientView(
            time_s=time_s,
            round=round_number,
            clients=clients,
            device_class=self._device_class[world.device_index[clients]],
            num_examples=self._num_examples[clients],
            edge=self._edge[clients],
            position_m=world.position_m[clients],
            frequency_min_hz=world.frequency_min_hz[clients],
            frequency_max_hz=world.frequency_max_hz[clients],
            battery_level=np.full(clients.size, np.nan),
            participations=self._participations[clients],
            last_seen_s=self._last_seen_s[clients],
            last_duration_s=self._last_duration_s[clients],
            last_energy_j=self._last_energy_j[clients],
            past_seconds=self._past_seconds[clients],
            past_energy_j=self._past_energy_j[clients],
            estimated_duration_s=self._turn_estimate.estimate_s()[clients],
        )

    def edges(self, time_s: float, round_number: int, idle: NDArray[np.bool_]) -> EdgeView:
        """The view of all edge servers."""
        return EdgeView(
            time_s=time_s,
            round=round_number,
            idle=idle,
            data_share=self._data_share,
            dispatches=self._dispatches.copy(),
            last_dispatch_round=self._last_dispatch_round.copy(),
            last_latency_s=self._last_latency_s.copy(),
            estimated_latency_s=self._latency_estimate.estimate_s(),
        )


def association_view(
    world: World, num_examples: IntArray, label_counts: IntArray
) -> AssociationView:
    """What is known of clients and edge servers before training."""
    return AssociationView(
        clients=np.arange(world.num_clients),
        num_examples=num_examples,
        label_counts=label_counts,
        position_m=world.position_m,
        edge_position_m=world.edge_position_m,
        home_edge=world.home_edge,
    )
