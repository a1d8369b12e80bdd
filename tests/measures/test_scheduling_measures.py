"""Participation, latency, staleness, efficiency and calibration of runs of known latencies."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from scipy import stats

import simfl
from simfl.assembly.registry import names
from simfl.measures.dispatches import dispatches, whole_rounds
from simfl.measures.edge_participation import EdgeParticipation, edge_participation
from simfl.measures.efficiency import (
    Efficiency,
    best_efficiency,
    efficiency_gap,
    objective,
)
from simfl.measures.inequality import coefficient_of_variation
from simfl.measures.latency_calibration import LatencyCalibration, latency_calibration
from simfl.measures.round_latency import RoundLatency, round_latencies
from simfl.measures.staleness_distribution import StalenessDistribution, staleness_distribution
from simfl.measures.virtual_queues import virtual_queues
from tests.measures.runs import LATENCY_S, edited, fedcure, known_latencies
from tests.small import small

ROUNDS = 400


@pytest.fixture(scope="module")
def cured(tmp_path_factory):
    """FedCure on the card's five latencies."""
    return known_latencies(tmp_path_factory.mktemp("known") / "run", "fedcure", ROUNDS)


@pytest.fixture(scope="module")
def fair(tmp_path_factory):
    """Fair on the same."""
    return known_latencies(tmp_path_factory.mktemp("known") / "run", "fair", ROUNDS)


def test_dispatches_take_what_the_machines_take(cured):
    """With negligible messages a dispatch takes its client's round, up to noise."""
    table = dispatches(cured)

    means = table.groupby("edge")["latency_s"].mean()
    assert means.to_numpy() == pytest.approx(LATENCY_S, rel=0.01)
    assert (table["arrived_s"].diff().dropna() >= 0).all()
    assert len(table) == ROUNDS
    assert table["staleness"].tolist() == cured.rounds["staleness"].tolist()


def test_participation_against_what_is_owed(cured):
    """The card's shares; nobody is more than its queue's last length short of delta."""
    found = edge_participation(cured)

    assert found.shares == pytest.approx([0.208] * 4 + [0.166], abs=0.01)
    assert found.owed == pytest.approx([0.16] * 5)
    shortest = -virtual_queues(cured).lengths.max() / found.rounds
    assert found.surplus.min() > shortest
    assert EdgeParticipation().compute(cured)["surplus_min"] > 0


def test_an_edge_server_that_was_passed_over_is_seen(cured):
    """The slowest one's picks given to the fastest."""

    def pass_over(_, row):
        row["value"] = 0 if row["value"] == 4 else row["value"]

    found = edge_participation(edited(cured, "schedule", pass_over))

    assert found.surplus[4] == pytest.approx(-0.16)
    assert found.shares[0] > 0.35


@pytest.mark.parametrize("scheduling", ["random", "fedcure"])
def test_edge_servers_without_clients_do_not_count_as_passed_over(scheduling, tmp_path):
    """Two of five have nobody near: the least share and surplus are of the three others."""
    run = known_latencies(tmp_path / "run", scheduling, 40, association="nearest")
    there = np.unique(run.clients["edge"])
    shares = np.bincount(run.details("schedule")["value"].astype(int), minlength=5) / 38

    found = edge_participation(run)

    assert there.size == 3 and found.rounds == 38
    assert found.has_data.tolist() == np.isin(range(5), there).tolist()
    assert found.share_min == pytest.approx(shares[there].min()) and found.share_min > 0.1
    owed = found.owed[there] if scheduling == "fedcure" else 0.0
    assert found.surplus_min == pytest.approx((shares[there] - owed).min())
    assert found.surplus_min > 0
    figures = EdgeParticipation().compute(run)
    assert (figures["share_min"], figures["surplus_min"]) == (found.share_min, found.surplus_min)


def test_variation_of_latency(fair, cured):
    """Fair's COV is that of the five latencies, .36; round 0 does not count."""
    latencies = round_latencies(fair)

    table = dispatches(fair)
    by_hand = table[table["round"] > 0]["latency_s"]
    assert latencies.latency_s.size == ROUNDS - 5
    assert coefficient_of_variation(latencies.latency_s) == pytest.approx(
        by_hand.std(ddof=0) / by_hand.mean()
    )
    assert RoundLatency().compute(fair)["latency_cov"] == pytest.approx(0.36, abs=0.01)
    assert coefficient_of_variation(np.full(9, 3.0)) == 0.0
    gaps = latencies.gap_s
    assert RoundLatency().compute(fair)["arrival_gap_cov"] == pytest.approx(
        gaps.std() / gaps.mean()
    )


def test_a_synchronous_round_lasts_to_its_last_arrival(tmp_path):
    """Hierarchical: from the first dispatch to whichever edge server is last; round 0, too."""
    scenario = small(
        algorithm={"name": "none", "local": {"steps": 2}},
        protocol="hierarchical",
        stop={"versions": 4},
    )
    run = simfl.run(scenario, tmp_path / "run")

    found = round_latencies(run)

    # The cloud dispatches when a version is out, and aggregates from the last arrival on.
    out_s = run.rounds["time_s"].to_numpy()
    ends_s = run.events.query("kind == 'cloud_aggregate'")["start_s"].to_numpy()
    np.testing.assert_allclose(found.latency_s, ends_s - [0.0, *out_s[:-1]], rtol=1e-12)
    np.testing.assert_allclose(found.gap_s, np.diff(ends_s), rtol=1e-12)
    figures = RoundLatency().compute(run)
    assert figures["latency_mean_s"] == pytest.approx(found.latency_s.mean())
    assert whole_rounds(run)["round"].tolist() == [0, 1, 2, 3]


def test_rounds_in_vain_and_rounds_that_are_cut_short_are_none(tmp_path):
    """Hierarchical with clients that come and go, stopped at a moment: as many as versions."""
    scenario = small(
        algorithm={"name": "none", "local": {"steps": 2}},
        protocol={"name": "hierarchical", "patience": {"deadline_s": 0.3}},
        population={"availability": {"name": "periodic", "period_s": 4.0, "share": 0.05}},
        stop={"versions": 1000, "time_s": 12.1},
    )
    run = simfl.run(scenario, tmp_path / "run")

    table = whole_rounds(run)

    assert table["round"].max() >= len(table)  # one was in vain
    assert dispatches(run)["round"].max() > table["round"].max()  # one was not over
    assert (table["round"] + 1).tolist() == run.rounds["round"].tolist()
    assert (table["arrived_s"] <= run.rounds["time_s"]).all()


def test_staleness(cured):
    """With two in flight, one other model arrives in between: mean 1; all versions are counted."""
    found = staleness_distribution(cured)

    assert found.updates.sum() == ROUNDS
    assert found.mean == pytest.approx(1.0, abs=0.02)
    assert found.mean == pytest.approx(cured.rounds["staleness"].mean())
    figures = StalenessDistribution().compute(cured)
    assert figures["highest"] == cured.rounds["staleness_max"].max()
    assert figures["fresh_share"] == (cured.rounds["staleness"] == 0).mean()


def test_the_best_efficiency_of_three():
    """Two in flight, latencies 1, 2 and 4: the fastest is always one of them.

    p_1 <= (p_1 + 2 p_2 + 4 p_3) / 2 binds; with p_3 at its least .1 that is p_1 = 2 p_2 + .4.
    """
    latency_s = np.array([1.0, 2.0, 4.0])

    best = best_efficiency(latency_s, np.full(3, 0.1), 2, normaliser_s=4.0)

    second = (0.9 - 0.4) / 3
    shares = np.array([0.9 - second, second, 0.1])
    assert best == pytest.approx(1 - shares @ latency_s / 4.0)
    assert np.isnan(best_efficiency(latency_s, np.full(3, 0.33), 3, normaliser_s=4.0))
    one = best_efficiency(latency_s, np.zeros(3), 1, normaliser_s=4.0)
    assert one == pytest.approx(0.75)


def test_efficiency_rises_with_beta_and_its_gap_is_within_the_bound(tmp_path):
    """g* - mean g <= K / (2 beta) with K = 2, as Theorem 4 has it."""
    found = [
        efficiency_gap(
            known_latencies(tmp_path / str(beta), {"name": "fedcure", "beta": beta}, 200)
        )
        for beta in (0.1, 2.0)
    ]

    assert found[0].mean < found[1].mean
    assert found[0].gap > found[1].gap
    assert [one.bound for one in found] == [10.0, 0.5]
    assert all(0 <= one.gap <= one.bound for one in found)


def test_a_run_that_prefers_the_slow_exceeds_the_bound(tmp_path):
    """Greedy read backwards: always the slowest instead of the fastest, and a beta of 20."""
    run = known_latencies(tmp_path / "run", {"name": "fedcure", "beta": 20.0}, 100)

    def prefer_the_slow(number, row):
        row["value"] = 4 - number % 2

    wrong = efficiency_gap(edited(run, "schedule", prefer_the_slow))

    assert efficiency_gap(run).gap <= efficiency_gap(run).bound == 0.05
    assert wrong.gap > wrong.bound


def test_the_objective_by_hand(cured):
    """T / I summed; Z of one client per edge server that computes all the time at 1 GHz."""
    found = objective(cured, alpha=1.0, gamma=0.25, s=2.0)

    table = dispatches(cured)
    spent_s = table[table["round"] > 0]["latency_s"]
    made = cured.details("schedule")
    longest_s = np.stack(made["estimated_latency_s"]).max(axis=1)
    assert found.relative_latency == pytest.approx(spent_s.sum() / longest_s.mean())
    assert made["normaliser_s"].iloc[-1] == pytest.approx(longest_s.mean())
    client_rounds = cured.details("compute").merge(table[table["round"] > 0], on=["round", "edge"])
    idle_share = 1.0 - client_rounds["duration_s"] / client_rounds["latency_s"]
    assert len(client_rounds) == len(spent_s)
    assert found.utility == pytest.approx(idle_share.mean() - 0.25 * 1.0**2)
    assert found.utility == pytest.approx(-0.25, abs=0.01)
    assert found.frequency_hz == pytest.approx(1e9)
    assert found.rounds == ROUNDS - 5


def test_clocks_of_the_allocation_count_in_z(tmp_path):
    """FedCure's frequencies give a higher Z than the highest clocks: that is what they are for."""
    chosen = objective(fedcure(tmp_path / "chosen"))
    highest = objective(fedcure(tmp_path / "highest", "decisions.allocation=max"))

    assert chosen.utility > highest.utility
    assert chosen.frequency_hz < highest.frequency_hz


def test_the_interval_is_the_posterior_s(cured):
    """Student-t with 2 an degrees of freedom, of the row's own edge server, before the arrival."""
    found = latency_calibration(cured, level=0.5)

    first = cured.details("schedule").iloc[0]
    edge = int(first["value"])
    scale = np.sqrt(
        first["bn"][edge] * (first["kn"][edge] + 1) / (first["an"][edge] * first["kn"][edge])
    )
    low, high = stats.t.interval(
        0.5, 2 * first["an"][edge], loc=first["estimated_latency_s"][edge], scale=scale
    )
    table = dispatches(cured)
    at = int((table[table["round"] > 0]["round"] == 1).to_numpy().argmax())
    assert (found.low_s[at], found.high_s[at]) == pytest.approx((low, high))
    assert found.observed_s[at] == table[table["round"] == 1]["latency_s"].iloc[0]


@pytest.mark.slow
def test_a_prior_of_the_right_spread_is_calibrated(tmp_path):
    """2 % noise under a prior of 2 %: 90 % of the latencies within the 90 % interval.

    With the prior's mean counting for little: those of slow edge servers are far off.
    """
    estimator = {"name": "nig", "prior_spread": 0.02, "prior_weight": 1e-3}
    run = known_latencies(tmp_path / "run", "fair", 1000, estimator=estimator)

    figures = LatencyCalibration().compute(run)

    assert figures["inside_interval"] == pytest.approx(0.9, abs=0.03)
    assert figures["relative_error"] == pytest.approx(0.02 * np.sqrt(2 / np.pi), rel=0.15)
    assert figures["predictions"] == 1000 - 5


def test_a_posterior_that_is_too_sure_is_seen(cured):
    """A hundredth of the variance leaves most latencies outside."""

    def be_sure(_, row):
        row["detail"]["bn"] = [value / 1e4 for value in row["detail"]["bn"]]

    assert latency_calibration(cured).inside > 0.9
    assert latency_calibration(edited(cured, "schedule", be_sure)).inside < 0.5


def test_latencies_are_those_that_the_estimator_learns(tmp_path):
    """They begin at the decision, even if a broken link is repaired first, as the estimator
    observes.
    """
    faults = {"cloud_link": {"works": {"mean_s": 0.3}, "broken": {"mean_s": 0.3}}}
    scenario = small(
        population={"edges": 4, "faults": faults},
        protocol={"name": "semi_asynchronous", "edge_rounds": 2, "concurrency": 2},
        decisions={"scheduling": "fair", "estimator": "nig"},
        stop={"versions": 30},
    )
    run = simfl.run(scenario, tmp_path / "run")
    made = run.details("schedule").sort_values("round")
    learned, sums, latest = {}, {}, {}
    for row in made.itertuples():
        for edge, (weight, mean_s) in enumerate(zip(row.kn, row.estimated_latency_s, strict=True)):
            before, total = sums.get(edge, (None, 0.0)), weight * mean_s
            if edge in latest and before[0] == weight - 1:
                learned[latest[edge]] = total - before[1]
            sums[edge] = (weight, total)
        latest[int(row.value)] = int(row.round)

    found = latency_calibration(run)

    table = dispatches(run).merge(made[["round"]], on="round")
    some = [number for number, one in enumerate(table["round"]) if one in learned]
    assert len(some) > 20
    rounds = table["round"].iloc[some]
    assert found.observed_s[some] == pytest.approx([learned[one] for one in rounds])
    assert (found.observed_s > table["latency_s"] + 0.05).any()  # some waited for a repair


def test_without_a_posterior_there_is_nothing_to_calibrate(tmp_path):
    """Other estimators have none."""
    run = known_latencies(tmp_path / "run", "fedcure", 10, estimator="last")

    assert LatencyCalibration().compute(run) == {}


@pytest.mark.parametrize("protocol", ["synchronous", "asynchronous", "hierarchical"])
def test_every_measure_says_what_it_can_of_any_run(protocol, tmp_path):
    """Protocols without decisions of the cloud have no queues; nothing fails."""
    extras = {"lime_masks": "lime", "privacy": "dp_accounting"}
    measures = [one for one in names("measures") if one not in extras or find_spec(extras[one])]
    scenario = small(
        protocol=protocol,
        stop={"versions": 2},
        data={"validation_share": 0.1},
        evaluate={"measures": measures},
    )

    run = simfl.run(scenario, tmp_path / "run")

    figures = run.manifest["measures"]
    assert set(figures) == set(measures)
    assert figures["virtual_queues"] == figures["efficiency"] == {}
    assert figures["waiting"]
    assert Efficiency().compute(run) == {}
