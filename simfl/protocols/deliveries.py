"""Delivered updates, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.learning.trainer import Future


@dataclass(frozen=True)
class Delivered:
    """Updates that have arrived, one entry per column each.

    `versions`: the server version that each job started from; `up_bytes`: the message size before
    the codec; `futures`: the updates themselves, empty in a timing-only run; `active_j`: joules
    above idle power of the rounds that made them; `rounds`: how many their clients had begun before
    these.
    """

    clients: IntArray
    versions: IntArray
    up_bytes: IntArray
    futures: Sequence[Future]
    active_j: FloatArray
    rounds: IntArray

    def staleness(self, version: int) -> IntArray:
        """The number of versions that each update is behind `version`."""
        return version - self.versions

    @property
    def distinct_clients(self) -> int:
        """The number of different clients; a late client may have two updates."""
        return np.unique(self.clients).size

    def take(self, which: BoolArray | IntArray) -> Delivered:
        """The updates selected by a mask, or by places in order."""
        places = np.arange(self.clients.size)[which].tolist() if self.futures else []
        futures = [self.futures[place] for place in places]
        return Delivered(
            self.clients[which],
            self.versions[which],
            self.up_bytes[which],
            futures,
            self.active_j[which],
            self.rounds[which],
        )

    @staticmethod
    def of_servers(servers: IntArray, versions: IntArray, up_bytes: IntArray) -> Delivered:
        """Models of edge servers, which no client round made."""
        none = np.zeros(servers.size, dtype=np.int64)
        return Delivered(servers, versions, up_bytes, [], none.astype(float), none)

    @staticmethod
    def join(several: Sequence[Delivered]) -> Delivered:
        """Several deliveries joined, in their order."""
        return Delivered(
            np.concatenate([one.clients for one in several]),
            np.concatenate([one.versions for one in several]),
            np.concatenate([one.up_bytes for one in several]),
            [future for one in several for future in one.futures],
            np.concatenate([one.active_j for one in several]),
            np.concatenate([one.rounds for one in several]),
        )
