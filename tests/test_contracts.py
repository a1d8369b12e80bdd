"""What every algorithm promises under every protocol; a new one is held to it by being there."""

import itertools
import math
import re
from typing import get_args

import pytest

import simfl
from simfl.algorithms.base import Algorithm, Trait
from simfl.assembly import registry
from simfl.assembly.assemble import assemble
from simfl.learning.job import LocalTraining
from simfl.protocols.base import Protocol
from simfl.protocols.clock import Stalled
from simfl.protocols.values import Values
from simfl.provenance.journal import Journal
from simfl.scenario.scenario import Scenario
from simfl.scenario.yaml_source.error import ScenarioError
from tests.small import final_weights, largest_difference, simulated, small
from tests.test_resume import assert_same, cut_off

PROTOCOLS = {
    "synchronous": {"name": "synchronous"},
    "semi_asynchronous": {"name": "semi_asynchronous", "edge_rounds": 2, "concurrency": 1},
    "hierarchical": {"name": "hierarchical", "edge_rounds": 2},
    "asynchronous": {"name": "asynchronous", "concurrency": 3},
    "buffered": {"name": "buffered", "buffer": 3, "concurrency": 5},
}
TRAITS = get_args(Trait)
PAIRS = list(itertools.product(registry.names("algorithms"), registry.names("protocols")))


def scenario_of(algorithm: str, protocol: str) -> Scenario:
    """The small scenario with this pair; algorithms are run with their defaults.

    Most of the data are held back, so that a client round is a few batches.
    """
    local = {"batch_size": 16, "learning_rate": 0.1}
    return small(
        dtype="float32",
        data={"validation_share": 0.7},
        algorithm={"name": algorithm, "local": local},
        protocol=PROTOCOLS[protocol],
        stop={"versions": 4},
    )


def test_every_protocol_is_covered():
    """A new protocol must be added to the table above."""
    assert set(registry.names("protocols")) == set(PROTOCOLS)


def class_of(algorithm: str) -> type[Algorithm]:
    """The algorithm's class."""
    return registry.resolve("algorithms", algorithm, small().base_dir)


def refusal(algorithm: str, protocol: str) -> str | None:
    """Why this pair is refused, by what the algorithm refuses and the protocol says of itself."""
    part = class_of(algorithm)
    asked = registry.resolve("protocols", protocol, small().base_dir)()
    reasons = [reason for trait, reason in part.refusals.items() if getattr(asked, trait)]
    if not reasons and (asked.most_updates or part.min_updates) < part.min_updates:
        return f"it needs at least {part.min_updates} updates"
    return next(iter(reasons), None)


@pytest.mark.parametrize("algorithm", registry.names("algorithms"))
def test_what_an_algorithm_declares_can_be_checked(algorithm):
    """Traits that protocols have, each refused one with a reason; its paper's own runs."""
    part = class_of(algorithm)

    assert set(part.refusals) <= set(TRAITS)
    assert all(hasattr(Protocol, trait) for trait in TRAITS)
    assert refusal(algorithm, part.paper_protocol) is None
    assert all(len(reason.split()) > 3 for reason in part.refusals.values())
    assert part.min_updates >= 1


@pytest.mark.grid(14)
@pytest.mark.parametrize(("algorithm", "protocol"), PAIRS)
def test_pair_learns_the_same_however_it_is_computed_or_is_refused(algorithm, protocol):
    """It ends with its books balanced and finite results, or says why it makes no sense.

    Cohorts of one job, and a replay that is given all facts, end in bit-identical weights.
    """
    reason = refusal(algorithm, protocol)
    if reason is not None:
        with pytest.raises(ScenarioError, match=re.escape(reason)) as found:
            simulated(scenario_of(algorithm, protocol))
        assert found.value.key == "protocol"
        return
    journal = Journal()

    _, free = simulated(scenario_of(algorithm, protocol), journal=journal)

    assert all(free.laws.values()), free.accounts.violations
    assert free.publications.rounds[-1]["version"] == 4
    if not class_of(algorithm).learns:
        return
    assert math.isfinite(free.publications.rounds[-1]["loss"])
    _, capped = simulated(scenario_of(algorithm, protocol), cohort_cap=1)
    _, replay = simulated(scenario_of(algorithm, protocol), journal=Journal(facts=journal.facts))

    assert replay.values.trainer.trained == 0
    assert free.log.fingerprint == capped.log.fingerprint == replay.log.fingerprint
    assert largest_difference(final_weights(free), final_weights(capped)) == 0.0
    assert largest_difference(final_weights(free), final_weights(replay)) == 0.0


@pytest.mark.grid(14)
@pytest.mark.parametrize(("algorithm", "protocol"), PAIRS)
def test_memory_of_clients_survives_tier_boundaries(algorithm, protocol):
    """With a kept optimizer each job continues where the client's previous one ended."""
    if refusal(algorithm, protocol) is not None or not class_of(algorithm).learns:
        return
    try:
        class_of(algorithm)(LocalTraining(optimizer="adam", keep_optimizer=True))
    except ValueError:  # its mathematics is of SGD's steps
        return
    # Players of FL Games keep their optimizers' states in any case.
    kept = [] if algorithm == "fl_games" else ["algorithm.local.keep_optimizer=true"]
    scenario = scenario_of(algorithm, protocol).with_overrides(
        ["algorithm.local.epochs=1", "algorithm.local.optimizer=adam", *kept]
    )

    simulation, run = simulated(scenario)

    assert isinstance(run.values, Values)
    assert run.observations.participations.sum() > 0
    for client, size in enumerate(simulation.partitioned.num_examples.tolist()):
        client_rounds = run.observations.participations[client]
        if client_rounds == 0:
            continue
        job = run.values.last_job(client, run.clock.now_s)
        assert job is not None
        assert job.memory().optimizer_steps >= client_rounds * math.ceil(size / 16)


LEARNING = [name for name in registry.names("algorithms") if class_of(name).learns]


@pytest.mark.grid(5)
@pytest.mark.parametrize("algorithm", LEARNING)
def test_the_plain_reference_learns_the_same(algorithm):
    """In float64, under the paper's own protocol: weights agree to 1e-9."""
    scenario = scenario_of(algorithm, class_of(algorithm).paper_protocol).with_overrides(
        ["dtype=float64"]
    )

    _, batched = simulated(scenario)
    _, sequential = simulated(scenario, trainer="sequential")

    assert largest_difference(final_weights(batched), final_weights(sequential)) < 1e-9


@pytest.mark.grid(5)
@pytest.mark.parametrize("algorithm", LEARNING)
def test_an_interrupted_run_ends_as_an_undisturbed_one(algorithm, tmp_path):
    """Cut off at half of its versions and resumed: the same events and the same model."""
    scenario = scenario_of(algorithm, class_of(algorithm).paper_protocol)
    whole = simfl.run(scenario, tmp_path / "whole")
    cut_off(scenario, tmp_path / "cut", 2, snapshot_seconds=0.0)

    resumed = simfl.run(scenario, tmp_path / "cut", resume=True)

    assert_same(resumed, whole)


OWN = '''
from dataclasses import dataclass
from typing import ClassVar
from simfl.algorithms.base import Algorithm

@dataclass(frozen=True)
class Pairs(Algorithm):
    """Compares updates with one another."""
    min_updates: ClassVar[int] = 2

@dataclass(frozen=True)
class Picky(Algorithm):
    """Runs in rounds of one server."""
    refusals: ClassVar[dict] = {
        trait: f"its mathematics is not {trait}"
        for trait in ("hierarchical", "overlapping", "takes_stale_updates")
    }

@dataclass(frozen=True)
class Dated(Algorithm):
    """Names a protocol, which nobody asks for."""
    refusals: ClassVar[dict] = {"buffered": "its proof needs fresh updates"}
'''
OWN_PROTOCOLS = '''
from dataclasses import dataclass
from typing import ClassVar
from simfl.protocols.base import Protocol
from simfl.protocols.buffered import Buffered
from simfl.protocols.hierarchical import Hierarchical

@dataclass(frozen=True)
class Rounds(Protocol):
    """One server and its rounds, as anybody would write them."""
    def process(self, run):
        ref, number = run.begin("cloud"), 0
        yield from run.forwards.send(ref, run.all_clients[:0], number)
        while True:
            chosen = yield from run.select(ref, run.all_clients, number)
            delivered = yield from run.client_rounds(chosen, ref, number)
            ref = yield from run.aggregate(ref, delivered, number)
            yield from run.forwards.send(ref, delivered.clients, number)
            number += 1
            if run.publish(ref, number, chosen.size, staleness=0):
                return ref

class Aged(Rounds):
    """Says that its updates may be stale."""
    takes_stale_updates: ClassVar[bool] = True

class Single(Rounds):
    """Says that it brings updates one by one."""
    most_updates: ClassVar[int] = 1

class Tiers(Hierarchical):
    """Edge servers, by another name."""

class Slots(Buffered):
    """Clients in flight, by another name."""
'''


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """The import path of a class above."""
    file = tmp_path_factory.mktemp("plugins") / "own.py"
    file.write_text(OWN + OWN_PROTOCOLS)
    return lambda name: f"{file}:{name}"


REFUSED_TRAITS = [
    ("semi_asynchronous", "hierarchical"),
    ("hierarchical", "hierarchical"),
    ("asynchronous", "overlapping"),
    ("buffered", "overlapping"),
]


@pytest.mark.parametrize(("protocol", "trait"), REFUSED_TRAITS)
def test_a_declared_refusal_is_given_with_its_reason(own, protocol, trait):
    """Under every protocol that is so, before anything is built, at the scenario's `protocol`."""
    message = f"picky cannot run under {protocol}: its mathematics is not {trait}"

    with pytest.raises(ScenarioError, match=message) as found:
        assemble(small(algorithm={"name": own("Picky")}, protocol=PROTOCOLS[protocol]))
    assert found.value.key == "protocol"


def test_refusing_a_protocol_by_its_name_is_an_error_of_the_algorithm(own):
    """Nobody asks for names: the protocol would never be refused."""
    message = "dated.refusals names 'buffered', accepted: hierarchical, overlapping, takes_stale"

    with pytest.raises(ScenarioError, match=message) as found:
        assemble(small(algorithm={"name": own("Dated")}))
    assert found.value.key == "algorithm"


REFUSING = [name for name in registry.names("algorithms") if class_of(name).refusals]
OWN_TRAITS = {
    "Rounds": None,
    "Aged": "takes_stale_updates",
    "Tiers": "hierarchical",
    "Slots": "takes_stale_updates",
}


@pytest.mark.grid(10)
@pytest.mark.parametrize("protocol", list(OWN_TRAITS))
@pytest.mark.parametrize("algorithm", REFUSING)
def test_ones_own_protocol_is_taken_for_what_it_says_of_itself(own, algorithm, protocol):
    """It runs, or is refused with the reason, as the shipped protocols of its traits are."""
    scenario = scenario_of(algorithm, "synchronous").with_overrides(
        [f"protocol.name={own(protocol)}", "stop.versions=2"]
    )
    reason = class_of(algorithm).refusals.get(OWN_TRAITS[protocol])

    if reason is None:
        assert simulated(scenario)[1].publications.latest.version == 2
        return
    message = f"{algorithm} cannot run under {protocol.lower()}: {reason}"
    with pytest.raises(ScenarioError, match=re.escape(message)) as found:
        assemble(scenario)
    assert found.value.key == "protocol"


def test_ones_own_protocol_says_how_many_updates_it_brings_together(own):
    """An algorithm that needs more cannot run under it."""
    with pytest.raises(ScenarioError, match=r"pairs cannot run under single: .* but gets 1 at a"):
        assemble(small(algorithm={"name": own("Pairs")}, protocol=own("Single")))


ONE = {"decisions": {"selection": {"name": "random", "count": 1}}}
FEW = {"decisions": {"selection": {"name": "random", "share": 0.2}}}
TOO_FEW = [
    ("asynchronous", {}, "protocol", "but gets 1 at a time"),
    ({"name": "buffered", "buffer": 1}, {}, "protocol", "but gets 1 at a time"),
    ("synchronous", ONE, "decisions.selection.count", "but 1 are selected at a time"),
    ("synchronous", FEW, "decisions.selection.share", None),
    ("hierarchical", ONE, "decisions.selection.count", "but 1 are selected at a time"),
    ("hierarchical", FEW, "decisions.selection.share", "but 1 are selected at a time"),
    ("semi_asynchronous", ONE, "decisions.selection.count", "but 1 are selected at a time"),
    (
        "semi_asynchronous",
        {"population": {"edges": 8}},
        "population",
        "but edge server 0 has too few clients: 1",
    ),
    (
        "hierarchical",
        {"population": {"edges": 8}},
        "population",
        "but edge server 0 has too few clients: 1",
    ),
    (
        "synchronous",
        {"population": {"clients": 1, "edges": 1}},
        "population",
        "but the server has too few clients: 1",
    ),
    ("synchronous", {}, "", None),
    ("semi_asynchronous", {}, "", None),
    ("hierarchical", {}, "", None),
    ({"name": "buffered", "buffer": 2}, ONE, "", None),
]


@pytest.mark.parametrize(("protocol", "changes", "key", "reason"), TOO_FEW)
def test_the_least_number_of_updates_is_checked_before_the_run(own, protocol, changes, key, reason):
    """Where a server can never have two updates, the key that prevents it is named."""
    scenario = small(
        algorithm={"name": own("Pairs"), "local": {"batch_size": 16}},
        protocol=PROTOCOLS[protocol] if isinstance(protocol, str) else protocol,
        **changes,
    )
    if reason is None:
        assert simulated(scenario)[1].publications.latest.version == 3
        return

    with pytest.raises(ScenarioError, match=f"at least 2 updates to aggregate, {reason}") as found:
        assemble(scenario)
    assert found.value.key == key


@pytest.mark.parametrize("protocol", ["synchronous", "semi_asynchronous", "hierarchical"])
def test_a_round_of_too_few_clients_is_in_vain(own, protocol):
    """How many clients finish cannot be known before: a single update makes no version."""
    away = {"availability": {"name": "periodic", "period_s": 0.2, "share": 0.1}}
    scenario = small(
        algorithm={"name": own("Pairs")}, population=away, protocol=PROTOCOLS[protocol]
    )

    _, run = simulated(scenario)

    versions = run.publications.rounds
    assert len(versions) == 3
    assert min(one["participants"] for one in versions) >= 2
    assert versions[-1]["round"] > 2 or protocol != "synchronous"


def test_rounds_of_too_few_clients_do_not_go_on_for_ever(own, monkeypatch):
    """Where never more than one client is there, the run says so."""
    monkeypatch.setattr("simfl.protocols.stall_guard.MOST_FAILURES", 100)
    alone = {"availability": {"name": "periodic", "period_s": 0.2, "share": 0.02}}
    scenario = small(algorithm={"name": own("Pairs")}, population=alone)

    with pytest.raises(Stalled, match="fewer are selected than the algorithm needs"):
        simulated(scenario)
