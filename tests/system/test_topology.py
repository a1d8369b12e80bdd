"""Places and neighbourhoods."""

from __future__ import annotations

import numpy as np
import pytest

from simfl.streams import Streams
from simfl.system.topology import home_edge, nearest_edge, square_positions


def test_home_edges_are_contiguous_blocks() -> None:
    """Client i belongs to edge i * edges // clients."""
    np.testing.assert_array_equal(home_edge(7, 3), [0, 0, 0, 1, 1, 2, 2])


def test_home_edges_are_even() -> None:
    """Edge sizes differ by at most one client."""
    sizes = np.bincount(home_edge(1003, 10))

    assert len(sizes) == 10
    assert sizes.max() - sizes.min() <= 1


def test_nearest_edge() -> None:
    """Each client goes to the nearest edge, the first one in a tie, in any number of blocks."""
    clients = np.array([[0.0, 1.0], [9.0, 0.0], [5.0, 0.0]])
    edges = np.array([[0.0, 0.0], [10.0, 0.0]])

    few = nearest_edge(clients, edges)
    many = nearest_edge(np.tile(clients, (50_000, 1)), edges)

    np.testing.assert_array_equal(few, [0, 1, 0])
    np.testing.assert_array_equal(many, np.tile(few, 50_000))


def test_positions_fill_the_square() -> None:
    """Positions are uniform in the square, both coordinates independent."""
    place = square_positions(Streams(3), "client", 20_000, side_m=200.0)

    assert place.shape == (20_000, 2)
    assert place.min() > 0
    assert place.max() < 200
    np.testing.assert_allclose(place.mean(0), 100.0, rtol=0.02)
    assert np.corrcoef(place.T)[0, 1] == pytest.approx(0.0, abs=0.03)


def test_one_more_client_moves_nobody() -> None:
    """The places of the first clients do not depend on how many follow."""
    few = square_positions(Streams(3), "client", 5, 100.0)
    more = square_positions(Streams(3), "client", 6, 100.0)

    np.testing.assert_array_equal(more[:5], few)
