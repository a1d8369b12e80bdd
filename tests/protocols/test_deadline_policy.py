"""Over-selection and deadlines: who is waited for, and what becomes of the others."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from simfl.algorithms.fedavg import FedAvg
from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.protocols.deadline_policy import DeadlinePolicy
from simfl.scenario.yaml_source.error import ScenarioError
from tests.protocols.faults import tails_after
from tests.small import final_weights, largest_difference, simulated, small

POLYNOMIAL = {"staleness": {"name": "polynomial", "exponent": 0.5}}


def flat(versions=6, **patience):
    """Synchronous rounds of all eight clients under this patience."""
    return small(
        protocol={"name": "synchronous", "patience": patience},
        decisions=POLYNOMIAL,
        stop={"versions": versions},
    )


def events(folder):
    """The run's rows of a kind, by its name."""
    rows = pq.read_table(folder / "events.parquet").to_pandas()
    return lambda kind: rows[rows["kind"] == kind]


@pytest.mark.parametrize(
    ("patience", "least", "closes_s"),
    [
        (DeadlinePolicy(), 1, 19.0),
        (DeadlinePolicy(over_selection=1.25), 1, 17.0),  # 4 of 5
        (DeadlinePolicy(over_selection=2.0), 1, 14.0),  # 2.5 of 5 are 3
        (DeadlinePolicy(deadline_s=5.0), 1, 15.0),
        (DeadlinePolicy(deadline_s=100.0), 1, 19.0),
        (DeadlinePolicy(deadline_s=0.5), 1, 11.0),  # nobody is there yet: the first is awaited
        (DeadlinePolicy(deadline_s=0.5), 3, 14.0),
        (DeadlinePolicy(deadline_s=0.5), 9, 19.0),
        (DeadlinePolicy(deadline_s=5.0, over_selection=5.0), 1, 11.0),
        (DeadlinePolicy(deadline_s=0.5, least_updates=1), 1, 10.5),
        (DeadlinePolicy(deadline_s=3.0, least_updates=4), 1, 13.0),
        (DeadlinePolicy(deadline_s=8.0, over_selection=2.0, least_updates=2), 1, 14.0),
        (DeadlinePolicy(deadline_s=8.0, over_selection=2.0, least_updates=4), 1, 17.0),
        (DeadlinePolicy(deadline_s=8.0, over_selection=2.0, least_updates=2), 4, 17.0),
        (DeadlinePolicy(least_updates=9), 1, 19.0),
    ],
)
def test_a_round_closes_when_enough_are_there_or_at_the_deadline(patience, least, closes_s):
    """Dispatched at 10 s, uploads at 11, 12, 14, 17 and 19 s; `least` are awaited in any case."""
    uploaded_s, stay = np.array([14.0, 11.0, 19.0, 12.0, 17.0]), np.full(5, np.inf)

    assert patience.closes_s(10.0, uploaded_s, uploaded_s, least, stay) == closes_s


@pytest.mark.parametrize("factor", [1.1, 1.3, 1.7])
@pytest.mark.parametrize("tens", range(1, 20))
def test_over_selection_is_not_rounded_up(factor, tens):
    """13 selected at 1.3 times too many are 10 waited for, whatever 13 / 1.3 rounds to."""
    selected = round(10 * tens * factor)

    uploaded_s, stay = np.arange(1.0, selected + 1), np.full(selected, np.inf)

    closes_s = DeadlinePolicy(over_selection=factor).closes_s(0.0, uploaded_s, uploaded_s, 1, stay)

    assert closes_s == 10 * tens


@pytest.mark.parametrize(
    ("away_s", "least", "closes_s"),
    [
        ([np.inf, np.inf], 1, 7.0),
        ([np.inf, np.inf], 2, 9.0),
        ([1.0, 2.0], 1, 3.0),  # both have gone
        ([1.0, np.inf], 1, 7.0),  # for the other one, but the first is back and there before
        ([1.0, np.inf], 2, 9.0),
        ([np.inf, 2.0], 2, 7.0),  # nobody is left who stayed
        ([5.0, 4.0], 1, 5.0),  # at the deadline nobody knows that they will go
        ([8.0, 2.0], 1, 7.0),
    ],
)
def test_beyond_the_deadline_nobody_who_has_gone_away_is_awaited(away_s, least, closes_s):
    """Uploads at 7 and 9 s, a deadline at 3 s: `least` are awaited while somebody has stayed."""
    uploaded_s = np.array([7.0, 9.0])

    one = DeadlinePolicy(deadline_s=3.0).closes_s(
        0.0, uploaded_s, uploaded_s, least, np.array(away_s)
    )

    assert one == closes_s


@pytest.mark.parametrize(("late_s", "closes_s"), [(4e-13, 13.0 + 4e-13), (1e-9, 13.0)])
def test_an_update_is_not_late_by_the_last_bits_of_a_sum(late_s, closes_s):
    """Two updates at 11 and, but for rounding, at the deadline of 13 s; one never comes."""
    uploaded_s = np.array([11.0, 13.0 + late_s, 50.0])
    stay = np.full(3, np.inf)

    assert (
        DeadlinePolicy(deadline_s=3.0).closes_s(10.0, uploaded_s, uploaded_s, 1, stay) == closes_s
    )


def test_updates_of_those_who_were_away_count_at_the_deadline():
    """An update is there at 2 s though its client had paused: the round closes at the deadline."""
    uploaded_s, away_s = np.array([2.0, 50.0]), np.array([1.0, np.inf])

    assert DeadlinePolicy(deadline_s=3.0).closes_s(0.0, uploaded_s, uploaded_s, 1, away_s) == 3.0


LEAST = {"synchronous": 6, "hierarchical": 3}


def few(protocol, late, folder):
    """A run whose rounds close after 0.015 s, often with too few updates; and rows by kind."""
    patience = {"deadline_s": 0.015, "least_updates": LEAST[protocol], "late": late}
    _, run = simulated(
        small(
            population={"straggler_mean": 1.0, "straggler_shift": 0.0},
            algorithm={"name": "none", "local": {"epochs": 5, "batch_size": 16}},
            protocol={"name": protocol, "patience": patience, "wait_for": {"clients": 4}},
            decisions=POLYNOMIAL,
            stop={"versions": 20},
        ),
        folder,
    )
    return run, events(folder)


@pytest.mark.parametrize("late", ["drop", "carry_over"])
@pytest.mark.parametrize("protocol", LEAST)
def test_rounds_with_too_few_updates_are_given_up(protocol, late, tmp_path):
    """No aggregation has fewer updates; those of rounds given up count as dropped."""
    run, of = few(protocol, late, tmp_path)

    given_up, late_rows, least = of("given_up"), of("late"), LEAST[protocol]
    aggregated = of("edge_aggregate" if protocol == "hierarchical" else "cloud_aggregate")
    taken = [json.loads(detail)["updates"] for detail in aggregated["detail"]]
    assert len(given_up) > 1 and given_up["value"].max() < least <= min(taken)
    assert set(given_up["detail"]) == {f'{{"needed": {least}}}'}
    dropped = int(given_up["value"].sum())
    if late == "drop":
        assert dropped > 0
        dropped += int((late_rows["time_s"] <= run.clock.now_s).sum())
    assert run.observations.dropped.sum() == run.wasted["wasted_rounds"] == dropped
    assert all(run.laws.values())


def test_a_round_given_up_ends_at_its_deadline_and_its_joules_are_wasted(tmp_path):
    """Recomputed from the log, which says whose updates arrived in such rounds, or too late."""
    run, of = few("synchronous", "drop", tmp_path)

    given_up, uploads = of("given_up"), of("upload")
    began_s = of("select").set_index("round")["time_s"][given_up["round"]].to_numpy()
    assert (given_up["time_s"] <= began_s + 0.015 + 1e-12).all()
    assert np.isclose(given_up["time_s"], began_s + 0.015).sum() > 2
    arrived = uploads[uploads["bytes"] > 0][["client", "round"]]
    late = of("late")[["client", "round"]]
    in_vain = arrived["round"].isin(given_up["round"])
    in_vain |= arrived.merge(late, how="left", indicator=True)["_merge"].eq("both").to_numpy()
    wasted_j = sum(
        of(kind).merge(arrived[in_vain])["active_j"].sum()
        for kind in ("download", "compute", "upload")
    )
    assert 0 < in_vain.sum() < len(arrived)
    tails_j = tails_after(
        arrived[in_vain], pq.read_table(tmp_path / "events.parquet").to_pandas(), run
    )
    assert tails_j > 0
    wasted_j += tails_j
    assert run.wasted["wasted_active_j"] == pytest.approx(wasted_j, rel=1e-9)


@pytest.mark.parametrize("late", ["drop", "carry_over"])
def test_patience_that_nobody_exceeds_changes_nothing(tmp_path, late):
    """With a deadline after the last upload the log is that of a server that waits for all."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    simulated(flat(), tmp_path / "a")
    simulated(flat(deadline_s=1e6, late=late), tmp_path / "b")

    logs = [(tmp_path / name / "events.parquet").read_bytes() for name in "ab"]
    assert logs[0] == logs[1]


def test_dropped_updates_cost_their_clients_but_train_nothing(tmp_path):
    """Six of eight count in every round; the others compute, upload and are named as late."""
    _, run = simulated(flat(over_selection=8 / 6), tmp_path)
    of = events(tmp_path)

    late, uploads = of("late"), of("upload")
    horizon_s = run.clock.now_s
    aggregated = [json.loads(detail)["updates"] for detail in of("cloud_aggregate")["detail"]]
    assert len(late) > 0
    assert set(late["detail"]) == {'{"then": "drop"}'}
    # Whoever is still under way is not selected, so rounds may be smaller than eight.
    selected = of("select")["value"].to_numpy().astype(int)
    assert selected.min() < 8
    assert aggregated == [int(np.ceil(count * 6 / 8)) for count in selected]
    assert run.values.trainer.trained == sum(aggregated)
    arrived = uploads[uploads["bytes"] > 0]
    assert len(arrived) == sum(aggregated) + (late["time_s"] <= horizon_s).sum()
    assert all(run.laws.values())


def test_late_updates_are_carried_over_once_each(tmp_path):
    """Every upload that arrives before the last close is in exactly one aggregation."""
    _, run = simulated(flat(over_selection=2.0, late="carry_over"), tmp_path)
    of = events(tmp_path)

    merged = of("cloud_aggregate")
    taken = [json.loads(detail)["updates"] for detail in merged["detail"]]
    last_close_s = merged["start_s"].max()
    uploads = of("upload")
    assert sum(taken) == (uploads["time_s"] <= last_close_s).sum()
    assert merged["staleness"].max() > 0
    assert all(run.laws.values())


def test_a_carried_over_update_counts_by_its_staleness(monkeypatch):
    """By hand: w2 = w1 + sum n_i s_i delta_i / sum n_i, where s is 2^-1/2 for the late client."""
    aggregations = []
    aggregate = FedAvg.aggregate

    def recording(self, state, updates, evaluator):
        aggregations.append((state.weights, updates))
        return aggregate(self, state, updates, evaluator)

    monkeypatch.setattr(FedAvg, "aggregate", recording)
    everybody = simulated(flat(1))[1]
    (first, trained), *_ = aggregations
    aggregations.clear()
    run = simulated(flat(2, over_selection=8 / 7, late="carry_over"))[1]

    (_, fresh), (second, updates) = aggregations
    (late,) = [update for update in updates if update.staleness]
    assert everybody.values.trainer.trained == 8
    assert late.client not in {update.client for update in fresh}
    (its_job,) = [update for update in trained if update.client == late.client]
    for name, weights in final_weights(run).items():
        moved = sum(
            update.num_examples * (update.payload[name] - second[name])
            for update in updates
            if update is not late
        )
        moved = moved + 2**-0.5 * late.num_examples * (its_job.payload[name] - first[name])
        total = sum(update.num_examples for update in updates)
        assert torch.allclose(weights, second[name] + moved / total, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cap", [1, 3])
def test_deadlines_do_not_depend_on_how_jobs_are_batched(tmp_path, cap):
    """Stragglers' jobs are trained later and with other jobs; no byte of the log changes."""
    scenario = flat(over_selection=2.0, late="carry_over")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    one = simulated(scenario, tmp_path / "a")[1]
    other = simulated(scenario, tmp_path / "b", cohort_cap=cap)[1]

    logs = [(tmp_path / name / "events.parquet").read_bytes() for name in "ab"]
    assert logs[0] == logs[1]
    assert largest_difference(final_weights(one), final_weights(other)) == 0.0


@pytest.mark.parametrize("protocol", ["hierarchical", "semi_asynchronous"])
def test_edge_servers_keep_deadlines_too(tmp_path, protocol):
    """Edge rounds close with half of their clients, and take the late ones in afterwards."""
    patience = {"over_selection": 2.0, "late": "carry_over"}
    scenario = small(
        protocol={"name": protocol, "edge_rounds": 3, "patience": patience},
        decisions=POLYNOMIAL,
    )

    _, run = simulated(scenario, tmp_path)
    of = events(tmp_path)

    assert len(of("late")) > 0
    assert of("edge_aggregate")["staleness"].max() > 0
    assert all(run.laws.values())


def test_carrying_over_is_refused_where_an_algorithm_allows_no_stale_updates(tmp_path):
    """Whoever refuses stale updates refuses late ones, at the key that brings them in."""
    (tmp_path / "own.py").write_text(
        "from dataclasses import dataclass\n"
        "from simfl.algorithms.fedavg import FedAvg\n"
        "@dataclass(frozen=True)\n"
        "class Fresh(FedAvg):\n"
        "    name = 'fresh'\n"
        "    refusals = {'takes_stale_updates': 'its proof needs fresh updates'}\n"
    )
    scenario = small(
        algorithm={"name": f"{tmp_path / 'own.py'}:Fresh"},
        protocol={"name": "synchronous", "patience": {"late": "carry_over", "deadline_s": 1.0}},
    )

    with pytest.raises(ScenarioError, match=r"carry_over.*its proof needs fresh updates") as found:
        assemble(scenario, Options(device="cpu"))
    assert found.value.key == "protocol.patience.late"


@pytest.mark.parametrize(("algorithm", "rows"), [("secure_aggregation", True), ("fedavg", False)])
def test_a_round_with_too_few_updates_for_the_algorithm_is_given_up(algorithm, rows, tmp_path):
    """Messages of one of two clients are lost: the other's update is dropped, where it is useless.

    A round without any update has nothing to give up.
    """
    _, run = simulated(
        small(
            population={"message_loss": {"probability": 0.4, "attempts_max": 1}},
            algorithm={"name": algorithm, "local": {"epochs": 1, "batch_size": 16}},
            protocol="synchronous",
            decisions={"selection": {"name": "random", "count": 2}},
            stop={"versions": 4},
        ),
        tmp_path,
    )

    of = events(tmp_path)
    uploads = of("upload")
    arrived = uploads[uploads["bytes"] > 0].groupby("round").size()
    alone, given_up = arrived[arrived == 1].index, of("given_up")
    assert len(alone) > 0 and len(arrived) < run.fates["lost"] + run.fates["arrived"]
    assert given_up["round"].tolist() == (alone.tolist() if rows else [])
    assert (given_up["value"] == 1).all()
    assert run.observations.dropped.sum() == len(given_up)
    assert run.wasted["wasted_rounds"] == run.fates["lost"] + len(given_up)


@pytest.mark.parametrize("protocol", LEAST)
def test_a_round_begins_when_it_can_have_enough_updates(protocol, tmp_path):
    """Clients that are there half of the time: with fewer than it needs, a server waits."""
    availability = {
        "name": "renewal",
        "present": {"mean_s": 0.3, "law": "exponential"},
        "absent": {"mean_s": 0.3, "law": "exponential"},
    }
    few_s = small(
        population={"availability": availability},
        algorithm={"name": "none", "local": {"epochs": 5, "batch_size": 16}},
        protocol={"name": protocol, "patience": {"least_updates": LEAST[protocol]}},
        stop={"versions": 5},
    )
    simulated(few_s, tmp_path)

    eligible = [json.loads(one)["eligible"] for one in events(tmp_path)("select")["detail"]]
    assert len(eligible) >= 5 and min(eligible) >= LEAST[protocol]
