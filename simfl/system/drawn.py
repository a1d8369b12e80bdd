"""Drawn machines: a profile's figures in one of many draws of its uncertainty.

A figure with an interval is drawn from it, each by itself; those of a calibration's joint draws
together, row by row. A figure that stands under `unverified` and has no interval has a default
one: seconds are off by up to a factor of `SECONDS_FACTOR` with 90 %, watts by up to
`WATTS_FACTOR` (docs/decisions.md says why), one draw for all such seconds of a profile and one for
all its watts. How a machine is built and set up (cores, clocks, memory, batteries, bands, decibels)
is taken as it stands.

Draw k of a profile is the same wherever the profile is used, whatever the scenario's seed, and
whatever other profiles there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from simfl.streams import Streams
from simfl.system.uncertainty import SECONDS, Interval, Uncertainty

_STREAMS = Streams(0)
SECONDS_FACTOR = 5.0
WATTS_FACTOR = 2.0

_RATES = frozenset(
    (
        "efficiency",
        "flops_per_s",
        "convolution",
        "depthwise",
        "dense",
        "recurrent",
        "embedding",
        "update",
        "kernels",
        "bandwidth_bytes_per_s",
        "memory_bandwidth_bytes_per_s",
        "uplink_bps",
        "downlink_bps",
    )
)
"""Last steps of paths of figures of which more is faster."""
_TIMES = frozenset(
    (
        "cycles_per_example",
        "cycles_per_bit",
        "seconds_per_example",
        "seconds_per_batch",
        "seconds_per_step",
        "seconds_per_place",
        "overhead_s",
        "rtt_s",
        "jitter_s",
        "promotion_s",
        "tail_s",
        "loss_probability",
    )
)
WATTS = frozenset(
    (
        "power_idle_w",
        "power_active_w",
        "power_static_w",
        "kappa",
        "power_table",
        "power_transmit_w",
        "power_receive_w",
        "power_promotion_w",
        "power_tail_w",
        "slope_up_w_per_bps",
        "slope_down_w_per_bps",
        "energy_j_per_byte",
    )
)
_BELOW_ONE = math.nextafter(1.0, 0.0)
_SHARES = {
    **dict.fromkeys(("efficiency", "loss_probability", "duty_cycle", "bandwidth_efficiency"), 1.0),
    "stall_utilization": 1.0,
    "memory_bound": _BELOW_ONE,
    "packet_loss": _BELOW_ONE,
}
"""Figures that are shares, and how large they can be."""
SIGNED = frozenset(
    ("path_loss_db", "temperature_rest_c", "temperature_hot_c", "temperature_cool_c")
)
"""Figures that may be below 0."""
_OF_TRAINING = (
    "cycles_per_example",
    "cycles_per_bit",
    "seconds_per_example",
    "seconds_per_batch",
    "seconds_per_step",
    "seconds_per_place",
)
"""Figures of which more makes training take longer."""


def default_spread(path: str, unverified: tuple[str, ...]) -> tuple[str, float] | None:
    """What an unverified figure goes by, "seconds" or "watts", and the power of its factor.

    None where it has no default spread. A rate that is a product has the spread once.
    """
    name = path.rpartition(".")[2]
    if name == "flops_per_s" and path.replace(name, "efficiency") in unverified:
        return None
    if name in WATTS:
        return "watts", 1.0
    return ("seconds", -1.0 if name in _RATES else 1.0) if name in _RATES | _TIMES else None


def is_uncertain(uncertainty: Uncertainty, unverified: tuple[str, ...], figures: list[str]) -> bool:
    """Whether some figure of a profile may be another than it is."""
    if uncertainty.draws is not None:
        return True
    if any(one.has_width for one in uncertainty.intervals.values()):
        return True
    fixed = set(uncertainty.intervals)
    return any(
        path in figures and path not in fixed and default_spread(path, unverified)
        for path in unverified
    )


def drawn_values(
    values: Mapping[str, Any],
    named: str,
    uncertainty: Uncertainty,
    unverified: tuple[str, ...],
    number: int,
) -> dict[str, Any]:
    """A profile's `values` at draw `number`; `named` is its kind and name."""
    joint = uncertainty.drawn(number)
    drawn = deepcopy(dict(values))
    seconds = joint.pop(SECONDS, 1.0)

    def normal(what: str) -> float:
        return float(_STREAMS.normal(f"hardware.{named}.{what}", 0, number))

    for path, interval in uncertainty.intervals.items():
        if path == SECONDS:
            if uncertainty.draws is None:
                seconds = interval.at(1.0, normal(path))
        elif path not in joint:
            figure = interval.at(_at(drawn, path), normal(path))
            # A normal law goes below 0; most figures do not.
            signed = interval.low < 0 or path.rpartition(".")[2] in SIGNED
            least = -math.inf if signed else interval.low / 10.0
            _put(drawn, path, max(figure, least))
    for path, figure in joint.items():
        _put(drawn, path, figure)
    for path in unverified:
        spread = default_spread(path, unverified)
        figure = _at(drawn, path)
        if spread is None or path in joint or path in uncertainty.intervals or figure is None:
            continue
        whose, power = spread
        _put(drawn, path, _times(figure, _factor(whose, normal(whose)) ** power))
    if seconds != 1.0 and isinstance(drawn.get("processor"), dict):
        _stretch(drawn["processor"], seconds)
    _keep_sound(drawn)
    return drawn


def _factor(whose: str, normal: float) -> float:
    """How far off seconds or watts without a source are at a draw."""
    most = SECONDS_FACTOR if whose == "seconds" else WATTS_FACTOR
    return Interval(1.0 / most, most).at(1.0, normal)


def _at(values: Mapping[str, Any], path: str) -> Any:
    """The figure at a path; None where there is none."""
    found: Any = values
    for step in path.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def _put(values: dict[str, Any], path: str, figure: Any) -> None:
    *sections, last = path.split(".")
    for section in sections:
        values = values[section]
    is_share = last in _SHARES and isinstance(figure, float)
    values[last] = min(figure, _SHARES[last]) if is_share else figure


def _times(figure: Any, factor: float) -> Any:
    """A number, or the last numbers of a table's rows, so many times as large."""
    if isinstance(figure, list):
        return [[*row[:-1], row[-1] * factor] for row in figure]
    return figure * factor


def _stretch(processor: dict[str, Any], factor: float) -> None:
    """Make all training take so many times as long."""
    for name in _OF_TRAINING:
        if isinstance(processor.get(name), int | float):
            processor[name] *= factor
    for section in (processor, processor.get("rates") or {}):
        for name in _RATES - {"efficiency"}:
            if isinstance(section.get(name), int | float):
                section[name] /= factor


def _keep_sound(values: dict[str, Any]) -> None:
    """No machine draws less while it works than while it waits: idle power is at most the active.

    What cores draw beyond it is at least their static power. Figures that were drawn apart may
    cross.
    """
    processor = values.get("processor")
    if not isinstance(processor, dict):
        return
    least = min(_active_w(processor), default=None)
    if least is not None:
        # A wattmeter's active power is that of the whole device; an accelerator has its own.
        whose = processor if "power_idle_w" in processor else values
        if isinstance(whose.get("power_idle_w"), int | float):
            whose["power_idle_w"] = min(whose["power_idle_w"], least)
            if isinstance(processor.get("power_static_w"), int | float):
                of_a_core_w = (least - whose["power_idle_w"]) / processor.get("cores", 1)
                processor["power_static_w"] = min(processor["power_static_w"], of_a_core_w)
    table = processor.get("power_table")
    if table and isinstance(processor.get("power_static_w"), int | float):
        floor = min(row[-1] for row in table)
        processor["power_static_w"] = min(processor["power_static_w"], floor)


def _active_w(processor: Mapping[str, Any]) -> Iterator[float]:
    """Every active power that the processor may have."""
    for one in (processor, *(processor.get("modes") or {}).values()):
        if isinstance(one.get("power_active_w"), int | float):
            yield one["power_active_w"]
