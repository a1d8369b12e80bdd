"""The Jensen-Shannon divergence against values computed elsewhere."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simfl.decisions.divergence import js_divergence, mean_js
from tests.decisions.views import edge_non_iid


@pytest.mark.parametrize(
    ("p", "q", "nats"),
    [
        ((1.0, 0.0), (0.0, 1.0), math.log(2.0)),
        ((1.0, 0.0), (0.5, 0.5), 0.21576155),
        ((0.9, 0.1), (0.1, 0.9), 0.36806421),
        ((0.3, 0.7), (0.3, 0.7), 0.0),
    ],
)
def test_known_values(p, q, nats):
    """The anchors of FedCure's card, in nats."""
    assert js_divergence(np.array(p), np.array(q)) == pytest.approx(nats, abs=5e-9)


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)), min_size=2, max_size=6))
def test_it_is_symmetric_and_bounded(pairs):
    """JS(p, q) = JS(q, p), between 0 and ln 2."""
    p, q = (np.array(column) + 1e-9 for column in zip(*pairs, strict=True))
    p, q = p / p.sum(), q / q.sum()

    found = js_divergence(p, q)

    assert found == js_divergence(q, p)
    assert 0.0 <= found <= math.log(2.0) + 1e-15


def test_mean_over_pairs_of_the_papers_start_is_ln_2():
    """Five edge servers with disjoint labels: every pair is ln 2 apart."""
    view = edge_non_iid(0)

    assert mean_js(view.label_counts, view.home_edge) == pytest.approx(0.69314718, abs=5e-9)


def test_edge_servers_without_clients_do_not_count():
    """The mean is over those that have a label distribution; a single one is 0 apart."""
    counts = np.array([[4, 0], [0, 4]])

    assert mean_js(counts, np.array([0, 7])) == pytest.approx(math.log(2.0))
    assert mean_js(counts, np.array([3, 3])) == 0.0
