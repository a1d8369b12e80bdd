"""The uncertainty of a profile's figures, and the conditions of their measurement.

A figure may be given with its interval, as `{value: 2.6e10, interval: [2.0e10, 3.3e10]}`: it is
between these ends with a probability of 90 %. A profile's `uncertainty`, written by calibration,
maps paths of figures to intervals, and `seconds` to that of a factor on all seconds of training a
model that was not measured. Its `draws` are possible machines: the figures of one row belong
together, since they are correlated, and so do the same rows of all profiles of one calibration.

`calibrated` describes the conditions of the measurements; runs beyond them get a warning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Annotated, Any

from simfl.system.fields import FieldError, build, shown, suggestion

SECONDS = "seconds"
"""The path of the factor on the seconds of a model that was not measured."""


LEVEL = 0.9
"""The probability with which a figure is in the interval given with it."""
DISTRIBUTIONS = ("lognormal", "normal")


@dataclass(frozen=True)
class Interval:
    """The interval that contains a figure with probability `level`, with equal tails on both sides.

    The median is the profile's value. Below and above it, the figure is lognormal (or normal), with
    a separate spread on each side, so that any interval around the value is possible.
    """

    low: float
    high: float
    level: Annotated[float, "> 0", "< 1"] = LEVEL
    distribution: Annotated[str, "lognormal or normal"] = DISTRIBUTIONS[0]

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"low: found {self.low:g}, accepted: at most high, {self.high:g}")
        if self.distribution not in DISTRIBUTIONS:
            accepted = suggestion(self.distribution, DISTRIBUTIONS).lstrip(",; ")
            raise ValueError(f"distribution: found {shown(self.distribution)}, {accepted}")
        if self.low < 0 and self.distribution == "lognormal":
            raise ValueError(
                f"low: found {self.low:g}, accepted: at least 0, or distribution: normal"
            )

    @property
    def has_width(self) -> bool:
        """Whether the figure can differ from its value."""
        return self.high > self.low

    def at(self, value: float, normal: float) -> float:
        """The figure with median `value`, for a draw of the standard normal distribution.

        A value outside the interval is replaced by the nearest end. A lognormal figure of 0 is not
        varied.
        """
        middle = min(max(value, self.low), self.high)
        end = self.high if normal > 0 else self.low
        steps = abs(normal) / NormalDist().inv_cdf((1.0 + self.level) / 2.0)
        if self.distribution == "normal":
            return middle + steps * (end - middle)
        if end <= 0 or middle <= 0:
            return middle
        return float(middle * (end / middle) ** steps)


@dataclass(frozen=True)
class Draws:
    """Joint draws: `rows` of figures, whose paths are the `columns`."""

    columns: tuple[str, ...]
    rows: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        lengths = {len(row) for row in self.rows} - {len(self.columns)}
        if not self.rows or lengths:
            found = f"a row of {min(lengths)} figures" if lengths else "no row"
            raise ValueError(
                f"rows: found {found}, accepted: at least one row, each of {len(self.columns)}"
                " figures"
            )


@dataclass(frozen=True)
class Uncertainty:
    """Intervals by the paths of figures, and joint draws of them."""

    intervals: Mapping[str, Interval] = field(default_factory=dict)
    draws: Draws | None = None

    def drawn(self, number: int) -> dict[str, float]:
        """The figures of a draw by their paths; after the last draw, the first one follows."""
        if self.draws is None:
            return {}
        row = self.draws.rows[number % len(self.draws.rows)]
        return dict(zip(self.draws.columns, row, strict=True))


@dataclass(frozen=True)
class Calibrated:
    """The measurements behind figures: the number of rows, the models and the kinds of work.

    `batch_examples`, `clock_hz` and `forward_flops` are the smallest and the largest.
    """

    rows: Annotated[int, ">= 0", "of computations"]
    models: Annotated[tuple[str, ...], "that were trained"] = ()
    kinds: Annotated[tuple[str, ...], "of work that they told a rate of"] = ()
    batch_examples: Annotated[
        tuple[int, int] | None, "examples of a step, the fewest and the most"
    ] = None
    clock_hz: Annotated[tuple[float, float] | None, "the lowest and the highest clock"] = None
    only: Annotated[str | None, "the one model that seconds are for; null: any"] = None
    forward_flops: Annotated[
        tuple[float, float] | None, "of its forward pass, the fewest and the most per example"
    ] = None


def read_uncertainty(
    content: Any, known: Mapping[str, Any], beside: Mapping[str, Interval] | None = None
) -> Uncertainty:
    """A profile's `uncertainty`; `known` are the profile's figures by paths.

    `beside` are intervals given with their figures. Raises ValueError, beginning with the key, for
    invalid content.
    """
    if not isinstance(content, Mapping):
        raise FieldError(f"uncertainty: found {shown(content)}, accepted: a section")
    given, both = dict(content), dict(beside or {})
    drawn = given.pop("draws", None)
    columns = drawn.get("columns") if isinstance(drawn, Mapping) else None
    for path in (*given, *(columns if isinstance(columns, list) else ())):
        if path not in (*known, SECONDS):
            raise FieldError(f"uncertainty: no figure {path}{suggestion(path, known)}")
        if path != SECONDS and not _is_number(known[path]):
            raise FieldError(f"uncertainty: {path} is {shown(known[path])}, accepted: a number")
        if path in both:
            raise FieldError(f"uncertainty: {path} has its interval beside it; give one")
    try:
        found = build(Uncertainty, {"intervals": given} | ({"draws": drawn} if drawn else {}))
    except ValueError as error:
        raise FieldError(f"uncertainty.{str(error).removeprefix('intervals.')}") from error
    return replace(found, intervals={**found.intervals, **both})


def without_intervals(content: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Interval]]:
    """A profile's content with plain figures, and the intervals that were given with them.

    Raises ValueError, beginning with the figure's path, for invalid intervals.
    """
    intervals: dict[str, Interval] = {}
    return _plain(content, "", intervals), intervals


def _plain(content: Mapping[str, Any], above: str, found: dict[str, Interval]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, value in content.items():
        path = f"{above}{key}"
        if isinstance(value, Mapping) and "interval" in value:
            plain[key], found[path] = _figure(value, path)
        elif isinstance(value, Mapping):
            plain[key] = _plain(value, f"{path}.", found)
        else:
            plain[key] = value
    return plain


def _figure(given: Mapping[str, Any], path: str) -> tuple[Any, Interval]:
    """A figure and its interval, as given in a profile."""
    for key in given:
        if key not in _FIGURE:
            raise FieldError(f"{path}.{key}: unknown key{suggestion(str(key), _FIGURE)}")
    value, ends = given.get("value"), given["interval"]
    if not _is_number(value):
        raise FieldError(f"{path}.value: found {shown(value)}, accepted: a number")
    pair = isinstance(ends, list) and len(ends) == 2 and all(map(_is_number, ends))
    if not pair or not ends[0] <= value <= ends[1]:
        accepted = f"[low, high], two numbers with the value, {value:g}, between them"
        raise FieldError(f"{path}.interval: found {shown(ends)}, accepted: {accepted}")
    law = {"distribution": given["distribution"]} if "distribution" in given else {}
    try:
        interval = build(Interval, {"low": ends[0], "high": ends[1], **law})
    except ValueError as error:
        raise FieldError(f"{path}.{error}") from error
    if interval.distribution == "lognormal" and interval.low <= 0 < interval.high:
        accepted = "a low end above 0, or distribution: normal"
        raise FieldError(f"{path}.interval: found {shown(ends)}, accepted: {accepted}")
    return value, interval


_FIGURE = ("value", "interval", "distribution")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def read_calibrated(content: Any) -> Calibrated:
    """A profile's `calibrated`; raises ValueError, beginning with the key, for invalid content."""
    if not isinstance(content, Mapping):
        raise FieldError(f"calibrated: found {shown(content)}, accepted: a section")
    try:
        return build(Calibrated, content)
    except ValueError as error:
        raise FieldError(f"calibrated.{error}") from error
