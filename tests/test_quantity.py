"""Numbers with a unit, for people."""

from __future__ import annotations

import math

import pytest

from simfl.common.quantity import quantity


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12345.0, "12.3 kJ"),
        (999.4, "999 J"),
        (999.9, "1 kJ"),
        (-999_999.0, "-1 MJ"),
        (0.0, "0 J"),
        (math.inf, "inf J"),
        (math.nan, "nan J"),
    ],
)
def test_three_digits_and_a_prefix(value: float, text: str) -> None:
    """A number that rounds up to a thousand gets the next prefix; NaN has none."""
    assert quantity(value, "J") == text
