"""The preference rules that FedCure is measured against."""

import numpy as np
import pytest

from simfl.decisions.association.fedcure import FedCure
from simfl.decisions.association.pareto import Pareto
from simfl.decisions.association.random import Random
from simfl.decisions.association.reputation_hedonic import ReputationHedonic
from simfl.decisions.association.selfish import Selfish
from simfl.decisions.coalitions import Coalitions
from simfl.decisions.divergence import js_divergence, mean_js
from tests.decisions.views import association_view, edge_non_iid


def skewed(seed):
    """30 clients of 1 to 3 out of 6 labels on 3 edge servers."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((30, 6), dtype=int)
    for client in range(30):
        held = rng.choice(6, rng.integers(1, 4), replace=False)
        counts[client, held] = rng.integers(5, 60, held.size)
    return association_view(
        counts,
        np.repeat(np.arange(3), 10),
        position_m=rng.uniform(0, 1000, (30, 2)),
        edge_position_m=rng.uniform(0, 1000, (3, 2)),
    )


def replayed(view, switches):
    """The partition before each switch, with the switch."""
    edge = view.home_edge.copy()
    for one in switches:
        assert edge[one["client"]] == one["from"]
        yield edge.copy(), one
        edge[one["client"]] = one["to"]


@pytest.mark.parametrize("rule", [Selfish(), Pareto(), ReputationHedonic()])
@pytest.mark.parametrize("seed", range(5))
def test_every_rule_ends_without_an_empty_coalition(rule, seed):
    """The formation is stable, its log leads to its result, and all edge servers have clients."""
    view = skewed(seed)

    edge, detail = rule.decide(view, np.random.default_rng(seed))

    assert detail["stable"]
    assert set(edge) == {0, 1, 2}
    final = view.home_edge.copy()
    for one in detail["switches"]:
        final[one["client"]] = one["to"]
    np.testing.assert_array_equal(edge, final)


@pytest.mark.parametrize("rule", [Selfish(), ReputationHedonic()])
def test_a_selfish_client_does_not_return(rule):
    """Nobody enters a coalition that it has been in."""
    view = skewed(1)

    _, detail = rule.decide(view, np.random.default_rng(1))

    visits = [(client, edge) for client, edge in enumerate(view.home_edge.tolist())]
    visits += [(one["client"], one["to"]) for one in detail["switches"]]
    assert len(visits) == len(set(visits))
    assert detail["switches"]


def test_a_selfish_client_brings_its_own_coalition_nearer_to_uniform():
    """The coalition joined is, with the client, nearer to uniform than the one left was."""
    view = skewed(2)
    uniform = np.full(6, 1 / 6)

    _, detail = Selfish().decide(view, np.random.default_rng(2))

    for edge, one in replayed(view, detail["switches"]):
        distance = js_divergence(Coalitions(view.label_counts, edge).joined(one["client"]), uniform)
        assert distance[one["to"]] < distance[one["from"]]


def test_a_pareto_switch_harms_nobody():
    """No coalition's mean divergence to the others rises, at least one falls."""
    view = skewed(3)

    _, detail = Pareto().decide(view, np.random.default_rng(3))

    assert detail["switches"]
    for edge, one in replayed(view, detail["switches"]):
        outlook = Coalitions(view.label_counts, edge).outlook(one["client"])
        change = outlook.to_others[one["to"]] - outlook.to_others[one["from"]]
        assert (change <= 1e-12).all()
        assert (change < 0).any()


@pytest.mark.parametrize("seed", range(5))
def test_fedcure_ends_lower_than_the_selfish_rules(seed):
    """What the paper says of its preference rule; Pareto's local optimum may happen to be lower."""
    view = skewed(seed)
    js = {
        type(rule).__name__: mean_js(
            view.label_counts, rule.decide(view, np.random.default_rng(seed))[0]
        )
        for rule in (FedCure(), Selfish(), ReputationHedonic())
    }

    assert min(js, key=js.__getitem__) == "FedCure"


def test_reputation_decides_between_equal_coalitions():
    """With equal data and no distance a client's pay is its head's reputation."""
    view = association_view([[4]] * 8, [0, 0, 0, 0, 1, 1, 1, 1])
    rng = np.random.default_rng(0)
    reputation = np.random.default_rng(0).uniform(0.5, 1.0, 2)
    preferred = ReputationHedonic().preference(
        view, Coalitions(view.label_counts, view.home_edge), rng
    )

    # u(own) = rho ln(5 / 4), u(other) = rho' ln(6 / 5)
    gains = reputation[1] * np.log(6 / 5) > reputation[0] * np.log(5 / 4)
    assert preferred(0) == int(gains)


def test_distance_keeps_clients_with_the_nearest_head():
    """A high price of distance decides alone."""
    view = association_view(
        [[4]] * 4,
        [1, 1, 0, 0],
        position_m=np.array([[0.0, 0], [1, 0], [99, 0], [100, 0]]),
        edge_position_m=np.array([[0.0, 0], [100, 0]]),
    )

    edge, _ = ReputationHedonic(distance_weight=100.0).decide(view, np.random.default_rng(0))

    assert edge.tolist() == [0, 0, 1, 1]


def test_random_deals_evenly():
    """Sizes differ by one at most, and the order is random."""
    view = edge_non_iid(0)

    first, _ = Random().decide(view, np.random.default_rng(0))
    second, _ = Random().decide(view, np.random.default_rng(1))

    assert np.bincount(first).tolist() == [10] * 5
    assert (first != second).any()
