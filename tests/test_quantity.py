"""Numbers with a unit, for people."""

from __future__ import annotations

import math

import pytest

from simfl.common.quantity import in_vain, quantity


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


@pytest.mark.parametrize(
    ("total", "said"), [(1000, ", 30 B more in vain"), (2000, ", 60 B more in vain")]
)
def test_what_was_lost_counts_on_as_many_links_as_what_arrived(total: int, said: str) -> None:
    """Behind a backhaul every message crosses two."""
    traffic = {"bytes_received": 1000, "bytes_lost": 30}

    assert in_vain({"bytes": total, "traffic": traffic}) == said
    assert in_vain({"bytes": total, "traffic": {**traffic, "bytes_lost": 0}}) == ""
    assert in_vain({"bytes": 0, "traffic": {"bytes_received": 0, "bytes_lost": 30}}) != ""
