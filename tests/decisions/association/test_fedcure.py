"""Coalition formation ends at equal label distributions, by strict improvements only."""

import time

import numpy as np
import pytest

from simfl.decisions.association.fedcure import FedCure
from simfl.decisions.divergence import mean_js
from tests.decisions.views import association_view, edge_non_iid


def formed(view, seed, **options):
    """The edge servers and details of a formation."""
    return FedCure(**options).decide(view, np.random.default_rng(seed))


@pytest.mark.parametrize("labels_per_client", [1, 2])
@pytest.mark.parametrize("seed", range(20))
def test_from_ln_2_to_0_strictly_falling(seed, labels_per_client):
    """The paper's start: mean JS goes from 0.6931 to 0 and falls with every switch."""
    view = edge_non_iid(seed, labels_per_client)

    edge, detail = formed(view, seed)

    trajectory = [one["js_before"] for one in detail["switches"]] + [
        mean_js(view.label_counts, edge)
    ]
    assert trajectory[0] == pytest.approx(0.69314718, abs=5e-9)
    assert trajectory[-1] <= 1e-12
    assert all(np.diff(trajectory) < 0)
    assert detail["stable"]
    assert 30 <= len(detail["switches"]) <= 50


def random_view(seed, clients=60, edges=6, labels=5):
    """Clients with skewed label counts."""
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(50, np.ones(labels) / labels, clients) ** 2 + 1
    counts[:, 0] += np.arange(clients) * 5
    return association_view(counts, np.arange(clients) % edges)


@pytest.mark.parametrize("seed", range(5))
def test_the_end_is_nash_stable(seed):
    """No switch of a single client, of all clients and targets, lowers the mean JS."""
    view = random_view(seed)

    edge, detail = formed(view, seed)

    reached = mean_js(view.label_counts, edge)
    assert detail["stable"]
    for client in view.clients:
        if (edge == edge[client]).sum() == 1:
            continue
        for target in range(6):
            other = edge.copy()
            other[client] = target
            assert mean_js(view.label_counts, other) >= reached - 2e-12


def test_a_switch_changes_the_potential_by_as_much_as_the_clients_cost():
    """Exact potential: the sum over pairs changes by C(M, 2) times the change of the mean JS."""
    view = edge_non_iid(3)
    edge = view.home_edge.copy()

    _, detail = formed(view, 3)

    for one in detail["switches"]:
        assert edge[one["client"]] == one["from"]
        before = mean_js(view.label_counts, edge)
        edge[one["client"]] = one["to"]
        after = mean_js(view.label_counts, edge)
        pairs = 5 * 4 / 2
        potential = pairs * (after - before)
        assert potential == pytest.approx(pairs * (one["js_after"] - one["js_before"]), abs=1e-12)
        assert potential < 0


def test_no_coalition_is_emptied():
    """A client alone in its coalition stays, whatever its leaving would gain."""
    view = association_view([[8, 0], [0, 8], [8, 0], [8, 0]], [0, 1, 1, 1])

    edge, _ = formed(view, 0)

    assert edge[0] == 0
    assert set(edge) == {0, 1}


def test_the_number_of_proposals_is_bounded():
    """One sweep of the paper's start is not enough, and is said not to be stable."""
    _, detail = formed(edge_non_iid(0), 0, proposals_per_client=1)

    assert detail["proposals"] == 50
    assert not detail["stable"]


def test_data_without_labels_are_refused():
    """There is nothing to make alike."""
    view = association_view(np.zeros((4, 0), dtype=int), [0, 0, 1, 1])

    with pytest.raises(ValueError, match="label counts"):
        formed(view, 0)


def test_a_thousand_clients_form_in_seconds():
    """1,000 clients on 20 edge servers reach a stable partition."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(10, 0.3), 1000)
    counts = np.stack([rng.multinomial(100, share) for share in shares])
    view = association_view(counts, np.repeat(np.arange(20), 50))

    started = time.process_time()
    edge, detail = formed(view, 0)
    spent_s = time.process_time() - started

    assert detail["stable"]
    assert mean_js(counts, edge) < mean_js(counts, view.home_edge) / 10
    assert spent_s < 20
