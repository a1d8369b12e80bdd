"""A selection that asks clients first: the answers are true, and asking costs what it costs."""

import numpy as np
import pandas as pd
import pytest

import simfl
from simfl.decisions.selection.power_of_choice import PowerOfChoice
from simfl.learning.evaluate import mean_loss
from simfl.protocols.clock import Clock, Stalled
from simfl.protocols.dispatcher import Dispatcher
from simfl.protocols.queries import Queries
from simfl.protocols.run import Run
from simfl.provenance.journal import Journal
from simfl.scenario.yaml_source.error import ScenarioError
from tests.protocols.test_determinism import ShuffledEnvironment, log_bytes
from tests.small import SEMI_ASYNCHRONOUS, final_weights, largest_difference, simulated, small

ASKING = {"selection": {"name": "power_of_choice", "count": 2, "factor": 2.0}}
PLAIN = {"name": "paper", "clients": 8, "edges": 2, "noise": 0.0, "power_idle_w": 1.0}
MODEL_BYTES = 4 * (64 * 12 + 12 + 12 * 10 + 10)
PROTOCOLS = {
    "synchronous": {"name": "synchronous"},
    "semi_asynchronous": SEMI_ASYNCHRONOUS,
    "hierarchical": {"name": "hierarchical", "edge_rounds": 2},
}


def query_rows(events):
    """The rows of queries, and those of client rounds."""
    clients = events[events["client"].notna() & ~events["kind"].isin(["idle", "tail"])]
    asked = clients["detail"].str.contains('"query"', na=False)
    return clients[asked], clients[~asked]


@pytest.fixture(scope="module")
def asking(tmp_path_factory):
    """A finished run of three rounds without noise: four of eight clients asked, two chosen."""
    return simfl.run(
        small(population=PLAIN, decisions=ASKING), tmp_path_factory.mktemp("run") / "run"
    )


def test_the_answers_are_the_losses_of_the_current_model(monkeypatch):
    """Each round's decision sees each candidate's loss of this very version, and takes the most."""
    states, decided = [], []
    select, decide = Run.select, PowerOfChoice.decide

    def watched_select(run, ref, *arguments, **named):
        states.append(ref)
        return select(run, ref, *arguments, **named)

    def watched_decide(rule, memory, view, rng):
        decision = decide(rule, memory, view, rng)
        decided.append((memory.candidates, view, decision[1]))
        return decision

    monkeypatch.setattr(Run, "select", watched_select)
    monkeypatch.setattr(PowerOfChoice, "decide", watched_decide)

    simulation, _ = simulated(small(decisions=ASKING, stop={"versions": 4}))

    assert [ref.version for ref in states] == [0, 1, 2, 3]
    assert len({candidates for candidates, _, _ in decided}) > 1
    for ref, (candidates, view, chosen) in zip(states, decided, strict=True):
        weights = ref.value().weights
        losses = {
            client: mean_loss(simulation.network, weights, simulation.partitioned.clients[client])
            for client in candidates
        }
        assert len(losses) == 4
        for client, loss in losses.items():
            assert view.last_loss[client] == pytest.approx(loss, rel=1e-12)
        assert chosen.tolist() == sorted(sorted(losses, key=losses.__getitem__)[-2:])


def test_a_query_is_paid_by_who_answers(asking):
    """Four model downloads, four passes over the data, four replies of one number, per round.

    A forward pass is a third of a training epoch's work at the same clock, hence of its seconds and
    joules. The rounds begin when the last answer is there, and those chosen have the model already.
    """
    queries, client_rounds = query_rows(asking.events)
    selects = asking.details("select")

    assert (selects["asked"] == 4).all()
    for number in range(3):
        own, training = (
            queries[queries["round"] == number],
            client_rounds[client_rounds["round"] == number],
        )
        chosen = selects["selected"].iloc[number]
        assert own["kind"].value_counts().to_dict() == {"download": 4, "compute": 4, "upload": 4}
        assert (own.loc[own["kind"] == "download", "bytes"] == MODEL_BYTES).all()
        assert (own.loc[own["kind"] == "upload", "bytes"] == 4).all()
        assert set(chosen) < set(own["client"].astype(int))
        assert sorted(training["kind"]) == ["compute", "compute", "upload", "upload"]
        assert set(training["client"].astype(int)) == set(chosen)
        assert training["start_s"].min() == own["time_s"].max() == selects["time_s"].iloc[number]
        for client in chosen:
            asked, trained = (
                rows[(rows["client"] == client) & (rows["kind"] == "compute")].iloc[0]
                for rows in (own, training)
            )
            assert asked["duration_s"] == pytest.approx(trained["duration_s"] / 3)
            assert asked["energy_j"] == pytest.approx(trained["energy_j"] / 3)
            assert asked["frequency_hz"] == trained["frequency_hz"]
    assert asking.manifest["bytes"] == 3 * (4 * MODEL_BYTES + 4 * 4 + 2 * MODEL_BYTES)
    assert all(asking.manifest["invariants"].values())
    assert asking.clients["participations"].sum() == 6


def test_a_query_shifts_no_draw_of_the_turns(tmp_path):
    """Asking everybody and choosing everybody: the rounds of full participation, only later."""
    everybody = {"selection": {"name": "power_of_choice", "count": 8, "factor": 1.0}}
    # No radio that a question would wake up for the client round.
    groups = [{"device": "rpi_4b", "link": "ethernet_1g", "share": 1.0}]
    noisy = {"groups": groups, "compute_noise": 0.1, "transfer_noise": 0.1}
    asked = simfl.run(small(population=noisy, decisions=everybody), tmp_path / "asked")
    plain = simfl.run(small(population=noisy), tmp_path / "plain")

    keys = ["client", "kind", "round"]
    left, right = (query_rows(run.events)[1].set_index(keys).sort_index() for run in (asked, plain))
    right = right.drop("download", level="kind")

    pd.testing.assert_series_equal(left["duration_s"], right["duration_s"])
    assert (asked.rounds["loss"] == plain.rounds["loss"]).all()
    passes = query_rows(asked.events)[0].query("kind == 'compute'").set_index(["client", "round"])
    trained = left.xs("compute", level="kind")["duration_s"] / 3
    assert not np.isclose(passes["duration_s"].sort_index(), trained.sort_index()).any()


@pytest.mark.parametrize("protocol", list(PROTOCOLS))
def test_asking_works_under_every_protocol_with_rounds(protocol, tmp_path):
    """The same events from cohorts of one job, and from a replay that trains nothing."""
    scenario = small(
        dtype="float32",
        decisions={"selection": {"name": "power_of_choice", "share": 0.5}},
        protocol=PROTOCOLS[protocol],
        stop={"versions": 4},
    )
    journal = Journal()

    _, free = simulated(scenario, journal=journal)
    _, capped = simulated(scenario, cohort_cap=1)
    _, replay = simulated(scenario, journal=Journal(facts=journal.facts))

    assert all(free.laws.values())
    assert replay.values.trainer.trained == 0
    assert free.log.fingerprint == capped.log.fingerprint == replay.log.fingerprint
    assert largest_difference(final_weights(free), final_weights(capped)) == 0.0


def test_the_sequential_reference_chooses_the_same():
    """In float64 both trainers give the same choices and weights."""
    batched, sequential = (
        simulated(small(decisions=ASKING, stop={"versions": 5}), trainer=trainer)[1]
        for trainer in ("batched", "sequential")
    )

    assert batched.log.fingerprint == sequential.log.fingerprint
    assert largest_difference(final_weights(batched), final_weights(sequential)) < 1e-9


@pytest.fixture
def begun(monkeypatch):
    """The beginnings of queries and client rounds: client, and whether it is available."""
    found = {True: [], False: []}
    dispatch = Dispatcher.dispatch

    def watched(dispatcher, orders, *others, **named):
        there = dispatcher._presence.there(orders.clients, dispatcher._clock.now_s)
        found[orders.query] += zip(orders.clients.tolist(), there.tolist(), strict=True)
        return dispatch(dispatcher, orders, *others, **named)

    monkeypatch.setattr(Dispatcher, "dispatch", watched)
    return found


COMING_AND_GOING = {
    "name": "renewal",
    "present": {"mean_s": 0.2, "law": "exponential"},
    "absent": {"mean_s": 0.1, "law": "exponential"},
}
BREAKING = {"clients": {"works": {"mean_s": 0.2}, "broken": {"mean_s": 0.1}}}


@pytest.mark.parametrize("medium", ["dedicated", {"name": "fifo", "channels": 9}], ids=str)
@pytest.mark.parametrize(
    "population",
    [
        {"faults": BREAKING},
        {"availability": COMING_AND_GOING, "leaving": "abort"},
        {"availability": COMING_AND_GOING, "leaving": "pause"},
    ],
    ids=["crashes", "abort", "pause"],
)
@pytest.mark.parametrize("protocol", list(PROTOCOLS))
def test_who_has_left_with_the_last_answer_begins_no_round(protocol, population, medium, begun):
    """Broken, or away: by then some of those who were asked always are, somewhere in the run."""
    _, run = simulated(
        small(
            protocol=PROTOCOLS[protocol],
            population={**population, "access_sharing": medium},
            algorithm={"name": "none", "local": {"batch_size": 16}},
            decisions={"selection": {"name": "power_of_choice", "share": 1.0}},
            stop={"versions": 30, "time_s": 20.0},
        )
    )

    assert all(run.laws.values()), run.accounts.violations
    assert len(begun[True]) > len(begun[False]) > 50
    assert all(there for kind in begun.values() for _, there in kind)


def test_where_nobody_who_answered_is_left_others_are_asked(begun, tmp_path):
    """All are asked and leave before they can answer; they are asked again when they are back."""
    away = {"name": "tests.protocols.availabilities:Away", "clients": list(range(8))}
    population = {"availability": {**away, "from_s": 1e-3, "back_s": 2.0}, "leaving": "abort"}
    rule = {"selection": {"name": "power_of_choice", "count": 1, "factor": 8.0}}
    scenario = small(population={**PLAIN, **population}, decisions=rule, stop={"versions": 2})

    run = simfl.run(scenario, tmp_path / "run")

    selects = run.details("select")
    assert selects["asked"].tolist() == [16, 8]
    assert selects["time_s"].iloc[0] > 2.0
    assert len(begun[True]) == 24 and len(begun[False]) == 2
    assert all(there for _, there in begun[False])
    assert run.manifest["violations"] == []


def test_asking_in_vain_is_given_up(monkeypatch):
    """Nearly every answer is lost; the line says who asks, and what to look at."""
    monkeypatch.setattr("simfl.protocols.selecting.MOST_FAILURES", 5)
    losses = {"probability": 0.99999, "timeout_s": 0.1, "attempts_max": 1}

    with pytest.raises(Stalled, match=r"5 times in a row no client that the server queried"):
        simulated(small(population={"message_loss": losses}, decisions=ASKING))


def test_who_did_not_answer_is_not_chosen_by_an_earlier_loss(monkeypatch):
    """Answers are lost: those clients are there, and their losses are of another model."""
    answered, seen = [], []
    ask, decide = Queries.ask, PowerOfChoice.decide

    def watched_ask(queries, *arguments):
        memory, asked, those = yield from ask(queries, *arguments)
        answered.append((asked.tolist(), those.tolist()))
        return memory, asked, those

    def watched_decide(rule, memory, view, rng):
        decision = decide(rule, memory, view, rng)
        seen.append((view.clients.tolist(), decision[1].tolist()))
        return decision

    monkeypatch.setattr(Queries, "ask", watched_ask)
    monkeypatch.setattr(PowerOfChoice, "decide", watched_decide)
    losses = {"probability": 0.3, "timeout_s": 0.1, "attempts_max": 1}

    simulated(small(population={"message_loss": losses}, decisions=ASKING, stop={"versions": 12}))

    answered = [(asked, those) for asked, those in answered if those]  # else others are asked
    silent = [set(asked) - set(those) for asked, those in answered]
    assert sum(map(bool, silent)) > 5
    for (_, those), missing, (shown, chosen) in zip(answered, silent, seen, strict=True):
        assert not missing & set(shown)
        assert set(chosen) <= set(those)


@pytest.mark.parametrize("protocol", ["asynchronous", "buffered"])
def test_asking_is_refused_where_there_are_no_rounds(protocol):
    """The reason is given, and where it stands."""
    with pytest.raises(ScenarioError, match=rf"{protocol} chooses at once whenever") as found:
        simulated(small(decisions=ASKING, protocol=protocol))
    assert "decisions.selection" in str(found.value)


def test_an_end_in_the_middle_of_a_query_is_booked(asking):
    """Whoever is still answering is cut there, and the books balance."""
    queries, _ = query_rows(asking.events)
    computing = queries[queries["kind"] == "compute"].iloc[0]
    limit_s = float(computing["start_s"] + computing["duration_s"] / 2)

    _, run = simulated(
        small(population=PLAIN, decisions=ASKING, stop={"versions": None, "time_s": limit_s})
    )

    assert all(run.laws.values()), run.accounts.violations
    assert run.observations.participations.sum() == 0


def test_without_learning_asking_costs_all_the_same(asking, tmp_path):
    """There is nothing to answer, and the first query takes as long."""
    local = {"batch_size": 16}
    timing = small(population=PLAIN, decisions=ASKING, algorithm={"name": "none", "local": local})

    run = simfl.run(timing, tmp_path / "run")

    columns = ["kind", "client", "time_s", "energy_j", "bytes"]
    first = [query_rows(one.events)[0].query("round == 0")[columns] for one in (asking, run)]
    pd.testing.assert_frame_equal(*(rows.reset_index(drop=True) for rows in first))
    assert run.details("select")["selected"].map(len).eq(2).all()


def test_models_of_ones_own_are_asked_about_and_not_sent(tmp_path):
    """Standalone: the loss of each client's own model, one number up, and training from there."""
    run = simfl.run(small(decisions=ASKING, algorithm="standalone"), tmp_path / "run")

    queries, client_rounds = query_rows(run.events)
    assert set(queries["kind"]) == {"compute", "upload"}
    assert set(client_rounds["kind"]) == {"compute"}
    assert run.manifest["bytes"] == 3 * 4 * 4


def test_a_personal_model_is_sent_again(tmp_path):
    """What a query brings is the common model; whose round starts from another needs that."""
    file = tmp_path / "own.py"
    file.write_text(
        "from dataclasses import dataclass\nfrom typing import ClassVar\n"
        "from simfl.algorithms.base import Algorithm\n\n"
        "@dataclass(frozen=True)\nclass Own(Algorithm):\n    personal: ClassVar[bool] = True\n"
    )
    scenario = small(decisions=ASKING, algorithm={"name": f"{file}:Own"})

    run = simfl.run(scenario, tmp_path / "run")

    _, client_rounds = query_rows(run.events)
    assert client_rounds["kind"].value_counts()["download"] == 6
    assert run.manifest["bytes"] == 3 * (4 * MODEL_BYTES + 4 * 4 + 4 * MODEL_BYTES)


def test_simultaneous_queries_in_any_order_give_the_same_log(tmp_path):
    """Equal edge servers ask at the same moments."""
    twins = {
        **PLAIN,
        "edges": 4,
        "cycles_per_example": [1e7, 1e7],
        "frequency_max_hz": [1e9, 1e9],
        "access_bps": [1e7, 1e7],
    }
    scenario = small(
        population=twins,
        data={"name": "synthetic", "examples": 80, "partition": "iid"},
        dtype="float32",
        protocol={"name": "semi_asynchronous", "edge_rounds": 2, "concurrency": 4},
        decisions={"selection": {"name": "power_of_choice", "count": 1}, "scheduling": "random"},
        stop={"versions": 6},
    )

    hashes = set()
    for order in range(4):
        (tmp_path / str(order)).mkdir()
        simulated(scenario, tmp_path / str(order), clock=Clock(ShuffledEnvironment(order)))
        hashes.add(log_bytes(tmp_path / str(order)))

    assert len(hashes) == 1
