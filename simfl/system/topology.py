"""Positions of clients and edge servers, in metres, and each client's edge server."""

from __future__ import annotations

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.streams import Streams

GOLDEN_RATIO = (5.0**0.5 - 1.0) / 2.0
_PAIRS_AT_ONCE = 2**20


def square_positions(streams: Streams, component: str, count: int, side_m: float) -> FloatArray:
    """`count` points, uniform in a square with sides of `side_m` metres: shape (count, 2)."""
    entity = np.arange(count)[:, None]
    return side_m * streams.uniform(f"{component}.position", entity, np.arange(2))


def evenly_spread(streams: Streams, component: str, clients: IntArray) -> FloatArray:
    """A number in [0, 1) per client: frac(u + i * golden ratio) for client i.

    Consecutive clients always fill the interval evenly (van der Corput's property of the golden
    ratio), so that shares hold in small populations, too. u is drawn, and additional clients do not
    change the others' numbers.
    """
    place: FloatArray = (streams.uniform(component) + clients * GOLDEN_RATIO) % 1.0
    return place


def home_edge(client_count: int, edge_count: int) -> IntArray:
    """Each client's edge in equal contiguous blocks: client i -> i * edges // clients."""
    return np.arange(client_count, dtype=np.int64) * edge_count // client_count


def nearest_edge(client_positions_m: FloatArray, edge_positions_m: FloatArray) -> IntArray:
    """Each client's nearest edge (the first one in a tie): positions (n, 2), (m, 2) -> (n,)."""
    at_once = max(_PAIRS_AT_ONCE // len(edge_positions_m), 1)
    blocks = [
        ((rows[:, None, :] - edge_positions_m[None]) ** 2).sum(-1).argmin(1)
        for rows in np.split(client_positions_m, range(at_once, len(client_positions_m), at_once))
    ]
    return np.concatenate(blocks).astype(np.int64)
