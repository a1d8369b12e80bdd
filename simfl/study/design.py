"""The settings that a study runs: named variants x grid x sample, in a fixed order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.study.levels import level, value_of
from simfl.study.studyfile import VARIANT, Interval, Sample, Study

MOST_CROSSED = 32
"""Up to this many combinations of a search's listed values are all checked before it begins."""


@dataclass(frozen=True)
class Setting:
    """One point without its seed.

    `values` are the keys to set, each with its value and its place in the study file; `factors` are
    the columns that identify points.
    """

    values: dict[str, tuple[Any, str]]
    factors: dict[str, Any]


def settings(study: Study) -> list[Setting]:
    """Every point of a study, without seeds."""
    common = {key: (value, study.origin("set", key)) for key, value in study.set.items()}
    combined = product(_variants(study), _grid(study), _sample(study))
    return [
        Setting(
            one_after_another(common, named.values, crossed.values, drawn.values),
            {**named.factors, **crossed.factors, **drawn.factors},
        )
        for named, crossed, drawn in combined
    ]


def one_after_another(*kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Keys with their values in the order in which they are set; a key that is set twice comes
    last.

    So a whole section that is set in between does not overwrite it.
    """
    found: dict[str, Any] = {}
    for kind in kinds:
        for key, value in kind.items():
            found.pop(key, None)
            found[key] = value
    return found


def _variants(study: Study) -> list[Setting]:
    return [
        Setting(
            {
                key: (value, study.origin("points", "variants", name, key))
                for key, value in keys.items()
            },
            {VARIANT: name},
        )
        for name, keys in study.points.variants.items()
    ] or [Setting({}, {})]


def _grid(study: Study) -> Iterator[Setting]:
    grid = study.points.grid
    for places in product(*(range(len(values)) for values in grid.values())):
        chosen = {
            key: (grid[key][place], study.origin("points", "grid", key, place))
            for key, place in zip(grid, places, strict=True)
        }
        yield Setting(
            {key: (value_of(entry), origin) for key, (entry, origin) in chosen.items()},
            {key: level(entry) for key, (entry, _) in chosen.items()},
        )


def _sample(study: Study) -> list[Setting]:
    sample = study.points.sample
    if sample is None:
        return [Setting({}, {})]
    rows = [
        {
            key: (value, study.origin("points", "sample", "over", key))
            for key, value in zip(sample.over, row, strict=True)
        }
        for row in draw(sample)
    ]
    drawn = [Setting(row, {key: value for key, (value, _) in row.items()}) for row in rows]
    if sample.method == "saltelli":
        return drawn  # the design needs all its rows
    # Whole numbers may be drawn twice; the second run would be the same.
    return list({tuple(one.factors.values()): one for one in drawn}.values())


def chosen(study: Study, choice: Sequence[float | int]) -> Setting:
    """The setting of one trial of a search: for each key its value, or its index in a list."""
    assert study.search is not None
    common = {key: (value, study.origin("set", key)) for key, value in study.set.items()}
    values: dict[str, tuple[Any, str]] = {}
    factors = {}
    for (key, one), value in zip(study.search.over.items(), choice, strict=True):
        if isinstance(one, list):
            entry = one[int(value)]
            origin = study.origin("search", "over", key, int(value))
            values[key], factors[key] = (value_of(entry), origin), level(entry)
        else:
            values[key], factors[key] = (value, study.origin("search", "over", key)), value
    return Setting(one_after_another(common, values), factors)


def corners(study: Study) -> list[Setting]:
    """Settings that show whether every value of a search is accepted, before anything runs.

    All combinations of its lists' values or, if there are too many, one list after the other; each
    with the lowest and the highest value of every interval.
    """
    assert study.search is not None
    over = list(study.search.over.values())
    places = [range(len(one)) if isinstance(one, list) else range(1) for one in over]
    if math.prod(map(len, places)) <= MOST_CROSSED:
        lists = list(product(*places))
    else:
        first = (0,) * len(over)
        lists = [first]
        for at, own in enumerate(places):
            lists += [(*first[:at], place, *first[at + 1 :]) for place in own[1:]]
    return [
        chosen(
            study,
            [
                place if isinstance(one, list) else scaled(end, one)
                for place, one in zip(row, over, strict=True)
            ],
        )
        for row in lists
        for end in (0.0, 1.0)
    ]


def draw(sample: Sample) -> list[list[float | int]]:
    """The sample's points, one value per key; equal for equal seeds.

    Latin hypercube: McKay, Beckman, Conover, Technometrics 21 (1979); Sobol sequence: scrambled
    as by Owen (1998); Saltelli's design: `saltelli`.
    """
    from scipy.stats import qmc  # a second to load; studies without points to draw do without

    keys = len(sample.over)
    if sample.method == "saltelli":
        rows = saltelli(qmc.Sobol(d=2 * keys, rng=sample.seed).random(sample.size))
    else:
        engines = {"latin_hypercube": qmc.LatinHypercube, "sobol": qmc.Sobol}
        rows = engines[sample.method](d=keys, rng=sample.seed).random(sample.size)
    return [
        [scaled(float(u), one) for u, one in zip(row, sample.over.values(), strict=True)]
        for row in rows
    ]


def saltelli(both: FloatArray) -> FloatArray:
    """The rows of two independent matrices A and B, then of A with each column in turn from B.

    `both` is A and B side by side, (rows, 2 keys); the design has (rows * (keys + 2), keys), as in
    Saltelli et al., Computer Physics Communications 181 (2010), section 3.
    """
    keys = both.shape[1] // 2
    a, b = both[:, :keys], both[:, keys:]
    mixed = np.tile(a, (keys, 1, 1))
    mixed[range(keys), :, range(keys)] = b.T
    return np.concatenate([a, b, *mixed])


def scaled(unit: float, interval: Interval) -> float | int:
    """The value of an interval at a place in [0, 1)."""
    low, high = interval.low, interval.high
    if interval.integer:
        # Every whole number of the interval gets an equal share of [0, 1).
        low, high = math.ceil(low), math.floor(high) + 1
    if interval.scale == "log":
        value = math.exp(math.log(low) + unit * (math.log(high) - math.log(low)))
    else:
        value = low + unit * (high - low)
    # Rounding may exceed an end of the interval, as in exp(log(low)).
    value = math.floor(value) if interval.integer else value
    return min(max(value, low), math.floor(interval.high) if interval.integer else high)
