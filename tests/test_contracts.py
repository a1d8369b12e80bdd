"""What every algorithm promises under every protocol; a new one is held to it by being there."""

import itertools
import math

import pytest

from simfl import registry
from simfl.journal import Journal
from simfl.protocols.values import Values
from simfl.scenario import Scenario
from simfl.yaml_source import ScenarioError
from tests.small import final_weights, largest_difference, simulated, small

PROTOCOLS = {
    "synchronous": {"name": "synchronous"},
    "semi_asynchronous": {"name": "semi_asynchronous", "edge_rounds": 2, "concurrency": 1},
    "hierarchical": {"name": "hierarchical", "edge_rounds": 2},
    "asynchronous": {"name": "asynchronous", "concurrency": 3},
    "buffered": {"name": "buffered", "buffer": 3, "concurrency": 5},
}
PAIRS = list(itertools.product(registry.names("algorithms"), registry.names("protocols")))


def scenario_of(algorithm: str, protocol: str) -> Scenario:
    """The small scenario with this pair; algorithms are run with their defaults."""
    local = {"batch_size": 16, "learning_rate": 0.1}
    return small(
        dtype="float32",
        algorithm={"name": algorithm, "local": local},
        protocol=PROTOCOLS[protocol],
        stop={"versions": 4},
    )


def test_every_protocol_is_covered():
    """A new protocol must be added to the table above."""
    assert set(registry.names("protocols")) == set(PROTOCOLS)


@pytest.mark.parametrize(("algorithm", "protocol"), PAIRS)
def test_pair_runs_or_is_refused_with_a_reason(algorithm, protocol):
    """It ends with its books balanced and finite results, or says why it makes no sense."""
    part = registry.resolve("algorithms", algorithm, small().base_dir)
    if protocol in part.refusals:
        with pytest.raises(ScenarioError, match=part.refusals[protocol]):
            simulated(scenario_of(algorithm, protocol))
        return

    _, run = simulated(scenario_of(algorithm, protocol))

    assert all(run.laws.values()), run.accounts.violations
    assert run.publications.rounds[-1]["version"] == 4
    if part.learns:
        assert math.isfinite(run.publications.rounds[-1]["loss"])


@pytest.mark.parametrize(("algorithm", "protocol"), PAIRS)
def test_pair_learns_the_same_however_it_is_computed(algorithm, protocol):
    """Cohorts of one job, and a replay that is given all facts, end in bit-identical weights."""
    part = registry.resolve("algorithms", algorithm, small().base_dir)
    if protocol in part.refusals or not part.learns:
        return
    journal = Journal()

    _, free = simulated(scenario_of(algorithm, protocol), journal=journal)
    _, capped = simulated(scenario_of(algorithm, protocol), cohort_cap=1)
    _, replay = simulated(scenario_of(algorithm, protocol), journal=Journal(facts=journal.facts))

    assert replay.values.trainer.trained == 0
    assert free.log.fingerprint == capped.log.fingerprint == replay.log.fingerprint
    assert largest_difference(final_weights(free), final_weights(capped)) == 0.0
    assert largest_difference(final_weights(free), final_weights(replay)) == 0.0


@pytest.mark.parametrize(("algorithm", "protocol"), PAIRS)
def test_memory_of_clients_survives_tier_boundaries(algorithm, protocol):
    """With a kept optimizer each job continues where the client's previous one ended."""
    part = registry.resolve("algorithms", algorithm, small().base_dir)
    if protocol in part.refusals or not part.learns or algorithm == "fedsgd":
        return
    scenario = scenario_of(algorithm, protocol).with_overrides(
        ["algorithm.local.optimizer=adam", "algorithm.local.keep_optimizer=true"]
    )

    simulation, run = simulated(scenario)

    assert isinstance(run.values, Values)
    assert run.observations.participations.sum() > 0
    for client, size in enumerate(simulation.shards.num_examples.tolist()):
        turns = run.observations.participations[client]
        if turns == 0:
            continue
        job = run.values.last_job(client, run.clock.now_s)
        assert job is not None
        assert job.memory().optimizer_steps >= turns * math.ceil(size / 16)
