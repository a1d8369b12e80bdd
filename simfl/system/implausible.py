"""Figures of profiles that are off by orders of magnitude: by a mistaken unit, most likely."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simfl.system.catalogue import Profile
from simfl.system.profile_text import placed

Bounds = tuple[float, float, str, str]
"""Least, largest, and what a figure may be in that is below, or above."""

_CLOCK: Bounds = (5e6, 2e10, "GHz, MHz or kHz", "mHz")
_RATE_BPS: Bounds = (150.0, 1e12, "Mbit/s or kbit/s", "another unit")
_FLOPS: Bounds = (1e5, 1e17, "GFLOP/s or TFLOP/s", "another unit")
_TRAFFIC: Bounds = (1e5, 1e14, "GB/s or MB/s", "another unit")
_MEMORY: Bounds = (1e4, 1e14, "GB or MB", "bits, or another unit")
_DELAY_S: Bounds = (0.0, 10.0, "", "ms")
_LINK_W: Bounds = (0.0, 100.0, "", "mW")

OF_ALL: dict[str, Bounds] = {
    "frequency_min_hz": _CLOCK,
    "frequency_max_hz": _CLOCK,
    "frequency_levels_hz": _CLOCK,
    "measured_hz": _CLOCK,
    "carrier_hz": _CLOCK,
    "flops_per_s": _FLOPS,
    "bandwidth_bytes_per_s": _TRAFFIC,
    "memory_bandwidth_bytes_per_s": _TRAFFIC,
    "memory_bytes": _MEMORY,
    "kappa": (1e-32, 1e-23, "another unit", "W/GHz^3"),
    "battery_j": (100.0, 1e9, "Wh", "mJ"),
    "uplink_bps": _RATE_BPS,
    "downlink_bps": _RATE_BPS,
    "rtt_s": _DELAY_S,
    "jitter_s": _DELAY_S,
    "promotion_s": _DELAY_S,
    "tail_s": (0.0, 100.0, "", "ms"),
    "power_transmit_w": _LINK_W,
    "power_receive_w": _LINK_W,
    "power_tail_w": _LINK_W,
    "power_promotion_w": _LINK_W,
    "energy_j_per_byte": (0.0, 1e-2, "", "J per megabyte"),
    "carbon_gco2_per_kwh": (0.0, 2000.0, "", "mg, or g per MWh"),
}
OF_KIND: dict[str, dict[str, Bounds]] = {
    "device": {
        "power_idle_w": (0.0, 300.0, "", "mW"),
        "power_static_w": (0.0, 300.0, "", "mW"),
        "power_active_w": (1e-4, 1000.0, "kW", "mW"),
    },
    "server": {
        "power_idle_w": (0.5, 2e4, "kW", "mW"),
        "power_static_w": (0.0, 2e4, "", "mW"),
        "power_active_w": (2.0, 5e4, "kW", "mW"),
    },
    "link": {"power_idle_w": _LINK_W},
}
"""By the last part of a figure's path. No machine, radio or grid that is known is near an end."""


def implausible_figures(profiles: Sequence[Profile]) -> list[str]:
    """A line for each figure beyond its bounds: file, line, key, what was found, what is likely."""
    return [line for profile in profiles for line in _of(profile)]


def _of(profile: Profile) -> Iterator[str]:
    bounds = OF_ALL | OF_KIND.get(profile.kind, {})
    for path, figures in profile.numbers():
        known = bounds.get(path.rpartition(".")[2])
        if known is None:
            continue
        least, largest, below, above = known
        for figure in figures:
            if 0 != figure < least or figure > largest:
                unit = below if figure < least else above
                wide = f"{least:.3g} to {largest:.3g}" if least else f"at most {largest:.3g}"
                yield placed(profile.path, f"{path}: found {figure:.4g}, likely {wide}; in {unit}?")
                break
