"""Charging of batteries: by a charger at certain hours, and by harvesting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from simfl.common.arrays import IntArray
from simfl.common.time_of_day import TIME_OF_DAY
from simfl.streams import Streams
from simfl.system.battery import Batteries, Supply
from simfl.system.device import Device
from simfl.system.grouping import by_value
from simfl.system.series import StepSeries

DAY_S = 86_400.0


@dataclass(frozen=True)
class Charging:
    """A charger of `charge_w` from `plug_in_s` to `unplug_s` of every day, and a harvest.

    Hours are shifted for each client by a normal draw. `harvest_w` are [seconds after midnight,
    watts] pairs, each valid until the next one (a solar panel's day, for example); `harvest_spread`
    is the sigma of a lognormal factor with mean 1 between clients. A harvest charges a battery, but
    does not count as being plugged in.
    """

    charge_w: Annotated[float, ">= 0", "power of the charger while it is plugged in"] = 5.0
    plug_in_s: Annotated[
        float, TIME_OF_DAY, ">= 0", "< 86400", "time of day, or seconds after midnight"
    ] = 79_200.0
    unplug_s: Annotated[
        float, TIME_OF_DAY, ">= 0", "< 86400", "time of day, or seconds after midnight"
    ] = 25_200.0
    hours_spread_s: Annotated[float, ">= 0", "standard deviation between clients"] = 3600.0
    harvest_w: Annotated[tuple[tuple[float, float], ...], "pairs of time and watts"] = ()
    harvest_spread: Annotated[float, ">= 0", "<= 10", "between clients"] = 0.0
    initial: Annotated[tuple[float, float], ">= 0", "<= 1", "level at time 0, low and high"] = (
        0.5,
        1.0,
    )
    lowest: Annotated[
        float, "> 0", "<= 1", "least level to take part with (unless plugged in), and to restart at"
    ] = 0.2

    def __post_init__(self) -> None:
        if self.plug_in_s == self.unplug_s:
            raise ValueError("unplug_s: equals plug_in_s; a charge_w of 0 means no charger")
        if self.initial[0] > self.initial[1]:
            raise ValueError(f"initial: found {list(self.initial)}, accepted: low <= high")
        if self.harvest_w:
            try:
                self._harvest()
            except ValueError as error:
                raise ValueError(f"harvest_w: {error}") from error

    def build(
        self,
        devices: Sequence[Device],
        device_index: Sequence[int] | IntArray,
        streams: Streams,
        start_s: float = 0.0,
    ) -> Batteries:
        """The batteries of clients with devices `devices[device_index]`, randomly charged.

        Simulated time 0 is `start_s` seconds after midnight.
        """
        capacity_j = np.array([device.battery_j or np.inf for device in devices])[device_index]
        client = np.arange(len(capacity_j))
        low, high = self.initial
        level = low + (high - low) * streams.uniform("battery.initial", client)
        shift_s = start_s + self.hours_spread_s * streams.normal("battery.hours", client)
        supplies = [Supply(self._charger(), np.ones(client.size), shift_s)]
        if self.harvest_w:
            scale = streams.lognormal(self.harvest_spread, "battery.harvest", client)
            start = np.full(client.size, start_s)
            supplies.append(Supply(self._harvest(), scale, start, charger=False))
        mains = np.isinf(capacity_j)
        charge_j = np.where(mains, 0.0, level * np.where(mains, 0.0, capacity_j))
        return Batteries(capacity_j, charge_j, supplies, self.lowest)

    def _charger(self) -> StepSeries:
        plug_in, unplug = self.plug_in_s, self.unplug_s
        if plug_in < unplug:
            steps = [(0.0, 0.0), (plug_in, self.charge_w), (unplug, 0.0)]
        else:
            steps = [(0.0, self.charge_w), (unplug, 0.0), (plug_in, self.charge_w)]
        by_time = dict(steps)  # at midnight, the later step counts
        return StepSeries(list(by_time), list(by_time.values()), DAY_S)

    def _harvest(self) -> StepSeries:
        times_s, watts = zip(*self.harvest_w, strict=True)
        if min(watts) < 0:
            raise ValueError(f"found {min(watts):g} W, accepted: >= 0")
        return StepSeries(times_s, watts, DAY_S)


def batteries_by_group(
    charging: Sequence[Charging | None],
    group: IntArray,
    devices: Sequence[Device],
    device_index: IntArray,
    streams: Streams,
    start_s: float = 0.0,
) -> Batteries | None:
    """Batteries charged by each client's `charging[group]` (None: mains power); None: no battery.

    A client's draws do not depend on its group.
    """
    capacity_j, charge_j = np.full(group.size, np.inf), np.zeros(group.size)
    lowest, supplies = np.ones(group.size), list[Supply]()
    for number, own in by_value(group):
        one = charging[number]
        if one is not None:
            built = one.build(devices, device_index, streams, start_s)
            for merged, column in (
                (capacity_j, built.capacity_j),
                (charge_j, built.charge_j),
                (lowest, built.lowest),
            ):
                merged[own] = column[own]
            supplies += [supply.only(own) for supply in built.supplies]
    return Batteries(capacity_j, charge_j, supplies, lowest) if supplies else None
