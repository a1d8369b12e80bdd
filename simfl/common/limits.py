"""Limits on the size of numbers in scenarios and device files, by unit.

A part's own bounds say what a number may mean; these keep what is made of numbers finite and above
the clock's resolution. Simulated time is float64 seconds, of which neighbours lie 2e-6 s apart at
`MOST_S` and 1.5e-5 s at `LATEST_S`: what lasts longer than the first, or happens after the second,
leaves no room for a message's milliseconds. Products of five numbers within `LEAST` and `MOST` are
finite, and so are tenth powers of `MOST_HZ`, which powers of clock frequencies may be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

MOST_S = 1e10
"""317 years: the longest that anything is said to last."""
LATEST_S = 1e11
"""When simulated time ends, if a run has not."""
SHORTEST_S = ">= 1e-3"
"""A bound on periods and means of what comes and goes: every change is followed, one by one."""
MOST, LEAST = 1e30, 1e-60
MOST_HZ = 1e15
MOST_WHOLE = 2**63 - 1
"""Of a 64-bit column."""

_BY_UNIT: Mapping[str, tuple[float, float]] = {
    "s": (LEAST, MOST_S),
    "hz": (1e-3, MOST_HZ),
    # 10^(x / 10) of a hundred of them is finite.
    "db": (LEAST, 1e3),
}


def refusal(key: str, value: Any) -> str | None:
    """What is wrong with a number in `value`, which stands at `key`; None: nothing.

    Whatever is no number, list or tuple is passed over, and so are numbers that are not finite.
    """
    if isinstance(value, list | tuple):
        return next(filter(None, (refusal(key, one) for one in value)), None)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int) and abs(value) > MOST_WHOLE:
        return f"found an integer of {value.bit_length()} bits, accepted: at most {MOST_WHOLE}"
    least, most = _limits(key)
    if abs(value) > most and abs(value) != math.inf:
        return f"found {value:g}, accepted: a number of at most {most:g} in size"
    if 0 < abs(value) < least:
        return f"found {value:g}, accepted: 0, or a number of at least {least:g} in size"
    return None


def _limits(key: str) -> tuple[float, float]:
    """The smallest and the largest size of a number other than 0."""
    name = key.rpartition(".")[2]
    # A rate is no time: bytes_per_s.
    unit = "" if "_per_" in name else name.rpartition("_")[2]
    return _BY_UNIT.get(unit, (LEAST, MOST))
