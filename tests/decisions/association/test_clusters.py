"""Clusters of similar clients as coalitions."""

import numpy as np
import pytest

from simfl.decisions.association.kmeans import KMeans
from simfl.decisions.association.mean_shift import MeanShift
from simfl.decisions.clusters import at_home, merged
from simfl.decisions.divergence import mean_js
from tests.decisions.views import association_view, edge_non_iid

RULES = [KMeans(), MeanShift()]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(3))
def test_the_papers_start_is_found_again(rule, seed):
    """Five clusters of two labels each, every client where it was: the paper's figure."""
    view = edge_non_iid(seed)

    edge, detail = rule.decide(view, np.random.default_rng(seed))

    assert len(set(detail["clusters"])) == 5
    np.testing.assert_array_equal(edge, view.home_edge)


@pytest.mark.parametrize("rule", RULES)
def test_like_clients_are_put_together(rule):
    """A mixed start ends with every edge server's clients alike: disjoint labels."""
    view = edge_non_iid(0)
    mixed = association_view(view.label_counts, np.arange(50) % 5)

    edge, _ = rule.decide(mixed, np.random.default_rng(0))

    assert mean_js(view.label_counts, edge) == pytest.approx(np.log(2.0))


@pytest.mark.parametrize("rule", [KMeans(mode="sampled"), MeanShift(mode="sampled")])
def test_sampled_deals_each_cluster_out(rule):
    """Every edge server gets as many clients of every cluster."""
    view = edge_non_iid(0)

    edge, _ = rule.decide(view, np.random.default_rng(0))

    assert mean_js(view.label_counts, edge) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_clients_that_are_all_alike_are_one_cluster(rule):
    """Fewer clusters than edge servers leave edge servers without clients."""
    view = association_view([[5, 5]] * 6, [0, 0, 1, 1, 2, 2])

    edge, _ = rule.decide(view, np.random.default_rng(0))

    assert len(set(edge)) == 1


def test_surplus_clusters_join_the_nearest():
    """The smallest goes first, to the nearest centre."""
    features = np.array([[0.0], [0.0], [1.0], [1.0], [0.9], [5.0], [5.0]])

    found = merged(np.array([0, 0, 1, 1, 2, 3, 3]), features, 3)

    assert found.tolist() == [0, 0, 1, 1, 1, 2, 2]


def test_clusters_stay_where_most_of_their_clients_are():
    """Cluster numbers mean nothing: they are matched with the clients' edge servers."""
    home = np.array([0, 0, 1, 1, 2, 2])

    assert at_home(np.array([2, 2, 0, 0, 1, 0]), home, 3).tolist() == [0, 0, 1, 1, 2, 1]
