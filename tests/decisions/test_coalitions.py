"""What switches would lead to is what they lead to."""

import numpy as np
import pytest

from simfl.decisions.coalitions import Coalitions
from simfl.decisions.divergence import coalition_counts, js_divergence, label_distribution, mean_js


def random_coalitions(seed, clients=30, edges=5, labels=4):
    """Clients with random label counts on random edge servers, number 2 left out."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 9, (clients, labels)) + 1
    edge = rng.permutation(np.arange(clients) % edges)
    edge[edge == 2] = 7
    return counts, edge


def to_others(counts, edge):
    """Each coalition's mean divergence to the others, from scratch."""
    edges, place = np.unique(edge, return_inverse=True)
    shares = label_distribution(coalition_counts(counts, place))
    js = js_divergence(shares[:, None], shares[None, :])
    return js.sum(axis=1) / (edges.size - 1)


@pytest.mark.parametrize("seed", range(5))
def test_the_outlook_on_every_switch_is_exact(seed):
    """Incremental figures equal those of the partition after the switch, made from scratch."""
    counts, edge = random_coalitions(seed)
    coalitions = Coalitions(counts, edge)

    for client in range(edge.size):
        outlook = coalitions.outlook(client)
        for index, target in enumerate(coalitions.edges):
            after = edge.copy()
            after[client] = target
            assert outlook.mean_js[index] == pytest.approx(mean_js(counts, after), abs=1e-13)
            np.testing.assert_allclose(
                outlook.to_others[index], to_others(counts, after), atol=1e-13
            )


def test_switches_keep_the_partition_in_step():
    """After many switches sizes, edge servers and divergence are those made from scratch."""
    counts, edge = random_coalitions(9)
    coalitions, rng = Coalitions(counts, edge), np.random.default_rng(1)

    for _ in range(200):
        client, target = int(rng.integers(30)), int(rng.integers(5))
        if coalitions.sizes[coalitions.place[client]] > 1:
            coalitions.switch(client, target)
            edge[client] = coalitions.edges[target]

    np.testing.assert_array_equal(coalitions.edge, edge)
    np.testing.assert_array_equal(coalitions.sizes, np.unique(edge, return_counts=True)[1])
    assert coalitions.mean_js == pytest.approx(mean_js(counts, edge), abs=1e-12)
