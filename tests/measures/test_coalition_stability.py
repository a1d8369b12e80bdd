"""The certificate of coalition formation agrees with the game, and detects violations."""

from __future__ import annotations

import numpy as np
import pytest

from simfl.decisions.association.fedcure import FedCure
from simfl.decisions.divergence import mean_js as mean_js_by_entropies
from simfl.measures.coalition_stability import (
    CoalitionStability,
    coalition_counts,
    descent,
    mean_js,
    stability,
    stability_of,
)
from tests.decisions.views import edge_non_iid
from tests.measures.runs import edited, fedcure, known_latencies


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """50 clients that formed coalitions, and a few dispatches."""
    return fedcure(tmp_path_factory.mktemp("fedcure") / "run", "stop.versions=6")


def test_anchors():
    """JS of disjoint, of half-overlapping, of opposed and of equal distributions, in nats."""
    pairs = [[[1, 0], [0, 1]], [[1, 0], [1, 1]], [[9, 1], [1, 9]], [[2, 6], [1, 3]]]

    expected = [0.69314718, 0.21576155, 0.36806421, 0.0]
    assert mean_js(np.array(pairs, dtype=float)) == pytest.approx(expected, abs=5e-9)


@pytest.mark.parametrize("seed", range(20))
def test_formation_ends_nash_stable(seed):
    """From the paper's start every one of the 200 single moves was looked at, and none improves."""
    view = edge_non_iid(seed)
    edge, detail = FedCure().decide(view, np.random.default_rng(seed))

    before, after = (stability_of(view.label_counts, one) for one in (view.home_edge, edge))

    assert before.improving > 0
    assert (after.moves, after.improving) == (200, 0)
    assert after.best_change > 0
    assert mean_js(coalition_counts(view.label_counts, edge)) <= 1e-12
    assert len(detail["switches"]) >= 30


def test_moves_are_counted_one_by_one():
    """Equal clients are looked at once and counted each; a client alone does not move."""
    labels = np.array([[4, 0], [4, 0], [4, 0], [0, 4], [0, 4], [0, 4]])
    found = stability_of(labels, np.array([0, 0, 0, 1, 1, 2]))

    brute = []
    for client, target in [(c, t) for c in range(5) for t in range(3)]:
        edge = np.array([0, 0, 0, 1, 1, 2])
        if edge[client] != target:
            before = mean_js_by_entropies(labels, edge)
            edge[client] = target
            brute.append(mean_js_by_entropies(labels, edge) - before)
    assert found.moves == len(brute) == 10
    assert found.improving == sum(change < -2e-12 for change in brute)
    assert found.best_change == pytest.approx(min(brute))


def test_a_run_is_certified(run):
    """The potential falls at every switch from C(5, 2) ln 2, as logged, to a stable partition."""
    path, end = descent(run), stability(run)

    assert path.potential[0] == pytest.approx(10 * np.log(2))
    assert (np.diff(path.potential) < 0).all()
    assert path.rising == 0
    assert path.log_error < 1e-12
    assert end.improving == 0
    assert path.mean_js[-1] == pytest.approx(
        mean_js(coalition_counts(np.stack(run.clients["label_counts"]), run.clients["edge"]))
    )


def test_a_switch_that_raises_the_divergence_is_seen(run):
    """The last switch made back again is one that does not fall."""

    def return_the_last(_, row):
        last = row["detail"]["switches"][-1]
        back = {**last, "from": last["to"], "to": last["from"], "js_after": last["js_before"]}
        row["detail"]["switches"].append(back)

    assert descent(edited(run, "associate", return_the_last)).rising == 1


def test_a_wrong_figure_in_the_log_is_seen(run):
    """The log's own divergence is not believed."""

    def flatter(_, row):
        row["detail"]["switches"][3]["js_after"] -= 0.01

    assert descent(edited(run, "associate", flatter)).log_error == pytest.approx(0.01)


def test_coalitions_that_dissolve_count_as_long_as_they_have_clients(run):
    """A rule of one's own may leave an edge server empty: six coalitions, then five, of means."""
    labels, row = np.stack(run.clients["label_counts"]), run.details("associate").iloc[0]
    home = np.array(row["home_edges"])
    alone = np.where(np.arange(home.size) == 7, 9, home)

    def from_a_sixth(_, row):
        left = {"client": 7, "from": 9, "to": int(home[7]), "js_after": row["detail"]["js_home"]}
        row["detail"]["switches"].insert(0, left)
        row["detail"]["home_edges"] = alone.tolist()
        row["detail"]["js_home"] = mean_js_by_entropies(labels, alone)

    found = descent(edited(run, "associate", from_a_sixth))

    # Five of disjoint labels, and one client of edge server 0's: 14 pairs are disjoint, one equal.
    assert found.mean_js[:2] == pytest.approx([np.log(2) * 14 / 15, np.log(2)])
    assert found.potential[:2] == pytest.approx([14 * np.log(2), 10 * np.log(2)])
    assert found.log_error < 1e-12
    assert mean_js(np.array([[[3.0, 1.0]]])).tolist() == [0.0]  # nobody to differ from


@pytest.mark.parametrize("rule", ["random", "{name: kmeans, mode: sampled}"])
def test_rules_without_switches_end_in_the_runs_partition(rule, tmp_path):
    """Before: the mean JS of the population's assignment; after: that of the association."""
    run = fedcure(tmp_path / "run", "stop.versions=6", f"decisions.association={rule}")
    labels, row = np.stack(run.clients["label_counts"]), run.details("associate").iloc[0]

    figures = CoalitionStability().compute(run)

    home, end = np.array(row["home_edges"]), run.clients["edge"].to_numpy()
    assert figures["mean_js_before"] == pytest.approx(mean_js_by_entropies(labels, home))
    assert figures["mean_js_after"] == pytest.approx(mean_js_by_entropies(labels, end))
    assert figures["mean_js_after"] < figures["mean_js_before"] - 0.05
    assert figures["switches"] == 0
    assert descent(run).log_error < 1e-12


def test_an_unstable_partition_is_seen(run):
    """Two clients of different labels that change places would rather go back."""
    wrong = edited(run, "associate", lambda _, row: None)
    clients = run.clients.copy()
    labels = np.stack(clients["label_counts"])
    other = int(np.flatnonzero((labels[0] * labels).sum(axis=1) == 0)[0])
    edge = clients["edge"].to_numpy().copy()
    edge[[0, other]] = edge[[other, 0]]
    wrong.clients = clients.assign(edge=edge)

    assert stability(wrong).improving > 0
    assert stability(wrong).best_change < 0


def test_figures(run, tmp_path):
    """In the manifest's form; nothing where there are no labels to compare."""
    figures = CoalitionStability().compute(run)

    assert figures["mean_js_before"] == pytest.approx(np.log(2))
    assert figures["mean_js_after"] < 1e-3
    assert figures["rising_switches"] == figures["improving_moves"] == 0
    assert figures["moves_looked_at"] == 200
    assert CoalitionStability().compute(known_latencies(tmp_path / "run", "greedy", 6)) == {}
