"""Drawn machines: a profile's figures in one of many draws of its uncertainty.

A figure with an interval is drawn from it independently; figures of a calibration's joint draws are
drawn together, row by row. An unverified figure without an interval has a default one: with a
probability of 90 %, seconds are off by at most a factor of `SECONDS_FACTOR`, and watts by at most
`WATTS_FACTOR` (docs/decisions.md gives the reasons). All such seconds of a profile share one draw,
and all its watts another. How a machine is built and configured (cores, clocks, memory, batteries,
bands, decibels) is not drawn.

Draw k of a profile is the same wherever the profile is used, whatever the scenario's seed and the
other profiles.
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
"""Last steps of the paths of figures whose increase makes things faster."""
_TIMES = frozenset(
    (
        "cycles_per_example",
        "cycles_per_bit",
        "seconds_per_example",
        "seconds_per_batch",
        "seconds_per_step",
        "seconds_per_place",
        "seconds_per_training",
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
"""Figures that are shares, with their upper limits."""
SIGNED = frozenset(
    ("path_loss_db", "temperature_rest_c", "temperature_hot_c", "temperature_cool_c")
)
"""Figures that may be negative."""
_OF_TRAINING = (
    "cycles_per_example",
    "cycles_per_bit",
    "seconds_per_example",
    "seconds_per_batch",
    "seconds_per_step",
    "seconds_per_place",
    "seconds_per_training",
)
"""Figures whose increase makes training take longer."""


def default_spread(path: str, unverified: tuple[str, ...]) -> tuple[str, float] | None:
    """The draw ("seconds" or "watts") for an unverified figure, and the exponent of its factor.

    None if it has no default spread. A rate given as a product has the spread only once.
    """
    name = path.rpartition(".")[2]
    if name == "flops_per_s" and path.replace(name, "efficiency") in unverified:
        return None
    if name in WATTS:
        return "watts", 1.0
    return ("seconds", -1.0 if name in _RATES else 1.0) if name in _RATES | _TIMES else None


def is_uncertain(uncertainty: Uncertainty, unverified: tuple[str, ...], figures: list[str]) -> bool:
    """Whether draws change any figure of a profile."""
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
            # A normal distribution includes negative values, which most figures exclude.
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
    """The factor on seconds or watts without a source, from a standard normal draw."""
    most = SECONDS_FACTOR if whose == "seconds" else WATTS_FACTOR
    return Interval(1.0 / most, most).at(1.0, normal)


def _at(values: Mapping[str, Any], path: str) -> Any:
    """The figure at a path; None if there is none."""
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
    """A number, or the last numbers of a table's rows, multiplied by a factor."""
    if isinstance(figure, list):
        return [[*row[:-1], row[-1] * factor] for row in figure]
    return figure * factor


def _stretch(processor: dict[str, Any], factor: float) -> None:
    """Multiply all training times by a factor."""
    for name in _OF_TRAINING:
        if isinstance(processor.get(name), int | float):
            processor[name] *= factor
    for section in (processor, processor.get("rates") or {}):
        for name in _RATES - {"efficiency"}:
            if isinstance(section.get(name), int | float):
                section[name] /= factor


def _keep_sound(values: dict[str, Any]) -> None:
    """Limit idle power to the active power, and static power to the power beyond idle.

    Independently drawn figures might contradict each other.
    """
    processor = values.get("processor")
    if not isinstance(processor, dict):
        return
    least = min(_active_w(processor), default=None)
    if least is not None:
        # Measured active power includes the whole device's idle power; an accelerator has its own.
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
    """All active powers that the processor may have."""
    for one in (processor, *(processor.get("modes") or {}).values()):
        if isinstance(one.get("power_active_w"), int | float):
            yield one["power_active_w"]
