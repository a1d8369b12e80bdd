"""A warning about chargers that give less than training draws (docs/warnings.md)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simfl.assembly.simulation import Simulation
from simfl.common.notices import Notice, notice
from simfl.protocols.run import Run


def weak_chargers(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """Batteries ran empty in mid-round, of clients whose charger gives less than training draws.

    A charging client may take part at any level (`batteries.lowest`), and then discharges all the
    same. Training is that at the highest clock.
    """
    emptied = one.emptied
    world = simulation.world
    charging, group = simulation.parts[("population",)].charging(simulation.streams)
    if not emptied.any() or not any(charging):
        return
    gives_w = np.array([np.inf if rule is None else rule.charge_w for rule in charging])[group]
    draws_w = np.array([device.power_idle_w + device.computing_w() for device in world.devices])
    own = np.array([device.battery_j or 0.0 for device in world.devices])[world.device_index] > 0
    weak = own & (gives_w > 0) & (gives_w < draws_w[world.device_index]) & (emptied > 0)
    if weak.any():
        most = int(np.argmax(np.where(weak, draws_w[world.device_index], 0.0)))
        message = (
            f"{emptied[weak].sum()} client rounds ended with an empty battery, those of"
            f" {weak.sum()} of {world.num_clients} clients whose chargers give less than training"
            " draws"
            f" ({gives_w[most]:.3g} W and {draws_w[world.device_index][most]:.3g} W,"
            f" {world.devices[world.device_index[most]].name}): plugged in, they may take part at"
            " any level, and discharge all the same"
        )
        yield notice("weak_chargers", message, int(weak.sum()))
