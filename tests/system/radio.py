"""Radio paths for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from simfl.streams import Streams
from simfl.system.radio_paths import RadioPaths


def paths(distance_m: Any, **changes: Any) -> RadioPaths:
    """Uploads of as many clients as there are distances, all to one access point."""
    away_m = np.atleast_1d(np.asarray(distance_m, dtype=float))
    client = np.arange(away_m.size)
    columns: dict[str, Any] = {
        "streams": Streams(11),
        "uplink": True,
        "clients": client,
        "access_points": np.zeros_like(client),
        "rounds": np.zeros_like(client),
        "position_m": np.stack([away_m, np.zeros(away_m.size)], axis=1),
        "access_point_m": np.zeros((1, 2)),
    }
    return RadioPaths(**{**columns, **changes})
