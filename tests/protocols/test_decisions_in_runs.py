"""What the decisions of FedCure do in a run, and what the log says about them."""

import json

import numpy as np
import pytest

import simfl
from simfl.decisions.divergence import mean_js
from simfl.system.catalogue import shipped_folder
from simfl.system.server_id import CLOUD
from tests.small import simulated, small

FEDCURE = {
    "association": "fedcure",
    "scheduling": "fedcure",
    "allocation": "fedcure",
    "estimator": "nig",
}


def scenario(decisions=None, **changes):
    """Ten clients on five edge servers with two labels each, timing as in the literature."""
    return small(
        data={"partition": {"name": "labels_per_edge", "labels_per_client": 2}},
        population={"name": "paper", "clients": 10, "edges": 5, **changes.pop("population", {})},
        protocol={"name": "semi_asynchronous", "edge_rounds": 2, "concurrency": 2},
        decisions=FEDCURE if decisions is None else decisions,
        **{"stop": {"versions": 12}, **changes},
    )


@pytest.fixture(scope="module")
def fedcure(tmp_path_factory):
    """A finished FedCure run."""
    return simfl.run(scenario(), tmp_path_factory.mktemp("run") / "run")


def test_the_log_holds_every_switch(fedcure):
    """The switches lead from the population's edge servers to the run's, each to a lower JS."""
    row = fedcure.details("associate").iloc[0]
    counts = np.stack(fedcure.clients["label_counts"])
    edge = np.repeat(np.arange(5), 2)

    assert row["js_home"] == pytest.approx(mean_js(counts, edge))
    assert row["js_home"] == pytest.approx(np.log(2.0))
    for one in row["switches"]:
        assert one["js_before"] == pytest.approx(mean_js(counts, edge))
        edge[one["client"]] = one["to"]
        assert one["js_after"] == pytest.approx(mean_js(counts, edge))
        assert one["js_after"] < one["js_before"]
    assert row["edges"] == edge.tolist() == fedcure.clients["edge"].tolist()
    assert row["js"] < row["js_home"]


def test_the_log_holds_queues_estimates_and_the_posterior(fedcure):
    """For all five edge servers at each decision; the posterior counts their arrivals."""
    decisions = fedcure.details("schedule")

    assert len(decisions) > 5
    for column in ("queues", "estimated_latency_s", "kn", "an", "bn"):
        assert decisions[column].map(len).eq(5).all()
    assert decisions["scores"].map(len).tolist() == decisions["idle"].map(len).tolist()
    last = decisions.iloc[-1]
    arrived = fedcure.rounds[fedcure.rounds["time_s"] <= last["time_s"]]["edge"]
    observed = arrived.value_counts().reindex(range(5), fill_value=0)
    assert last["kn"] == (1 + observed).tolist()
    assert last["an"] == (2 + observed / 2).tolist()


def test_queues_follow_the_recursion_of_the_picks(fedcure):
    """Eq. 13 over the log's own picks."""
    decisions = fedcure.details("schedule")
    sizes = fedcure.clients.groupby("edge")["num_examples"].sum()
    delta = 0.8 * (sizes / sizes.sum()).to_numpy()
    queues, served = np.zeros(5), np.ones(5)

    for _, row in decisions.iterrows():
        queues = np.maximum(queues + delta - served, 0.0)
        np.testing.assert_allclose(row["queues"], queues, atol=1e-12)
        served = np.arange(5) == row["value"]


def test_frequencies_follow_the_estimated_latency(fedcure):
    """Eq. 16 binds: clients compute below their highest frequency, and joules are booked as
    usual.
    """
    compute = fedcure.details("compute")
    fastest = simulated(scenario({**FEDCURE, "allocation": "max"}))[0].world.frequency_max_hz
    frequency = compute["frequency_hz"].to_numpy()

    assert (frequency <= fastest[compute["client"].astype(int)] + 1).all()
    assert (frequency < 0.99 * fastest[compute["client"].astype(int)]).any()
    np.testing.assert_allclose(
        compute["dynamic_j"], 1e-28 * compute["cycles"] * frequency**2, rtol=1e-9
    )


def test_eq_16_by_hand_in_a_run(tmp_path):
    """The first dispatch of the first edge server: nominal latency, cycles of all its rounds.

    Without noise the nominal latency equals a dispatch at the highest frequency, except for the
    servers' own work.
    """
    noiseless = {"noise": 0.0}
    fast = simfl.run(
        scenario({**FEDCURE, "allocation": "max"}, population=noiseless), tmp_path / "fast"
    )
    slow = simfl.run(scenario(population=noiseless), tmp_path / "slow")

    def first(run, kind):
        rows = run.details(kind)
        return rows[(rows["round"] == 0) & (rows["edge"] == 0)]

    client_rounds = first(fast, "compute")
    up, down = (first(fast, kind) for kind in ("upload", "download"))
    ended = up.groupby("client", dropna=True)["time_s"].min()
    begun = down.groupby("client", dropna=True)["start_s"].min()
    backhaul_s = sum(rows[rows["client"].isna()]["duration_s"].sum() for rows in (up, down))
    latency_s = 2 * (ended - begun).max() + backhaul_s
    cycles = 2 * client_rounds.groupby("client")["cycles"].first() / 1e9
    expected = (cycles / (2.0 * 0.25 * latency_s)) ** (1 / 3) * 1e9

    found = first(slow, "compute").groupby("client")["frequency_hz"].first()
    highest = client_rounds.groupby("client")["frequency_hz"].first()
    np.testing.assert_allclose(found, np.minimum(expected, highest), rtol=1e-9)


@pytest.mark.parametrize(("spread", "concurrency", "feasible"), [(1.5, 2, True), (12.0, 4, False)])
def test_infeasible_participation_is_reported(spread, concurrency, feasible, tmp_path):
    """Slow edge servers beside many in flight are short of their share; the log says so at 0 s."""
    run = simfl.run(
        small(
            data={"partition": "iid"},
            population={
                "name": "paper",
                "clients": 10,
                "edges": 5,
                "frequency_max_hz": [1e9, 1e9],
                "cycles_per_example": [1e8, 1e8 * spread],
                "noise": 0.0,
            },
            protocol={"name": "semi_asynchronous", "edge_rounds": 1, "concurrency": concurrency},
            decisions={"scheduling": "fedcure"},
            algorithm={"name": "none", "local": {"steps": 1, "batch_size": 16}},
            stop={"versions": 6},
        ),
        tmp_path / "run",
    )

    row = run.details("feasibility").iloc[0]

    latency_s = np.array(row["latency_s"])
    rate = 1 / latency_s
    others = [np.sort(np.delete(rate, edge))[::-1] for edge in range(rate.size)]
    attainable = rate / (rate + [one[: concurrency - 1].sum() for one in others])
    np.testing.assert_allclose(row["attainable_share"], attainable)
    short = np.flatnonzero(np.array(row["owed_share"]) > attainable)
    assert row["unattainable"] == short.tolist()
    assert row["value"] == short.size
    assert (short.size == 0) == feasible
    found = [one.count for one in run.warnings if one.kind == "unattainable_participation"]
    assert found == ([] if feasible else [short.size])
    assert row["time_s"] == 0.0


def test_no_more_are_in_flight_than_there_are_edge_servers(tmp_path):
    """Three alike, all of them always in flight: each gets its third, more than it is owed."""
    run = simfl.run(
        small(
            data={"partition": "iid"},
            population={
                "name": "paper",
                "clients": 6,
                "edges": 3,
                "frequency_max_hz": [1e9, 1e9],
                "cycles_per_example": [1e8, 1e8],
                "noise": 0.0,
            },
            protocol={"name": "semi_asynchronous", "edge_rounds": 1, "concurrency": 5},
            decisions={"scheduling": {"name": "fedcure", "participation": 0.8}},
            algorithm={"name": "none", "local": {"steps": 1, "batch_size": 16}},
            stop={"versions": 6},
        ),
        tmp_path / "run",
    )

    row = run.details("feasibility").iloc[0]
    assert row["attainable_share"] == pytest.approx([1 / 3] * 3, rel=0.01)
    assert row["unattainable"] == []
    assert [one for one in run.warnings if one.kind == "unattainable_participation"] == []


def test_rules_that_owe_nothing_are_not_checked(tmp_path):
    """Greedy promises no participation."""
    run = simfl.run(scenario({"scheduling": "greedy"}), tmp_path / "run")

    assert run.details("feasibility").empty


@pytest.mark.parametrize("estimator", ["nig", "mean", "last", "ewma", "oracle"])
def test_every_estimator_runs_and_is_logged_as_json(estimator, tmp_path):
    """Estimates at every decision, without signs that JSON does not know."""
    run = simfl.run(scenario({**FEDCURE, "estimator": estimator}), tmp_path / "run")

    for text in run.events.loc[run.events["kind"] == "schedule", "detail"]:
        detail = json.loads(text, parse_constant=pytest.fail)
        assert min(detail["estimated_latency_s"]) > 0


@pytest.mark.parametrize("allocation", ["min_energy", "deadline", "capped", "fedcure"])
@pytest.mark.parametrize("protocol", ["synchronous", "semi_asynchronous"])
def test_allocations_run_on_real_devices(allocation, protocol):
    """Frequencies are levels of the devices, and less energy is spent than at the highest clock."""
    extra = {"frequency_hz": 1.2e9} if allocation == "capped" else {}
    shape = {"name": protocol}
    if protocol == "semi_asynchronous":
        shape |= {"edge_rounds": 2, "concurrency": 1}
    decisions = {"allocation": {"name": allocation, **extra}}

    simulation, run = simulated(small(protocol=shape, decisions=decisions))
    _, fastest = simulated(small(protocol=shape))

    assert all(run.laws.values())
    spent, at_most = (
        one.accounts.joules[: simulation.world.num_clients, 1].sum() for one in (run, fastest)
    )
    assert spent <= at_most


@pytest.mark.parametrize("decided", ["per_dispatch", "per_round"])
def test_fedcures_clocks_hold_for_a_schedule(decided, tmp_path):
    """Algorithm 2; or anew in every edge round, where the first dispatches' estimates change."""
    decisions = {**FEDCURE, "allocation": {"name": "fedcure", "decided": decided}}
    longer = ["protocol.edge_rounds=12", "algorithm.name=none"]

    run = simfl.run(scenario(decisions).with_overrides(longer), tmp_path / "run")

    computed = run.details("compute")
    assert (computed.groupby("client")["frequency_hz"].nunique() > 1).any()  # and no longer
    clocks = computed.groupby(["client", "round"])["frequency_hz"].nunique()
    assert clocks.size > 20
    assert (clocks == 1).all() == (decided == "per_dispatch")
    assert (clocks.xs(0, level="round") > 1).any() == (decided == "per_round")


def test_deadline_saves_energy_and_takes_no_longer():
    """Without noise a synchronous round ends with the slowest client, for fewer joules."""
    decisions = {"allocation": "deadline"}
    population = {"name": "paper", "clients": 8, "edges": 1, "noise": 0.0}

    _, slow = simulated(small(population=population, decisions=decisions))
    _, fast = simulated(small(population=population))

    assert slow.clock.now_s == pytest.approx(fast.clock.now_s, rel=1e-9)
    assert slow.accounts.joules[:8, 1].sum() < 0.9 * fast.accounts.joules[:8, 1].sum()


@pytest.mark.parametrize("algorithm", ["fedsac", "ditto", "fedavg"])
def test_a_deadline_counts_a_trainings_fixed_time_once(algorithm, tmp_path):
    """Whatever the algorithm's work: 1 s of 1.5 s at the highest clock, so two thirds of it."""
    text = (shipped_folder() / "rpi_4b.yaml").read_text(encoding="utf-8")
    fixed = "processor:\n  seconds_per_training: 1.0\n"
    (tmp_path / "slow_pi.yaml").write_text(text.replace("processor:\n", fixed, 1))
    shares = {"validation_share": 0.1} if algorithm == "fedsac" else {}
    one = small(
        data={"partition": {"name": "dirichlet", "alpha": 1.0}, **shares},
        model={"name": "mlp", "hidden": [40, 40]},
        population={
            "name": "catalogue",
            "clients": 6,
            "profiles": [str(tmp_path)],
            "groups": [{"device": "slow_pi", "link": "ethernet_1g"}],
        },
        algorithm={"name": algorithm, "local": {"epochs": 2, "batch_size": 16}},
        protocol="synchronous",
        decisions={"allocation": {"name": "deadline", "deadline_s": 1.5}},
        stop={"versions": 3},
    )

    computed = simfl.run(one, tmp_path / "run").events.query("kind == 'compute'")

    assert set(computed["frequency_hz"]) == {1.2e9}
    assert computed["duration_s"].between(1.5, 1.52).all()


@pytest.mark.parametrize("name", ["by_size", "virtual_queue", "oort", "tifl"])
@pytest.mark.parametrize("protocol", ["synchronous", "semi_asynchronous"])
def test_selections_run(name, protocol):
    """Two of the clients per round; Oort and TiFL are told the losses of those who played."""
    shape = {"name": protocol}
    if protocol == "semi_asynchronous":
        shape |= {"edge_rounds": 2, "concurrency": 1}

    simulation, run = simulated(
        small(
            protocol=shape,
            decisions={"selection": {"name": name, "count": 2}},
            stop={"versions": 6},
        )
    )

    assert all(run.laws.values())
    seen = run.observations.clients(np.arange(8), run.clock.now_s, 9, CLOUD)
    wants_losses = simulation.parts[("decisions", "selection")].needs_losses
    played = seen.participations > 0
    assert (~np.isnan(seen.last_loss) == (played & wants_losses)).all()
    assert run.publications.rounds[0]["participants"] <= 4


def test_timing_only_runs_select_without_losses():
    """There is nothing to report where nothing is learned."""
    _, run = simulated(
        small(
            algorithm={"name": "none", "local": {"steps": 1, "batch_size": 16}},
            decisions={"selection": {"name": "oort", "count": 3}},
            stop={"versions": 5},
        )
    )

    assert all(run.laws.values())


def test_estimates_scores_and_picks_follow_from_the_log(tmp_path):
    """Latencies from each decision to the upload's arrival, in the order in which the cloud takes
    the models in, give the estimates; these and the picks give queues, scores and the next pick."""
    decisions = {**FEDCURE, "scheduling": {"name": "fedcure", "beta": 0.9, "participation": 0.5}}
    run = simfl.run(scenario(decisions, stop={"versions": 40}), tmp_path / "run")
    events, made = run.events, run.details("schedule")
    share = np.bincount(run.clients["edge"], weights=run.clients["num_examples"]) / (
        run.clients["num_examples"].sum()
    )
    decided = {(edge, 0): 0.0 for edge in range(5)}
    decided |= {(int(one.edge), int(one.round)): one.time_s for one in made.itertuples()}
    arrivals = events[events["client"].isna() & (events["kind"] == "upload")]
    arrived = arrivals.groupby(["edge", "round"])["time_s"].max()
    merges = events[events["kind"] == "cloud_aggregate"].sort_values("time_s")
    latencies, priors, all_s = {edge: [] for edge in range(5)}, {}, []
    queues, last, longest, taken = np.zeros(5), np.zeros(5), [], 0

    for number, row in enumerate(made.itertuples(), start=1):
        for merge in merges[merges["time_s"] <= row.time_s][taken:].itertuples():
            key = int(merge.edge), int(merge.round)
            latency_s = arrived[key] - decided[key]
            if not latencies[key[0]] and all_s:
                priors[key[0]] = np.mean(all_s)
            latencies[key[0]].append(latency_s)
            all_s.append(latency_s)
            taken += 1
        estimate_s = np.array(row.estimated_latency_s)
        for edge, seen in latencies.items():
            if edge in priors:
                mean_s = (priors[edge] + np.sum(seen)) / (1 + len(seen))
                assert estimate_s[edge] == pytest.approx(mean_s, rel=1e-9)
            elif not seen:
                assert estimate_s[edge] == pytest.approx(np.mean(all_s), rel=1e-9)
        queues = np.maximum(queues + 0.5 * share - (last == number - 1), 0.0)
        longest.append(estimate_s.max())
        scores = queues + 0.9 * (1 - estimate_s / np.mean(longest))
        assert row.queues == pytest.approx(queues.tolist(), abs=1e-12)
        assert row.scores == pytest.approx(scores[row.idle].tolist(), abs=1e-9)
        ranked = sorted(row.idle, key=lambda m: (-round(scores[m], 9), last[m], m))
        assert row.edge == ranked[0]
        last[ranked[0]] = number
    assert len(priors) == 4 and taken > 30
