"""Views for tests of decisions: a column at a time, everything else as if nothing was observed."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from simfl.decisions.views import AssociationView, ClientView, EdgeView


def association_view(label_counts: Any, home_edge: Any, **columns: Any) -> AssociationView:
    """Clients with these label counts on these edge servers, all in one place."""
    counts, home = np.asarray(label_counts), np.asarray(home_edge)
    defaults = {
        "clients": np.arange(home.size),
        "num_examples": counts.sum(axis=1),
        "label_counts": counts,
        "position_m": np.zeros((home.size, 2)),
        "edge_position_m": np.zeros((int(home.max()) + 1, 2)),
        "home_edge": home,
    }
    return AssociationView(**{**defaults, **columns})


def edge_non_iid(seed: int, labels_per_client: int = 2) -> AssociationView:
    """FedCure's start: 50 clients on 5 edge servers, each with 2 of 10 labels of its own."""
    labels = np.random.default_rng(seed).permutation(10)
    counts = np.zeros((50, 10), dtype=np.int64)
    for client in range(50):
        owned = labels[2 * (client // 10) :][:2]
        if labels_per_client == 2:
            counts[client, owned] = 60
        else:
            counts[client, owned[client % 2]] = 120
    return association_view(counts, np.repeat(np.arange(5), 10))


def edge_view(estimated_latency_s: Any, **columns: Any) -> EdgeView:
    """Idle edge servers of equal data that were dispatched in round 0."""
    latency_s = np.asarray(estimated_latency_s, dtype=float)
    edges = latency_s.size
    defaults = {
        "time_s": 0.0,
        "round": 1,
        "idle": np.ones(edges, dtype=bool),
        "data_share": np.full(edges, 1.0 / edges),
        "dispatches": np.ones(edges, dtype=np.int64),
        "last_dispatch_round": np.zeros(edges, dtype=np.int64),
        "last_latency_s": latency_s,
        "estimated_latency_s": latency_s,
    }
    return EdgeView(**{**defaults, **columns})


def client_view(clients: Any, **columns: Any) -> ClientView:
    """Clients of whom nothing has been observed."""
    numbers = np.asarray(clients, dtype=np.int64)
    floats = {
        one.name: np.full(numbers.size, np.nan)
        for one in dataclasses.fields(ClientView)
        if one.type == "FloatArray"
    }
    defaults = {
        **floats,
        "time_s": 0.0,
        "round": 0,
        "clients": numbers,
        "device_class": np.full(numbers.size, "test"),
        "num_examples": np.full(numbers.size, 10),
        "edge": np.zeros(numbers.size, dtype=np.int64),
        "position_m": np.zeros((numbers.size, 2)),
        "participations": np.zeros(numbers.size, dtype=np.int64),
        "past_seconds": np.zeros(numbers.size),
        "past_energy_j": np.zeros(numbers.size),
        "frequency_min_hz": np.full(numbers.size, 1e8),
        "frequency_max_hz": np.full(numbers.size, 3e9),
    }
    return ClientView(**{**defaults, **columns})
