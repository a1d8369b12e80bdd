"""Drives the allocation rules: the CPU frequencies of dispatched clients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from simfl.common.amounts import one_or_each
from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.common.contract import at_work
from simfl.common.notices import Notice, notice
from simfl.decisions.base import Allocation
from simfl.protocols.deciders import AllocationByGroup, Deciders
from simfl.protocols.observations import Observations
from simfl.protocols.setting import Setting
from simfl.system.grouping import by_value
from simfl.system.provenance import profile_of
from simfl.system.server_id import ServerId
from simfl.system.world import World

ROUNDING = 1e-9
"""Frequencies that differ by less than this share count as equal."""


@dataclass(frozen=True, eq=False)
class _Dispatch:
    """The decisions of one dispatch of a server: Hz per client, NaN if not decided yet."""

    round_number: int
    wanted_hz: FloatArray


class Allocating:
    """Drives the allocation rules; each one decides for its own clients only."""

    def __init__(self, deciders: Deciders, observations: Observations, setting: Setting) -> None:
        self._observations = observations
        self._setting = setting
        self._rules = [_Rule(deciders.allocation, "allocation", observations, setting)]
        # The index of each client's rule.
        self._rule_of: IntArray = np.zeros(setting.world.num_clients, dtype=np.int64)
        own = deciders.allocation_by_group or AllocationByGroup({}, self._rule_of)
        for group, rule in own.rules.items():
            self._rule_of[own.group == group] = len(self._rules)
            name = f"allocation.groups.{group}"
            self._rules.append(_Rule(rule, name, observations, setting))
        self._too_slow = np.zeros(setting.world.num_clients, dtype=bool)
        self._first_too_slow_s: float | None = None
        self._measured_hz = _measured_clocks(setting.world)
        self._unmeasured = np.zeros(setting.world.num_clients, dtype=bool)

    @property
    def warnings(self) -> list[Notice]:
        """Warnings of frequencies below a client's lowest, or outside the calibrated ones."""
        return [*self._out_of_range(), *self._not_measured()]

    def _not_measured(self) -> Iterator[Notice]:
        clients = np.flatnonzero(self._unmeasured)
        if clients.size:
            message = (
                f"{clients.size} of {self._setting.world.num_clients} clients computed at"
                " frequencies that their devices' profiles were not calibrated for"
            )
            yield notice("beyond_calibration", message, clients.size)

    def _out_of_range(self) -> list[Notice]:
        clients = np.flatnonzero(self._too_slow)
        if not clients.size:
            return []
        world = self._setting.world
        lowest_hz = world.frequency_min_hz[clients]
        device = world.devices[world.device_index[clients[int(np.argmax(lowest_hz))]]]
        message = (
            f"{clients.size} of {world.num_clients} clients should have run below their lowest"
            f" frequency, and ran at it instead (up to {lowest_hz.max() / 1e9:.3g} GHz,"
            f" {device.name})"
        )
        return [notice("clocks_out_of_range", message, clients.size, self._first_too_slow_s)]

    def frequency_hz(
        self, clients: IntArray, work: FloatArray, round_number: int, server: ServerId
    ) -> FloatArray:
        """The frequency of each client in the round that begins now, within its range.

        `work` multiplies its cycles of plain training, fixed times included.
        """
        if len(self._rules) == 1:
            (rule,) = self._rules
            frequency_hz, too_slow = rule.frequency_hz(clients, work, round_number, server)
        else:
            frequency_hz, too_slow = np.empty(clients.size), np.empty(clients.size, dtype=bool)
            for number, own in by_value(self._rule_of[clients]):
                frequency_hz[own], too_slow[own] = self._rules[number].frequency_hz(
                    clients[own], work[own], round_number, server
                )
        if too_slow.any():
            self._too_slow[clients[too_slow]] = True
            if self._first_too_slow_s is None:
                self._first_too_slow_s = self._setting.clock.now_s
        if self._measured_hz is not None:
            low, high = self._measured_hz[:, clients]
            beyond = (frequency_hz < low * (1 - ROUNDING)) | (frequency_hz > high * (1 + ROUNDING))
            self._unmeasured[clients[beyond]] = True
        self._observations.allocated(server, clients, frequency_hz)
        return frequency_hz


class _Rule:
    """One rule, and its decisions so far; draws are those of `component`."""

    def __init__(
        self, allocation: Allocation, component: str, observations: Observations, setting: Setting
    ) -> None:
        self._allocation = allocation
        self._component = component
        self._observations = observations
        self._setting = setting
        # Counted per server, so that the draws of simultaneous edge servers do not depend on their
        # order.
        self._count: dict[ServerId, int] = {}
        self._dispatch: dict[ServerId, _Dispatch] = {}

    def frequency_hz(
        self, clients: IntArray, work: FloatArray, round_number: int, server: ServerId
    ) -> tuple[FloatArray, BoolArray]:
        """The frequency of each client, and whether the rule wanted one below its range."""
        world = self._setting.world
        if self._allocation.once_per_dispatch and server.is_edge:
            wanted_hz = self._kept_hz(clients, work, round_number, server)
        else:
            wanted_hz = self._decided_hz(clients, work, round_number, server)
        too_slow = wanted_hz < world.frequency_min_hz[clients] * (1.0 - ROUNDING)
        frequency_hz = world.round_frequency(clients, wanted_hz, at_most=self._allocation.at_most)
        return frequency_hz, too_slow

    def _kept_hz(
        self, clients: IntArray, work: FloatArray, round_number: int, server: ServerId
    ) -> FloatArray:
        """As decided in each client's first round of the dispatch."""
        kept = self._dispatch.get(server)
        if kept is None or kept.round_number != round_number:
            kept = _Dispatch(round_number, np.full(self._setting.world.num_clients, np.nan))
            self._dispatch[server] = kept
        new = np.isnan(kept.wanted_hz[clients])
        if new.any():
            joined = clients[new]
            kept.wanted_hz[joined] = self._decided_hz(joined, work[new], round_number, server)
        wanted_hz: FloatArray = kept.wanted_hz[clients]
        return wanted_hz

    def _decided_hz(
        self, clients: IntArray, work: FloatArray, round_number: int, server: ServerId
    ) -> FloatArray:
        """The rule's current decision."""
        setting = self._setting
        view = self._observations.clients(clients, setting.clock.now_s, round_number, server)
        view = view.instead("cycles", partial(np.multiply, view.cycles, work))
        count = self._count.get(server, 0)
        self._count[server] = count + 1
        rng = setting.streams.generator(self._component, server.stream, count)
        with at_work(self._allocation, "decide"):
            given = self._allocation.decide(view, rng)
        return one_or_each(given, clients.shape, self._allocation, "decide")


def _measured_clocks(world: World) -> FloatArray | None:
    """The lowest and highest calibrated frequency of each client's profile: (2, clients).

    No limits for devices that were not calibrated; None if none was.
    """
    profiles = {one.name: one for one in world.profiles if one.kind == "device"}
    if not any(one.calibrated for one in profiles.values()):
        return None
    clocks = []
    for device in world.devices:
        profile = profiles.get(profile_of(device.name, profiles))
        if profile is None or profile.calibrated is None:
            clocks.append((0.0, np.inf))
            continue
        # Not the device's: that of a mode may be lower.
        top_hz = float(profile.values["processor"]["frequency_max_hz"])
        clocks.append(profile.calibrated.clock_hz or (top_hz, top_hz))
    return np.array(clocks).T[:, world.device_index]
