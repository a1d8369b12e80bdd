"""Choosing the clocks of the clients that are dispatched."""

from __future__ import annotations

from functools import partial

import numpy as np

from simfl.common.amounts import one_or_each
from simfl.common.arrays import FloatArray, IntArray
from simfl.common.contract import at_work
from simfl.decisions.base import Allocation
from simfl.protocols.observations import Observations
from simfl.protocols.setting import Setting
from simfl.system.server_id import ServerId


class Allocating:
    """Drives the allocation rule."""

    def __init__(
        self, allocation: Allocation, observations: Observations, setting: Setting
    ) -> None:
        self._allocation = allocation
        self._observations = observations
        self._setting = setting
        # Counted per server, so that simultaneous edge servers draw the same in any order.
        self._count: dict[ServerId, int] = {}

    def frequency_hz(
        self, clients: IntArray, work: FloatArray, round_number: int, server: ServerId
    ) -> FloatArray:
        """The clock of each client in the round that begins now, within its range.

        `work` multiplies its cycles of plain training.
        """
        setting = self._setting
        view = self._observations.clients(clients, setting.clock.now_s, round_number, server)
        view = view.instead("cycles", partial(np.multiply, view.cycles, work))
        count = self._count.get(server, 0)
        self._count[server] = count + 1
        rng = setting.streams.generator("allocation", server.stream, count)
        with at_work(self._allocation, "decide"):
            given = self._allocation.decide(view, rng)
        wanted_hz = one_or_each(given, clients.shape, self._allocation, "decide")
        frequency_hz = setting.world.round_frequency(clients, wanted_hz)
        self._observations.allocated(server, clients, frequency_hz)
        return frequency_hz
