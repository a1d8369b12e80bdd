"""Checks for measurements that are off by orders of magnitude, such as milliseconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simfl.calibration.posterior import Posterior
from simfl.calibration.terms import Prior, Rows
from simfl.common.arrays import FloatArray
from simfl.scenario.yaml_source.error import ScenarioError

FAR = math.sqrt(1000.0)
"""A row that is off by more is closer to a unit error (a factor of 1000) than to the truth."""
SPREADS = 2.5
"""Where the prior is wide, this many of its standard deviations are accepted."""
LARGER_UNITS = {"kB": 1e3, "MB": 1e6, "GB": 1e9}
"""Units in which a size may have been typed instead of bytes."""
SHORTER_UNITS = {"ms": 1e3, "us": 1e6}
"""Units in which a time may have been typed instead of seconds."""
LEAST_BYTES = 1000.0
"""Nobody times a smaller transfer; its bytes are rather in another unit."""
FEWEST_OTHERS = 3
"""Other rows of a device that are needed to find that a row does not belong to them."""


def refuse_implausible(
    path: str, column: str, rows: Rows, prior: Prior, bases: Sequence[str]
) -> None:
    """Raises ScenarioError for the first row that is far from what its base makes likely."""
    expected = prior.expected(rows)
    for place in np.flatnonzero(_is_far(rows, prior))[:1]:
        line, thing = int(rows.line[place]), int(rows.thing[place])
        raise _error(
            path, line, column, rows.measured[place], expected[place], f"by {bases[thing]}"
        )


def _is_far(rows: Rows, prior: Prior) -> NDArray[np.bool_]:
    """Which rows are far from what their base makes likely."""
    limits = np.maximum(FAR, np.exp(SPREADS * prior.spread(rows)))
    expected = prior.expected(rows)
    far: NDArray[np.bool_] = np.maximum(rows.measured / expected, expected / rows.measured) > limits
    return far


def refuse_implausible_transfer(
    path: str, sent_bytes: FloatArray, rows: Rows, prior: Prior, base: str
) -> None:
    """The same for transfers of `sent_bytes`, whose seconds or bytes may be in another unit.

    Single transfers that hung, as after a lost packet, are outliers among enough others of a link.
    """
    far = _is_far(rows, prior)
    near = np.bincount(rows.thing[~far], minlength=len(prior.mean))
    hung = np.bincount(rows.thing[far], minlength=len(prior.mean))
    judged = rows.only(((near < FEWEST_OTHERS) | (near <= hung))[rows.thing])
    try:
        refuse_implausible(path, "seconds", judged, prior, [base] * len(prior.mean))
    except ScenarioError as error:
        place = int(np.flatnonzero(rows.line == error.line)[0])
        row, size = rows.only(np.array([place])), float(sent_bytes[place])
        units = {"seconds": _shorter_unit(row, prior), "bytes": _larger_unit(row, prior)}
        hints = {column: unit for column, unit in units.items() if unit is not None}
        if "bytes" not in hints:
            raise
        first = "bytes" if size < LEAST_BYTES else next(iter(hints))
        asked = ", or ".join(f"{one} in {hints[one]}" for one in sorted(hints, key=first.__ne__))
        message = (
            f"found {row.measured[0]:.4g} seconds for {size:.4g} bytes, where"
            f" {prior.expected(row)[0]:.3g} are likely by {base}; {asked}? Accepted: seconds and"
            " bytes, not other units (or a base profile that is nearer)"
        )
        found = f"{size if first == 'bytes' else row.measured[0]:.4g}"
        raise ScenarioError(path, error.line, first, found, first, message) from None


def refuse_stray(path: str, column: str, rows: Rows, fit: Posterior) -> None:
    """Raises ScenarioError for the row that is farthest from the fit, if it is too far."""
    predicted: FloatArray = (rows.amounts * np.exp(fit.logs[rows.thing])).sum(1)
    off = np.maximum(rows.measured / predicted, predicted / rows.measured)
    counts = np.bincount(rows.thing, minlength=len(fit.logs))
    off[counts[rows.thing] <= FEWEST_OTHERS] = 0.0
    worst = int(off.argmax())
    if off[worst] > FAR:
        whose = "by the other rows"
        line = int(rows.line[worst])
        raise _error(path, line, column, rows.measured[worst], predicted[worst], whose)


def _shorter_unit(row: Rows, prior: Prior) -> str | None:
    """The unit that would make the seconds of one row likely; None if there is none."""
    for unit, factor in SHORTER_UNITS.items():
        if _is_likely(replace(row, measured=row.measured / factor), prior):
            return unit
    return None


def _larger_unit(row: Rows, prior: Prior) -> str | None:
    """The unit that would make the bytes of one row likely; None if there is none."""
    grows = np.array([not term.per_unit for term in prior.terms])
    for unit, factor in LARGER_UNITS.items():
        larger = np.where(grows, factor * row.amounts, row.amounts)
        if _is_likely(replace(row, amounts=larger), prior):
            return unit
    return None


def _is_likely(row: Rows, prior: Prior) -> bool:
    expected = prior.expected(row)[0]
    return bool(expected / FAR <= row.measured[0] <= expected * FAR)


def _error(
    path: str, line: int, column: str, found: float, expected: float, whose: str
) -> ScenarioError:
    factor = found / expected
    direction = f"{factor:.3g} times" if factor > 1 else f"1 / {1 / factor:.3g} of"
    message = (
        f"found {found:.4g}, {direction} the {expected:.3g} that are likely {whose};"
        f" accepted: {column}, not another unit (or a base profile that is nearer)"
    )
    return ScenarioError(path, line, column, f"{found:.4g}", column, message)
