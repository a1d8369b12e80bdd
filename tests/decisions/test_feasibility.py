"""Which participation can be had under bounded concurrency."""

import numpy as np
import pytest

from simfl.decisions.feasibility import attainable_share


@pytest.mark.parametrize("ratio", [1.0, 3.0, 5.25, 8.0])
def test_two_in_flight_allow_the_cards_share(ratio):
    """C = 2, equal shares: kappa up to M / (1 + T_max / T_min), for 0.8 a ratio of 5.25."""
    latency_s = np.array([1.0, 1.0, 1.0, 1.0, ratio])

    slowest = attainable_share(latency_s, 2)[-1]

    assert 5 * slowest == pytest.approx(5 / (1 + ratio))
    assert (slowest + 1e-12 >= 0.8 / 5) == (ratio <= 5.25)


def test_alone_in_flight_anybody_can_have_every_round():
    """C = 1 leaves the choice free; an edge server without clients has no share."""
    shares = attainable_share(np.array([1.0, 50.0, np.nan]), 1)

    assert shares[:2].tolist() == [1.0, 1.0]
    assert np.isnan(shares[2])


@pytest.mark.parametrize(
    ("latency_s", "concurrency", "expected"),
    [
        ([1, 10], 2, [10 / 11, 1 / 11]),
        ([1, 10, 10], 3, [10 / 12, 1 / 12, 1 / 12]),
        ([1, 2, 4, 8], 3, [4 / 7, 2 / 7, 1 / 7, 1 / 13]),
        ([8, 1, 4, 2], 3, [1 / 13, 4 / 7, 1 / 7, 2 / 7]),
        ([3, 3, 3], 5, [1 / 3, 1 / 3, 1 / 3]),
        ([3, np.nan, 3, 3], 4, [1 / 3, np.nan, 1 / 3, 1 / 3]),
    ],
)
def test_the_other_places_are_held_by_one_edge_server_each(latency_s, concurrency, expected):
    """By the fastest of the others, and no more of them than there are."""
    shares = attainable_share(np.array(latency_s, dtype=float), concurrency)

    assert shares == pytest.approx(np.array(expected), nan_ok=True)
