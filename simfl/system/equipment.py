"""The hardware recorded by a run: each client's figures, and those of machines.

With them and the formulas of docs/seconds_and_joules.md, all seconds and joules can be recomputed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from simfl.common.model_work import ModelWork
from simfl.system.device import Server
from simfl.system.link import Link
from simfl.system.processor import Processor
from simfl.system.world import World

_ABOUT = ("name", "sources", "unverified")
"""Fields of a machine that are not figures."""


def client_columns(world: World, work: ModelWork) -> dict[str, Any]:
    """One row per client with its drawn figures, with units in the column names.

    Rates are those of its link times its own factor, for a radio channel's factor of 1. Positions
    are included if some link depends on them, batteries if some device has one, and cycles per step
    and per training if these take some device a time that does not depend on examples.
    """
    clients = np.arange(world.num_clients)
    rate_bps = {
        uplink: np.array([link.rate_bps(uplink) for link in world.links])[world.link_index]
        for uplink in (True, False)
    }
    columns: dict[str, Any] = {
        "frequency_min_hz": world.frequency_min_hz,
        "frequency_max_hz": world.frequency_max_hz,
        "cycles_per_example": world.cycles(clients, 1.0, work),
        "work_factor": world.work_factor,
        "speed_factor": world.speed_factor,
        "rate_factor": world.rate_factor,
        "uplink_bps": rate_bps[True] * world.rate_factors(uplink=True),
        "downlink_bps": rate_bps[False] * world.rate_factors(uplink=False),
        "power_idle_w": world.power_idle_w,
    }
    step_cycles = world.cycles(clients, 0.0, work, 1.0)
    if step_cycles.any():
        columns["cycles_per_step"] = step_cycles
    training_cycles = world.cycles(clients, 0.0, work, 0.0, 1.0)
    if training_cycles.any():
        columns["cycles_per_training"] = training_cycles
    if any(link.needs_places for link in world.links):
        columns["x_m"], columns["y_m"] = world.position_m.T
    battery_j = [device.battery_j for device in world.devices]
    if any(one is not None for one in battery_j):
        columns["battery_j"] = np.array(battery_j, dtype=float)[world.device_index]
    return columns


def machine_figures(world: World, *, hierarchical: bool) -> dict[str, Any]:
    """The figures of every kind of machine: devices and links by name, servers, the backhaul.

    Edge servers and the backhaul are included only if the run has them, a flat one with its server
    behind a backhaul the latter alone. Access points are (x, y) in metres. Keys are those of the
    profiles; `part` is the class of a processor or link.
    """
    devices = {world.devices[index].name: index for index in np.unique(world.device_index)}
    links = {world.link_names[index]: index for index in np.unique(world.link_index)}
    found: dict[str, Any] = {
        "devices": {name: _figures(world.devices[index]) for name, index in devices.items()},
        "links": {name: _figures(world.links[index]) for name, index in links.items()},
        "cloud_server": _figures(world.cloud_server),
        "access_points_m": world.edge_position_m.tolist(),
    }
    if hierarchical:
        tiers: dict[str, Server | Link] = {
            "edge_server": world.edge_server,
            "backhaul": world.backhaul,
        }
        found |= {name: _figures(one) for name, one in tiers.items()}
    elif world.behind_backhaul:
        found |= {"backhaul": _figures(world.backhaul)}
    return found


def _figures(one: Any) -> dict[str, Any]:
    """The fields of a machine, link or processor."""
    part = {"part": type(one).__name__} if isinstance(one, Link | Processor) else {}
    return part | {
        field.name: _plain(getattr(one, field.name))
        for field in fields(one)
        if field.name not in _ABOUT
    }


def _plain(value: Any) -> Any:
    """A field as JSON; values of other types, in users' classes, as text."""
    if is_dataclass(value):
        return _figures(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    known = isinstance(value, str | int | float | np.number | np.ndarray) or value is None
    return value if known else repr(value)
