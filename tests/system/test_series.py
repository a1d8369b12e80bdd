"""Step functions of time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from simfl.system.series import StepSeries

DAY = StepSeries([0.0, 6.0, 18.0], [1.0, 5.0, 2.0], period_s=24.0)
ONCE = StepSeries([0.0, 6.0, 18.0], [1.0, 5.0, 2.0])


def test_values_hold_until_the_next_time() -> None:
    """Half-open steps, in every period alike; without a period the last value stays."""
    at = [-1.0, 0.0, 5.999, 6.0, 18.0, 23.9, 24.0, 30.0, 24000.0]

    assert DAY.at(at).tolist() == [2, 1, 1, 5, 2, 2, 1, 5, 1]
    assert ONCE.at(at).tolist() == [1, 1, 1, 5, 2, 2, 2, 2, 2]


def test_integrals_by_hand() -> None:
    """A day is 6 + 60 + 12 = 78; a year 365 times that; parts are cut exactly."""
    assert DAY.integral(0, 24) == 78
    assert DAY.integral(0, 365 * 24) == 365 * 78
    assert DAY.integral([5, 17, 23], [7, 19, 25]).tolist() == [6, 7, 3]
    assert ONCE.integral(17, 100) == 5 + 82 * 2
    assert ONCE.integral(-2, 1) == 3


@given(st.floats(0, 100), st.floats(0, 100), st.sampled_from([DAY, ONCE]))
def test_integrals_are_those_of_quadrature(a: float, b: float, series: StepSeries) -> None:
    """Against numerical integration piece by piece, and additive over a point between."""
    low, high = sorted((a, b))
    steps = [low, *(t for t in np.arange(0, 102, 6.0) if low < t < high), high]

    pieces = [
        integrate.quad(lambda t: float(series.at(t)), one, two, epsabs=1e-9)[0]
        for one, two in pairwise(steps)
    ]

    assert float(series.integral(low, high)) == pytest.approx(sum(pieces), abs=1e-6)
    middle = (low + high) / 2
    assert series.integral(low, middle) + series.integral(middle, high) == pytest.approx(
        float(series.integral(low, high)), abs=1e-9
    )


def test_next_change() -> None:
    """The next step, the next period's first one, or never; always later."""
    assert DAY.next_change_s([0.0, 6.0, 20.0, 24.0, 43.0]).tolist() == [6, 18, 24, 30, 48]
    assert ONCE.next_change_s([0.0, 17.9, 18.0]).tolist() == [6, 18, np.inf]
    times = np.random.default_rng(0).uniform(0, 1e9, 10_000)
    assert (DAY.next_change_s(times) > times).all()


@pytest.mark.parametrize(
    ("times", "values", "period", "message"),
    [
        ([], [], None, "found 0 times and 0 values, accepted: equally many"),
        ([0.0, 1.0], [1.0], None, "found 2 times and 1 values"),
        ([1.0], [1.0], None, "found 1 s as the first time, accepted: 0"),
        ([0.0, 2.0, 2.0], [1.0, 1.0, 1.0], None, "found 2 s after 2 s, accepted: ascending"),
        ([0.0, 2.0], [1.0, 1.0], 2.0, "found 2 s, accepted: times below 2 s"),
        ([0.0], [float("nan")], None, "found nan, accepted: finite"),
    ],
)
def test_no_series(times: list[float], values: list[float], period: float, message: str) -> None:
    """A value that is not a function of time is refused."""
    with pytest.raises(ValueError, match=message):
        StepSeries(times, values, period)
