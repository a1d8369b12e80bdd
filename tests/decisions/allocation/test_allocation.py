"""CPU frequencies against numerical optima."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from simfl.decisions.allocation.capped import Capped
from simfl.decisions.allocation.deadline import Deadline
from simfl.decisions.allocation.fedcure import FedCure
from simfl.decisions.allocation.min_energy import MinEnergy
from tests.decisions.views import client_view

RNG = np.random.default_rng(0)


def frequency_ghz(rule, **columns):
    """What the rule sets for one client, in GHz."""
    columns = {name: np.array([value], dtype=float) for name, value in columns.items()}
    defaults = {"frequency_min_hz": np.array([1e3]), "frequency_max_hz": np.array([1e12])}
    return float(rule.decide(client_view([0], **{**defaults, **columns}), RNG)[0] / 1e9)


def utility(f, alpha, gamma, s, c, latency_s):
    """Eq. 6, in GHz and Gcycles."""
    return alpha * (1.0 - (c / f) / latency_s) - gamma * f**s


def test_fedcures_frequency_by_hand():
    """The card's anchor: alpha 1, c 2 Gcycles, s 2, gamma .5, 4 s."""
    rule = FedCure(alpha=1.0, gamma=0.5, s=2.0)

    f = frequency_ghz(rule, cycles=2e9, edge_latency_s=4.0)

    assert f == pytest.approx(0.79370053, abs=5e-9)
    z = [utility(share * f, 1.0, 0.5, 2.0, 2.0, 4.0) for share in (1.0, 0.9, 1.1)]
    assert z == pytest.approx([0.05505921, 0.04490985, 0.04618249], abs=1e-8)
    step = 1e-5
    slope = (utility(f + step, 1, 0.5, 2, 2, 4) - utility(f - step, 1, 0.5, 2, 2, 4)) / (2 * step)
    assert slope == pytest.approx(0.0, abs=1e-8)
    assert frequency_ghz(
        rule, cycles=2e9, edge_latency_s=4.0, frequency_max_hz=0.5e9
    ) == pytest.approx(0.5)


@pytest.mark.parametrize("seed", range(20))
def test_fedcures_frequency_is_the_numerical_optimum(seed):
    """Eq. 16 maximises Eq. 6 for random weights, exponents, loads and latencies."""
    rng = np.random.default_rng(seed)
    alpha, gamma, s = rng.uniform(0.2, 3), rng.uniform(0.05, 2), rng.uniform(0.5, 4)
    c, latency_s = rng.uniform(0.5, 60), rng.uniform(0.5, 60)

    f = frequency_ghz(FedCure(alpha, gamma, s), cycles=c * 1e9, edge_latency_s=latency_s)

    best = minimize_scalar(
        lambda log_f: -utility(np.exp(log_f), alpha, gamma, s, c, latency_s),
        bounds=(np.log(1e-3), np.log(1e3)),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert f == pytest.approx(np.exp(best.x), rel=1e-5)


def test_the_feedback_ends_at_the_fixed_point():
    """A lone client that only computes settles at (alpha / (s gamma))^(1/s): here 1 GHz."""
    rule, latency_s = FedCure(alpha=1.0, gamma=0.5, s=2.0), 50.0
    for _ in range(60):
        latency_s = 2.0 / frequency_ghz(rule, cycles=2e9, edge_latency_s=latency_s)

    assert 2.0 / latency_s == pytest.approx(1.0)


@pytest.mark.parametrize("latency_s", [np.nan, 0.0])
def test_without_an_estimate_the_highest_frequency_is_set(latency_s):
    """The card's A7."""
    f = frequency_ghz(FedCure(), cycles=2e9, edge_latency_s=latency_s, frequency_max_hz=3e9)

    assert f == 3.0


@pytest.mark.parametrize("seed", range(10))
def test_min_energy_is_the_numerical_optimum(seed):
    """f* minimises static plus dynamic energy per cycle."""
    rng = np.random.default_rng(seed)
    kappa, static_w = rng.uniform(0.5, 3) * 1e-28, rng.uniform(0.05, 2.0)

    f = frequency_ghz(MinEnergy(), kappa=kappa, power_static_w=static_w)

    best = minimize_scalar(
        lambda ghz: static_w / ghz + kappa * 1e27 * ghz**2,
        bounds=(0.01, 10.0),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert f == pytest.approx(best.x, rel=1e-5)


def test_min_energy_at_its_limits():
    """Without static power the lowest clock, under another law of power the highest."""
    bounds = {"frequency_min_hz": 6e8, "frequency_max_hz": 2e9}

    assert frequency_ghz(MinEnergy(), kappa=1e-28, power_static_w=0.0, **bounds) == 0.6
    assert frequency_ghz(MinEnergy(), **bounds) == 2.0


def test_deadline_lets_everybody_finish_with_the_slowest():
    """The slowest at its highest clock, the others just in time."""
    view = client_view(
        [0, 1, 2],
        cycles=np.array([8e9, 8e9, 2e9]),
        transfer_s=np.array([1.0, 2.0, 1.0]),
        frequency_max_hz=np.array([1e9, 2e9, 2e9]),
    )

    frequency_hz = Deadline().decide(view, RNG)

    assert frequency_hz[0] == 1e9
    np.testing.assert_allclose(view.cycles / frequency_hz + view.transfer_s, 9.0)


def test_deadline_of_ones_own():
    """A given deadline, its slack, and a client that cannot meet it."""
    view = client_view(
        [0, 1, 2],
        cycles=np.array([8e9, 8e9, 2e9]),
        transfer_s=np.array([1.0, 5.5, 1.0]),
        frequency_max_hz=np.full(3, 3e9),
    )

    assert Deadline(deadline_s=5.0).decide(view, RNG).tolist() == pytest.approx([2e9, 3e9, 0.5e9])
    assert Deadline(deadline_s=5.0, slack=1.8).decide(view, RNG)[0] == pytest.approx(1e9)


@pytest.mark.parametrize("rule", [Deadline(), FedCure(), MinEnergy()])
def test_nothing_known_is_no_obstacle(rule):
    """The highest frequency where no estimate is at hand."""
    assert rule.decide(client_view([0, 1]), RNG).tolist() == [3e9, 3e9]


def test_a_cap_is_one_clock_for_all_or_a_share_of_each_clients_own():
    """Exactly one of them is given."""
    view = client_view([0, 1], frequency_max_hz=np.array([1e9, 3e9]))

    assert Capped(frequency_hz=2e9).decide(view, RNG).tolist() == [1e9, 2e9]
    assert Capped(share=0.5).decide(view, RNG).tolist() == [0.5e9, 1.5e9]
    for keys in ({}, {"frequency_hz": 1e9, "share": 0.5}):
        with pytest.raises(ValueError, match="one cap"):
            Capped(**keys)
