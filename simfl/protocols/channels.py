"""The shared channels of a world."""

from __future__ import annotations

import simpy

from simfl.system.sharing.base import Sharing
from simfl.system.sharing.medium import Draw, Medium

Place = tuple[int, ...]
"""An access point and what is in the air there; () is the one backhaul."""


class Channels:
    """One channel per place, and per direction unless both share one.

    `draw` is told the watts of radios, as `Medium` says.
    """

    def __init__(self, sharing: Sharing, env: simpy.Environment, draw: Draw | None = None) -> None:
        self._sharing = sharing
        self._env = env
        self._draw = draw
        self._channels: dict[tuple[Place, bool], Medium] = {}

    def of(self, place: Place, uplink: bool) -> Medium:
        """The channel of a place."""
        key = () if self._sharing.spans_points else place, uplink or self._sharing.half_duplex
        if key not in self._channels:
            self._channels[key] = Medium(self._env, self._sharing, self._draw)
        return self._channels[key]
