"""Panels of a picture, not yet placed: axes with round ticks, lines, bars, a legend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simfl.common.arrays import FloatArray

MOST_TICKS, MOST_NAMES = 9, 18
ROUNDING = 1e-12
"""Values that differ by a smaller share of themselves are drawn as the same."""
MOST_LETTERS = 30
"""Longer names beside an axis are cut."""

_PREFIXES = {-3: "n", -2: "\N{MICRO SIGN}", -1: "m", 0: "", 1: "k", 2: "M", 3: "G", 4: "T"}
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`, in the label's unit, with ticks: (value, text)."""

    label: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]


@dataclass(frozen=True)
class Line:
    """Points that are joined by a line; x and y of shape (points,)."""

    x: FloatArray
    y: FloatArray
    colour: str


@dataclass(frozen=True)
class Bars:
    """Rectangles; the coordinates of each side have the shape (bars,)."""

    left: FloatArray
    right: FloatArray
    low: FloatArray
    high: FloatArray
    colour: str


@dataclass(frozen=True)
class Panel:
    """What is drawn between two axes, with a title and a legend, (text, colour), above them."""

    x: Axis
    y: Axis
    shapes: Sequence[Line | Bars]
    title: str = ""
    legend: Sequence[tuple[str, str]] = ()
    grid: bool = False


def number_axis(label: str, low: float, high: float, *, whole: bool = False) -> Axis:
    """An axis with ticks at multiples of a round step; with `whole`, at whole numbers only.

    If all values are the same up to rounding, the axis extends around that value.
    """
    if not high - low > ROUNDING * max(abs(low), abs(high)):
        around = abs(low) / 20 or 1.0
        low, high = low - around, low + around
    step = _step((high - low) / MOST_TICKS)
    if whole:
        step = max(1.0, math.ceil(step))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    places: FloatArray = step * np.arange(first, last + 1, dtype=np.float64)
    return Axis(label, low, high, [*zip(places.tolist(), _texts(places, step), strict=True)])


def name_axis(names: Sequence[str]) -> Axis:
    """One name at each of 0, 1, 2, ...; if there are many names, not every one."""
    every = -(-len(names) // MOST_NAMES) or 1
    ticks = [
        (float(place), name if len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS - 1]}\u2026")
        for place, name in enumerate(names)
        if place % every == 0
    ]
    return Axis("", -0.5, len(names) - 0.5, ticks)


def _step(least: float) -> float:
    """The smallest round number that is at least `least`."""
    scale = 10.0 ** math.floor(math.log10(least))
    return next(step * scale for step in _STEPS if step * scale >= least * (1 - 1e-9))


def _texts(places: FloatArray, step: float) -> list[str]:
    """Texts of ticks with as many decimals as the step needs, and with a prefix if numbers are
    long.
    """
    largest = float(np.abs(places).max(initial=0.0))
    power = 0
    if largest >= 10_000 or 0 < largest < 0.001:
        power = min(max(math.floor(math.log10(largest) / 3 + 1e-9), min(_PREFIXES)), max(_PREFIXES))
    shown = step / 1000.0**power
    decimals = next((one for one in range(16) if math.isclose(round(shown, one), shown)), 15)
    unit = f" {_PREFIXES[power]}" if power else ""
    return [f"{place / 1000.0**power + 0.0:.{decimals}f}{unit}" for place in places]
