"""A relative difference has an interval of its own, which the baseline's luck widens."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from simfl.study.comparisons import paired_differences
from simfl.study.figure_text import relative_in_cell


def _compared(base: np.ndarray, own: np.ndarray) -> dict:
    seeds = [*range(base.size)]
    runs = pd.DataFrame(
        {
            "seed": seeds * 2,
            "rule": ["base"] * base.size + ["own"] * own.size,
            "time_s": [*base, *own],
        }
    )
    (found,) = paired_differences(runs, "time_s", "rule", "base").to_dict("records")
    return found


def test_of_a_baseline_that_never_varies_it_is_the_differences_own() -> None:
    """2 s always, and 1, 2 and 3 s more: Student's ends over 2; of negative figures, turned."""
    found = _compared(np.full(3, 2.0), np.array([3.0, 4.0, 5.0]))

    ends = found["relative_low"], found["relative_high"]
    assert ends == pytest.approx((found["ci_low"] / 2, found["ci_high"] / 2))
    assert relative_in_cell(found) == "+100 ±124 %"
    turned = _compared(np.full(3, -2.0), np.array([-3.0, -4.0, -5.0]))
    assert turned["relative"] == -1.0
    assert (turned["relative_low"], turned["relative_high"]) == pytest.approx((-ends[1], -ends[0]))


def test_what_cannot_be_negative_is_at_most_100_percent_lower() -> None:
    """Of 10 s, 0.1 s and now and then 3 s are left; times to which something was added may be."""
    base, own = np.array([9.0, 10.0, 11.0]), np.array([0.1, 0.1, 3.0])

    assert _compared(base, own)["relative_low"] == -1.0
    assert _compared(base, own - 1.0)["relative_low"] < -1.0


def test_a_baseline_that_may_be_zero_has_none() -> None:
    """1 and 9 s: their mean may be 0, and a share of it anything; nor has one seed any."""
    found = _compared(np.array([1.0, 9.0]), np.array([2.0, 11.0]))

    assert math.isnan(found["relative_low"]) and relative_in_cell(found) == "+30.0% (no interval)"
    assert relative_in_cell(_compared(np.array([2.0]), np.array([3.0]))) == "+50.0%"


@pytest.mark.parametrize("count", [3, 5, 20])
def test_the_interval_holds_the_share_as_often_as_it_says(count: int) -> None:
    """300 times seeds of a baseline of 10 and something a quarter longer, by common luck."""
    rng = np.random.default_rng(count)
    held = []
    for _ in range(300):
        luck, rest = rng.normal(0.0, 1.0, (2, count))
        found = _compared(10.0 + luck, 12.5 + luck + 0.5 * rest)
        held.append(found["relative_low"] <= 0.25 <= found["relative_high"])

    assert 0.92 <= np.mean(held) <= 0.98
