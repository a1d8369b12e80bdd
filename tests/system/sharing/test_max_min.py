"""Max-min fair rates, by hand and against linear programs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from simfl.system.sharing.base import Flows, Sender
from simfl.system.sharing.max_min import BACKHAUL, MaxMin, max_min_rates

Case = tuple[np.ndarray, np.ndarray, np.ndarray]


@st.composite
def networks(draw: st.DrawFn) -> Case:
    """Own rates, routes over up to four shared links, and what those carry."""
    links, flows = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    rate = st.sampled_from([0.5, 1.0, 2.0, 3.0, 7.0, 100.0]) | st.floats(0.01, 100.0)
    own = draw(st.lists(rate, min_size=flows, max_size=flows))
    capacity = draw(st.lists(rate, min_size=links, max_size=links))
    path = st.lists(st.integers(0, links - 1), max_size=links, unique=True)
    paths = [draw(path) for _ in range(flows)]
    route = [[*path, *[-1] * (links - len(path))] for path in paths]
    return np.array(own), np.array(route, dtype=np.int64), np.array(capacity)


def crossing(route: np.ndarray, links: int) -> np.ndarray:
    """Which link each transfer crosses: (links, transfers)."""
    return np.array([(route == link).any(axis=1) for link in range(links)], dtype=float)


def by_linear_programs(own: np.ndarray, route: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """The largest smallest rate; fix who cannot have more; again for the others."""
    flows, over = len(own), crossing(route, len(capacity))
    fixed: dict[int, float] = {}

    def largest(objective: np.ndarray, least: float) -> float:
        """The most of `objective` over the rates and their floor t, all free ones >= least, t."""
        free = [flow for flow in range(flows) if flow not in fixed]
        rows = np.zeros((len(free), flows + 1))
        rows[range(len(free)), free], rows[:, -1] = -1.0, 1.0
        bounds = [
            (fixed[flow], fixed[flow]) if flow in fixed else (min(least, own[flow]), own[flow])
            for flow in range(flows)
        ]
        solved = linprog(
            -objective,
            A_ub=np.vstack([np.column_stack([over, np.zeros(len(capacity))]), rows]),
            b_ub=np.concatenate([capacity * (1 + 1e-12), np.zeros(len(free))]),
            bounds=[*bounds, (0.0, None)],
        )
        assert solved.status == 0, solved.message
        return float(-solved.fun)

    while len(fixed) < flows:
        level = largest(np.eye(flows + 1)[-1], 0.0)
        floor = level * (1 - 1e-9)
        most = {
            flow: largest(np.eye(flows + 1)[flow], floor)
            for flow in range(flows)
            if flow not in fixed
        }
        stuck = [flow for flow, rate in most.items() if rate <= level * (1 + 1e-6)]
        assert stuck
        fixed |= dict.fromkeys(stuck, floor)
    return np.array([fixed[flow] for flow in range(flows)])


@given(case=networks())
@settings(max_examples=40)
def test_equal_to_linear_programs(case: Case) -> None:
    """Lexicographically largest, as a chain of linear programs finds it."""
    np.testing.assert_allclose(max_min_rates(*case), by_linear_programs(*case), rtol=1e-5)


@given(case=networks())
@settings(max_examples=80)
def test_everybody_has_a_bottleneck(case: Case) -> None:
    """No link carries too much; who gets less than its own rate is among the first of a full one.

    These two facts are max-min fairness (Bertsekas, Gallager 1992, 6.5.2).
    """
    own, route, capacity = case
    rates, over = max_min_rates(*case), crossing(route, len(capacity))
    load = over @ rates

    assert (load <= capacity * (1 + 1e-9)).all()
    assert (rates > 0).all()
    full = load >= capacity * (1 - 1e-9)
    for flow in np.flatnonzero(rates < own * (1 - 1e-9)):
        mine = np.flatnonzero(over[:, flow] > 0)
        largest = [(rates * over[link]).max() for link in mine]
        first = rates[flow] >= np.array(largest) * (1 - 1e-9)
        assert (full[mine] & first).any()


@given(case=networks(), seed=st.integers(0, 2**32))
def test_the_order_of_transfers_does_not_matter(case: Case, seed: int) -> None:
    """Rates go with the transfer, wherever it stands."""
    own, route, capacity = case
    order = np.argsort([hash((seed, place)) for place in range(len(own))])

    shuffled = max_min_rates(own[order], route[order], capacity)

    np.testing.assert_allclose(shuffled, max_min_rates(*case)[order], rtol=1e-12)


def test_parking_lot_by_hand() -> None:
    """A long transfer over two links and a short one on each: 10 and 4 give 2, 8 and 2."""
    route = np.array([[0, 1], [0, -1], [1, -1]])

    rates = max_min_rates(np.full(3, 100.0), route, np.array([10.0, 4.0]))

    np.testing.assert_allclose(rates, [2.0, 8.0, 2.0])


def test_a_backhaul_behind_access_links() -> None:
    """Accesses of 1, 5 and 50 behind 10: the slow one keeps its 1, the others share 9."""
    rates = max_min_rates(np.array([1.0, 5.0, 50.0]), np.zeros((3, 1), int), np.array([10.0]))

    np.testing.assert_allclose(rates, [1.0, 4.5, 4.5])


def test_without_shared_links_everybody_has_its_own() -> None:
    """No route, no limit but one's own."""
    np.testing.assert_array_equal(
        max_min_rates(np.array([3.0, 4.0]), np.empty((2, 0), int), np.array([1.0])), [3.0, 4.0]
    )


def test_many_transfers_over_many_links_at_once() -> None:
    """10,000 transfers behind 50 access points and a backhaul of a third of their sum."""
    point = np.arange(10_000) % 50
    route = np.stack([point, np.full(10_000, 50)], axis=1)
    own = 1.0 + np.arange(10_000) % 7
    capacity = np.append(np.linspace(20.0, 2000.0, 50), 16_000.0)

    rates = max_min_rates(own, route, capacity)

    load = np.bincount(point, rates)
    assert (load <= capacity[:-1] * (1 + 1e-9)).all()
    assert rates.sum() == pytest.approx(16_000.0)


def test_max_min_as_a_way_to_share() -> None:
    """Behind 9 Mbit/s: two of one access point of 6 have 3 each, one that can do 2 has its 2.

    Who has an access point to itself is stopped by that, or by the backhaul.
    """
    sharing = MaxMin(access_bps=6e6, backhaul_bps=9e6)
    near = Sender(0, 50e6, route=(1, BACKHAUL))

    two, far = replace(near, client=1), replace(near, client=2, rate_bps=2e6, route=(2, BACKHAUL))

    np.testing.assert_allclose(sharing.rates_bps(Flows.of([near, two, far])), [3e6, 3e6, 2e6])
    np.testing.assert_allclose(sharing.rates_bps(Flows.of([near])), [6e6])
    crowd = [replace(near, client=point, route=(point, BACKHAUL)) for point in range(1, 5)]
    np.testing.assert_allclose(sharing.rates_bps(Flows.of(crowd)), 9e6 / 4)
    no_limit = MaxMin(backhaul_bps=9e6).rates_bps(Flows.of([near, two, far]))
    np.testing.assert_allclose(no_limit, [3.5e6, 3.5e6, 2e6])
    apart = MaxMin(access_bps=6e6).rates_bps(Flows.of([near, far, *crowd[1:]]))
    np.testing.assert_allclose(apart, [6e6, 2e6, 4e6, 6e6, 6e6])
    with pytest.raises(ValueError, match="found neither access_bps nor backhaul_bps"):
        MaxMin()
