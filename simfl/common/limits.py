"""Limits on the size of numbers in scenarios and device files, by unit.

Each part has bounds of its own; these limits ensure that whatever is computed from the numbers is
finite and above the clock's resolution. Simulated time is a float64 in seconds: neighbouring values
are 2e-6 s apart at `MOST_S` and 1.5e-5 s at `LATEST_S`. With longer durations or later times, a
message's milliseconds could not be represented. Products of five numbers between `LEAST` and `MOST`
are finite, and so are tenth powers of `MOST_HZ` (power models use powers of clock frequencies).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

MOST_S = 1e10
"""317 years: the longest duration accepted."""
LATEST_S = 1e11
"""The time at which every run ends."""
SHORTEST_S = ">= 1e-3"
"""The lower bound of periods and means of recurring changes: every single change is simulated."""
MOST, LEAST = 1e30, 1e-60
MOST_HZ = 1e15
MOST_WHOLE = 2**63 - 1
"""The largest number in a 64-bit column."""

_BY_UNIT: Mapping[str, tuple[float, float]] = {
    "s": (LEAST, MOST_S),
    "hz": (1e-3, MOST_HZ),
    # So that 10^(x / 10) is at most 1e100.
    "db": (LEAST, 1e3),
}


def refusal(key: str, value: Any) -> str | None:
    """Why the number in `value`, given at `key`, is refused; None if it is accepted.

    Anything but numbers, lists and tuples is skipped, and so are infinity and NaN.
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
    """The smallest and the largest absolute value accepted at a key, except 0."""
    name = key.rpartition(".")[2]
    # The unit of a rate (bytes_per_s) is not a time.
    unit = "" if "_per_" in name else name.rpartition("_")[2]
    return _BY_UNIT.get(unit, (LEAST, MOST))
