"""The radio paths of transfers: sender, receiver, and the random draws of the path."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.streams import Streams


@dataclass(frozen=True, eq=False)
class RadioPaths:
    """Transfers of one direction between clients and access points, one column entry each.

    Positions in metres, shape (n, 2), are those of all clients and of all access points; `clients`
    and `access_points` are indices into them. With `fades` False, the channel is at its mean. Every
    draw has an address: that of a path is (client, access point), the same up and down; that of a
    transfer is (direction, client, round). So draws do not depend on other senders or on the link.
    """

    streams: Streams
    uplink: bool
    clients: IntArray
    access_points: IntArray
    rounds: IntArray
    position_m: FloatArray
    access_point_m: FloatArray
    fades: bool = True

    def of(self, rows: IntArray) -> RadioPaths:
        """Some of the transfers."""
        return replace(
            self,
            clients=self.clients[rows],
            access_points=self.access_points[rows],
            rounds=self.rounds[rows],
        )

    @property
    def distance_m(self) -> FloatArray:
        """Horizontal distance between client and access point."""
        apart_m = self.position_m[self.clients] - self.access_point_m[self.access_points]
        distance: FloatArray = np.hypot(*apart_m.T)
        return distance

    def normal(self, component: str) -> FloatArray:
        """A standard normal draw per path, the same in every round and direction."""
        return self.streams.normal(f"access.{component}", self.clients, self.access_points)

    def uniform(self, component: str) -> FloatArray:
        """A uniform draw per path, the same in every round and direction."""
        return self.streams.uniform(f"access.{component}", self.clients, self.access_points)

    def fading(self, blocks: int) -> FloatArray:
        """Power gains with mean 1 of a transfer's Rayleigh fading blocks: (transfers, blocks)."""
        if not self.fades or blocks == 0:
            return np.ones((len(self.clients), 1))
        counter = self.rounds[:, None] * blocks + np.arange(blocks)
        component = f"access.{'up' if self.uplink else 'down'}.fading"
        return self.streams.exponential(component, self.clients[:, None], counter)
