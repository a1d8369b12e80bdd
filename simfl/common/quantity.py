"""Numbers with units, formatted for people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_PREFIXES = ("", "k", "M", "G", "T")


def quantity(value: float, unit: str) -> str:
    """A number with a decimal prefix: 12345 J is 12.3 kJ, 999.9 J is 1 kJ; NaN has none."""
    for prefix in _PREFIXES:
        shown = f"{value:.3g}"
        if abs(float(shown)) < 1000 or prefix == _PREFIXES[-1] or not math.isfinite(value):
            return f"{shown} {prefix}{unit}"
        value /= 1000
    raise AssertionError


def in_vain(manifest: Mapping[str, Any]) -> str:
    """A note on bytes that were sent and lost, to append to the bytes that arrived; "" if none."""
    traffic = manifest.get("traffic", {})
    lost, received = (traffic.get(f"bytes_{fate}", 0) for fate in ("lost", "received"))
    links = manifest["bytes"] / received if received else 1.0  # that a message crosses
    lost *= round(links)
    return f", {quantity(lost, 'B')} more in vain" if lost else ""
