"""Checks of the world that a population built."""

from __future__ import annotations

from typing import Any

import numpy as np

from simfl.common.contract import misbehaves
from simfl.system.device import Device, Server
from simfl.system.link import Link
from simfl.system.world import World

_POSITIVE = ("frequency_min_hz", "frequency_max_hz", "speed_factor", "work_factor", "rate_factor")


def checked_world(population: Any, given: Any, clients: int, edges: int) -> World:
    """`given` if it is a valid world of these numbers of machines; raises `PartMisbehaves`."""

    def refuse(column: str, found: object, accepted: str) -> None:
        raise misbehaves(population, f"build: {column}", found, accepted)

    if not isinstance(given, World):
        raise misbehaves(population, "build", given, "a World")
    pools = {"device_index": len(given.devices), "link_index": len(given.links), "home_edge": edges}
    for name, pool in pools.items():
        column = _column(getattr(given, name))
        if column.shape != (clients,) or column.dtype.kind not in "iu":
            refuse(name, column, f"whole numbers of shape ({clients},)")
        if column.min() < 0 or column.max() >= pool:
            refuse(name, column, f"numbers from 0 to {pool - 1}")
    for name in _POSITIVE:
        column = _column(getattr(given, name))
        sound = column.shape == (clients,) and column.dtype.kind in "iuf"
        if not sound or not ((column > 0) & (column < np.inf)).all():
            refuse(name, column, f"finite numbers > 0 of shape ({clients},)")
    if (given.frequency_min_hz > given.frequency_max_hz).any():
        refuse("frequency_min_hz", given.frequency_min_hz, "at most frequency_max_hz")
    for name, rows in (("position_m", clients), ("edge_position_m", edges)):
        column = _column(getattr(given, name))
        if column.shape != (rows, 2) or column.dtype.kind not in "iuf":
            refuse(name, column, f"metres of shape ({rows}, 2)")
        if not np.isfinite(column).all():
            refuse(name, column, "finite metres")
    kinds = {"devices": Device, "links": Link}
    for name, kind in kinds.items():
        wrong = [one for one in getattr(given, name) if not isinstance(one, kind)]
        if wrong:
            refuse(name, wrong[0], f"a {kind.__name__}")
    for name in ("edge_server", "cloud_server"):
        if not isinstance(getattr(given, name), Server):
            refuse(name, getattr(given, name), "a Server")
    return given


def _column(given: Any) -> Any:
    return given if isinstance(given, np.ndarray) else np.array(None)
