"""Figures of machines that are off by orders of magnitude, probably by a wrong unit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from simfl.common.time_of_day import DAY_S, shown
from simfl.system.availability.daily_absence import DailyAbsence
from simfl.system.availability.diurnal import Diurnal
from simfl.system.catalogue import Profile
from simfl.system.charging import Charging
from simfl.system.populations.base import Population
from simfl.system.profile_text import placed

Bounds = tuple[float, float, str, str]
"""Least and largest value, and the likely unit of a figure below or above them."""

_CLOCK: Bounds = (5e6, 2e10, "GHz, MHz or kHz", "mHz")
# The lowest rate: Sigfox sends 100 or 600 bit/s (RFC 8376).
_RATE_BPS: Bounds = (100.0, 1e12, "Mbit/s or kbit/s", "another unit")
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
    "seconds_per_example": (0.0, 10.0, "", "ms"),
    "seconds_per_batch": (0.0, 100.0, "", "ms"),
    "seconds_per_step": (0.0, 100.0, "", "ms"),
    "seconds_per_training": (0.0, 600.0, "", "ms"),
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
"""By the last part of a figure's path. Known machines, radios and grids are well within them."""

OF_A_PHONES_BATTERY: Bounds = (1e4, 1e6, "mAh (one is 13 J at 3.7 V) or Wh", "mJ")

OF_POPULATION: dict[str, Bounds] = {
    "access_bps": _RATE_BPS,
    "backhaul_bps": _RATE_BPS,
    "backhaul_j_per_byte": OF_ALL["energy_j_per_byte"],
    "latency_s": _DELAY_S,
    "batteries.charge_w": (0.0, 1000.0, "", "mW"),
    "batteries.harvest_w": (0.0, 1000.0, "", "mW"),
    **{key: OF_ALL[key] for key in ("frequency_min_hz", "frequency_max_hz", "kappa")},
    **{key: OF_ALL[key] for key in ("memory_bytes", "power_transmit_w", "power_receive_w")},
    **{key: OF_KIND["device"][key] for key in ("power_idle_w", "power_static_w")},
}
"""By the key of a population that contains figures itself, such as `paper`."""


_MOST_OVER_SELECTION = 20.0
_WIDEST_SPREAD = 1.5

_OF_EVERY_DAY = (Charging, DailyAbsence, Diurnal)
_TIMES_OF_DAY = ("plug_in_s", "unplug_s", "from_s", "to_s", "peak_s")


_INCLUDE_IDLE = ("link.power_transmit_w", "link.power_receive_w")
"""Powers of a link at work, idle power included."""


def implausible_figures(profiles: Sequence[Profile]) -> list[str]:
    """A line for each figure beyond its bounds: file, line, key, value, and likely cause."""
    return [line for profile in profiles for line in _of(profile)]


def _of(profile: Profile) -> Iterator[str]:
    bounds = OF_ALL | OF_KIND.get(profile.kind, {})
    if profile.values.get("device_class") == "phone":
        bounds["battery_j"] = OF_A_PHONES_BATTERY
    for path, figures in profile.numbers():
        known = bounds.get(path.rpartition(".")[2])
        told = known and _beyond(known, figures)
        if told:
            yield placed(profile.path, f"{path}: {told}")
    if profile.kind != "link":
        return
    watts = {path: figures[0] for path, figures in profile.numbers() if len(figures) == 1}
    idle_w = watts.get("link.power_idle_w", 0.0)
    for key in _INCLUDE_IDLE:
        power_w = watts.get(key, idle_w)
        if power_w < idle_w:
            told = (
                f"found {power_w:g}, likely at least power_idle_w ({idle_w:g}), which it includes"
            )
            yield placed(profile.path, f"{key}: {told}; nothing is drawn beyond idle power")


def implausible_keys(population: Population) -> Iterator[tuple[str, str]]:
    """Each key of a population with a figure beyond its bounds: the value, and the likely cause."""
    groups = enumerate(getattr(population, "groups", ()))
    for head, part in (("", population), *((f"groups.{place}.", one) for place, one in groups)):
        yield from ((head + key, told) for key, told in _implausible_keys(part))


def _implausible_keys(part: Any) -> Iterator[tuple[str, str]]:
    for key, bounds in OF_POPULATION.items():
        value: Any = part
        for step in key.split("."):
            value = getattr(value, step, None)
        figures = np.atleast_1d(() if value is None else value)
        if figures.ndim == 2:  # a series of times and values
            figures = figures[:, 1]
        if told := _beyond(bounds, figures.tolist()):
            yield key, told


def wide_spreads(population: Population) -> Iterator[tuple[str, str]]:
    """Each key of a lognormal factor with mean 1 whose median is far below it: key and cause."""
    for key in ("speed_spread", "rate_spread", "compute_noise", "transfer_noise"):
        sigma = getattr(population, key, 0.0)
        if sigma > _WIDEST_SPREAD:
            median = math.exp(-(sigma**2) / 2.0)
            told = (
                f"found {sigma:g}, likely at most {_WIDEST_SPREAD:g}: this factor has mean 1, but"
                f" median {median:.2g}, so most draws are far below it and few far above"
            )
            yield key, told


def percent_as_ratio(patience: object) -> Iterator[tuple[str, str]]:
    """The key of an over-selection, as 130, that is likely one in percent, and the cause."""
    ratio = getattr(patience, "over_selection", 1.0)
    if ratio > _MOST_OVER_SELECTION:
        told = f"found {ratio:g}: a round closes when one client in {ratio:g} has reported"
        meant = ratio / 100 if ratio >= 100 else 1 + ratio / 100
        yield "over_selection", f"{told}; in percent? then {meant:g}"


def hours_as_seconds(part: Any) -> Iterator[tuple[str, str]]:
    """Each time of every day in a part, as 22, that is likely one in hours: its key, and the cause.

    22 is 22 seconds after midnight.
    """
    for field in fields(part):
        value = getattr(part, field.name)
        inner = {field.name: value} if is_dataclass(value) else {}
        if isinstance(value, tuple):
            inner = {f"{field.name}.{place}": one for place, one in enumerate(value)}
        for key, one in inner.items():
            if is_dataclass(one):
                yield from ((f"{key}.{path}", told) for path, told in hours_as_seconds(one))
        if isinstance(part, Charging) and field.name == "harvest_w" and value:
            last_s = value[-1][0]
            if 1.0 <= last_s <= 24.0:
                told = f"found times up to {last_s:g}, which is {shown(last_s)}; in hours? then"
                yield field.name, f"{told} {3600 * last_s:g}"
        if (
            isinstance(part, _OF_EVERY_DAY)
            and getattr(part, "period_s", DAY_S) == DAY_S
            and field.name in _TIMES_OF_DAY
            and 1.0 <= value <= 24.0
        ):
            hours, minutes = divmod(round(60 * value), 60)
            told = f"found {value:g}, which is {shown(value)}; in hours? then"
            yield field.name, f'{told} "{hours % 24:02d}:{minutes:02d}"'


def _beyond(bounds: Bounds, figures: Sequence[float]) -> str:
    """A message on the first figure beyond its bounds; empty if there is none."""
    least, largest, below, above = bounds
    for figure in figures:
        if 0 != figure < least or figure > largest:
            unit = below if figure < least else above
            wide = f"{least:.3g} to {largest:.3g}" if least else f"at most {largest:.3g}"
            return f"found {figure:.4g}, likely {wide}; in {unit}?"
    return ""
