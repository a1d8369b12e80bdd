"""Writes profiles of calibrated devices and links as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import yaml

from simfl.calibration.terms import ENDS, LEVEL
from simfl.common.arrays import FloatArray, IntArray
from simfl.system.catalogue import Profile
from simfl.system.uncertainty import SECONDS, Calibrated

DIGITS = 4
"""Significant digits of a fitted figure."""
DRAWS = 100
"""Joint draws in a profile."""
CELLS = 20
"""Parts of a figure's distribution with as many draws each: of 5 %, as an interval's ends have."""


@dataclass(frozen=True, eq=False)
class Figure:
    """A calibrated figure: its path in the profile, the best value, and its draws (draws).

    `origin` is empty if rows of the thing itself determine it; otherwise it says what it rests on.
    """

    key: str
    unit: str
    value: float
    draws: FloatArray
    origin: str = ""

    @property
    def interval(self) -> tuple[float, float]:
        """Its 90 % interval."""
        low, high = np.quantile(self.draws, ENDS)
        return float(low), float(high)


@dataclass(frozen=True)
class Twin:
    """A calibrated device or link: the contents of its profile and where they come from.

    `drops` are paths of the base that the figures replace; `sets` are further keys of the profile.
    `errors` (draws) are draws of the logarithm of the error of the seconds of a model that was not
    measured, or of the one that the profile is for.
    """

    name: str
    base: Profile
    figures: Sequence[Figure]
    source: str
    drops: Sequence[str] = ()
    sets: Mapping[str, Any] = field(default_factory=dict)
    calibrated: Calibrated | None = None
    errors: FloatArray | None = None

    def text(self) -> str:
        """The profile's file as text."""
        content, about = self._content()
        text = yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)
        return "".join(f"# {line}\n" for line in about) + text

    def _content(self) -> tuple[dict[str, Any], list[str]]:
        values = deepcopy(dict(self.base.values))
        sources, unverified = dict(self.base.sources), list(self.base.unverified)
        fitted = [one.key for one in self.figures]
        for key in (*self.drops, *fitted, *self.sets):
            _without(values, key)
            sources.pop(key, None)
            unverified = [one for one in unverified if one != key]
        for key, value in self.sets.items():
            _put(values, key, value)
        for one in self.figures:
            _put(values, one.key, _rounded(one.value))
            if one.origin:
                unverified.append(one.key)
            else:
                sources[one.key] = self.source
        sources |= dict.fromkeys(self.sets, self.source)
        guessed = {one.key: one.origin for one in self.figures if one.origin}
        about = [
            f"{self.name}, calibrated from {self.base.name}: {self.source}.",
            *(f"Not measured: {key}, {origin}." for key, origin in guessed.items()),
        ]
        content = {"kind": self.base.kind, **values, "sources": sources, "unverified": unverified}
        if self.calibrated is not None:
            content["calibrated"] = _plain(asdict(self.calibrated))
        content["uncertainty"] = self._uncertainty()
        return content, about

    def _uncertainty(self) -> dict[str, Any]:
        draws = {one.key: one.draws for one in self.figures}
        if self.errors is not None:
            draws[SECONDS] = np.exp(self.errors)
        found: dict[str, Any] = {
            key: dict(zip(("low", "high"), map(_rounded, np.quantile(its, ENDS)), strict=True))
            | {"level": LEVEL}
            for key, its in draws.items()
        }
        others = {
            key: asdict(one)
            for key, one in self.base.uncertainty.intervals.items()
            if key not in {SECONDS, *draws, *self.drops, *self.sets}
        }
        every = np.stack(list(draws.values()), axis=1)
        rows = [[_rounded(value) for value in row] for row in every[spread_out(every)]]
        return {**others, **found, "draws": {"columns": list(draws), "rows": rows}}


def spread_out(draws: FloatArray) -> IntArray:
    """The indices of `DRAWS` of these joint draws (draws, figures), in an order of which any first
    few have the figures' whole range: each next one lies where its figures are least represented.

    The first 39 of 400 miss the ends of a figure's interval by a third less than 39 at random.
    """
    cells = draws.argsort(0).argsort(0) * CELLS // len(draws)
    figures = np.arange(draws.shape[1])
    filled = np.zeros((len(figures), CELLS))
    taken, chosen = np.zeros(len(draws)), list[int]()
    for _ in range(DRAWS):
        next_ = int((filled[figures, cells].sum(1) + taken).argmin())
        chosen.append(next_)
        filled[figures, cells[next_]] += 1.0
        taken[next_] = np.inf
    return np.array(chosen)


class _Dumper(yaml.SafeDumper):
    """YAML with numbers as people write them: 2.4e+10."""

    def ignore_aliases(self, data: Any) -> bool:
        """Profiles have no aliases."""
        return True


def _number(dumper: yaml.SafeDumper, value: float) -> yaml.Node:
    text = f"{value:.6g}"
    if float(text) != value:
        text = repr(value)
    if "." not in text:
        head, exponent, power = text.partition("e")
        text = f"{head}.0{exponent}{power}"
    return dumper.represent_scalar("tag:yaml.org,2002:float", text)


def _in_line(dumper: yaml.SafeDumper, value: list[Any]) -> yaml.Node:
    """Each flat list on one line; a table with one line per row."""
    is_flat = not any(isinstance(one, list) for one in value)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=is_flat)


_Dumper.add_representer(float, _number)
_Dumper.add_representer(list, _in_line)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _plain(value: Any) -> Any:
    """Tuples as lists; None is left out."""
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items() if one is not None}
    return list(value) if isinstance(value, tuple) else value


def _without(values: dict[str, Any], key: str) -> None:
    *sections, last = key.split(".")
    for section in sections:
        inner = values.get(section)
        if not isinstance(inner, dict):
            return
        values = inner
    values.pop(last, None)


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    *sections, last = key.split(".")
    for section in sections:
        if not isinstance(values.get(section), dict):
            values[section] = {}
        values = values[section]
    values[last] = value
