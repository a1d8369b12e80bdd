"""The warning that batteries shift the hours of grid electricity (docs/warnings.md)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simfl.assembly.simulation import Simulation
from simfl.common.notices import Notice, notice
from simfl.system.charging import Charging
from simfl.system.region import Region


def charged_at_other_hours(simulation: Simulation) -> Iterator[Notice]:
    """CO2 and money of batteries: counted when they give energy, not when they are charged."""
    world, population = simulation.world, simulation.parts[("population",)]
    if world.electricity is None or not population.has_batteries:
        return
    regions, index = world.electricity.regions, world.electricity.index
    by_hour = np.array([_by_hour(region) for region in regions])
    charging, which = population.charging(world.streams)
    has_battery = np.array([device.battery_j is not None for device in world.devices])
    on_battery = np.array([one is not None for one in charging])
    clients = has_battery[world.device_index] & on_battery[which]
    harvests = np.array([bool(one) and _harvests(one) for one in charging])[which]
    odd = clients & (by_hour[index[: world.num_clients]] | harvests)
    if not odd.any():
        return
    told = []
    if by_hour[index[: world.num_clients]][clients].any():
        told.append("by the hour when they give joules, not when they were charged")
    if harvests[clients].any():
        told.append("as if what they harvest came from the grid")
    message = f"CO2 and money of {odd.sum()} clients on batteries are counted {', and '.join(told)}"
    yield notice("charged_at_other_hours", message, int(odd.sum()))


def _harvests(charging: Charging) -> bool:
    """Whether anything is harvested."""
    return any(watts > 0 for _, watts in charging.harvest_w)


def _by_hour(region: Region) -> bool:
    """Whether it matters at which hour a joule is drawn."""
    series = [one for one in (region.carbon, region.price) if one is not None]
    return any(np.unique(one.values).size > 1 for one in series)
