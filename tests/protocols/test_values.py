"""Keys of learned values: made of everything that the value is computed from."""

import sys
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import torch

from simfl.algorithms.base import ServerState
from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.learning.trainer import Future
from simfl.protocols.arrivals import arrivals
from simfl.protocols.deliveries import Delivered
from simfl.protocols.state_ref import StateRef
from simfl.provenance.journal import Journal
from simfl.system.server_id import CLOUD
from tests.learning.training import Emptied
from tests.protocols.test_moments import TWINS
from tests.small import SEMI_ASYNCHRONOUS, simulated, small

SMALLER = {"data": {"name": "synthetic", "examples": 64, "partition": "iid"}, "model": "linear"}
KEEPING = {
    "name": "fedavg",
    "local": {"batch_size": 16, "momentum": 0.9, "keep_optimizer": True},
}
PLUGINS = """
from dataclasses import dataclass, replace
from typing import ClassVar
from simfl.algorithms.base import Algorithm
from simfl.decisions.base import Allocation

class Drawn(Allocation):
    def decide(self, view, rng):
        return rng.uniform(view.frequency_min_hz, view.frequency_max_hz)

BRIEFS = []

@dataclass(frozen=True)
class Remembering(Algorithm):
    def brief(self, network, state, client, held):
        BRIEFS.append((client, state.version, held))
        return super().brief(network, state, client, held)

@dataclass(frozen=True)
class Laborious(Algorithm):
    factor: float = 1.0

    def price(self, network, client, version):
        plain = super().price(network, client, version)
        return replace(plain, up_bytes=3 * plain.up_bytes, work=self.factor)
"""


def new_values(**changes):
    """The seam of the small scenario, before anything was asked of it."""
    simulation = assemble(small(**SMALLER, **changes), Options(device="cpu"))
    return simulation.make_run(None, Journal()).values


def one_job(values, ref, client=0, number=0, held=-1):
    """A submitted job."""
    (future,) = values.submit(np.array([client]), np.array([number]), ref, np.array([held]))
    return future


def delivered(futures, versions=None):
    """Jobs as they arrive at a server."""
    return Delivered(
        np.array([future.client for future in futures]),
        np.array([future.version for future in futures] if versions is None else versions),
        np.full(len(futures), 4),
        futures,
        np.zeros(len(futures)),
        np.zeros(len(futures), dtype=np.int64),
    )


def all_differ(keys):
    """Whether no two keys are equal."""
    return len(set(keys)) == len(keys)


def test_a_client_s_newest_update_is_taken_in_last():
    """Whatever their keys say: an algorithm that remembers what a client sent remembers that."""
    values = new_values()
    first = values.begin([0, 1], "cloud")
    jobs = [one_job(values, first, client, number) for number in range(4) for client in (1, 0)]
    versions = [number for number in range(4) for _ in (1, 0)]

    arrived = arrivals(4, delivered(jobs, versions))

    assert [(one.client, one.staleness) for one in arrived] == [
        (client, staleness) for client in (0, 1) for staleness in (4, 3, 2, 1)
    ]


@pytest.mark.parametrize("protocol", ["synchronous", {"name": "asynchronous", "concurrency": 4}])
def test_versions_that_nobody_reads_are_looked_at_a_fixed_number_of_times(protocol, monkeypatch):
    """Four times the versions until the first evaluation: four times the looks, not sixteen."""
    looks = Counter()

    def counted(kind, name):
        plain = getattr(kind, name).fget

        def look(one):
            looks[versions] += 1
            return plain(one)

        monkeypatch.setattr(kind, name, property(look))

    counted(StateRef, "known")
    counted(Future, "done")
    for versions in (10, 40):
        scenario = small(
            **SMALLER, protocol=protocol, stop={"versions": versions}, evaluate={"every": versions}
        )
        simulated(scenario)

    assert looks[40] < 5 * looks[10]


@pytest.mark.parametrize(
    ("protocol", "trainings"),
    [({"name": "hierarchical", "edge_rounds": 2}, 4), (SEMI_ASYNCHRONOUS, 2)],
    ids=["hierarchical", "semi_asynchronous"],
)
def test_edge_servers_of_one_version_have_their_clients_trained_together(protocol, trainings):
    """All eight clients at once, in each of two edge rounds; nobody looks at the first version."""
    changes = {"stop": {"versions": 2}, "evaluate": {"every": 2}}

    _, run = simulated(small(protocol=protocol, **changes))

    assert run.values.trainer.cohorts == [8] * trainings


def test_a_store_that_lost_its_states_costs_computing_them_again():
    """Long after they were listed they are gone: no deep recursion, and the same state."""
    made = []

    def follow(parent, version):
        def make():
            if parent is not None:
                parent.value()
            made.append(version)
            return ServerState({}, version)

        return StateRef(str(version), version, make, [parent] if parent else [], store=Emptied())

    last = None
    for version in range(1000):
        last = follow(last, version)

    assert last.value().version == 999
    assert made == list(range(1000))


def test_a_first_state_has_its_tier_and_clients_in_its_key():
    """Edge servers may start from other facts than the cloud."""
    values = new_values()
    states = [
        values.begin(clients, tier)
        for clients, tier in (([0, 1], "cloud"), ([0, 1], "edge-0"), ([0], "cloud"))
    ]

    assert all_differ([state.key for state in states])


def test_a_job_has_state_client_turn_held_and_chain_in_its_key():
    """Whatever a brief, a seed or a memory may depend on makes another job."""
    values = new_values(algorithm=KEEPING)
    cloud, edge = values.begin([0, 1], "cloud"), values.begin([0, 1], "edge-0")
    asked = [
        one_job(values, cloud),
        one_job(values, edge),
        one_job(values, cloud, client=1),
        one_job(values, cloud, number=1),
        one_job(values, cloud, held=0),
    ]
    again = one_job(values, cloud)

    values.computed(np.array([0]), [asked[1]], np.array([1.0]))
    chained = one_job(values, cloud)

    assert all_differ([job.key for job in [*asked, chained]])
    assert again.key == asked[0].key


def test_jobs_of_clients_that_keep_nothing_stand_alone():
    """A job without memory does not depend on what its client did before, which need not be
    trained.
    """
    values = new_values()
    ref = values.begin([0, 1], "cloud")
    dropped = one_job(values, ref)

    values.computed(np.array([0]), [dropped], np.array([1.0]))
    later = one_job(values, ref, number=1)

    assert later.job.previous is None
    assert values.last_job(0, 2.0) is None


def test_an_aggregate_has_its_jobs_and_their_staleness_in_its_key_in_any_order():
    """The order of arrival changes neither the key nor a bit of the weights."""
    keys, weights = set(), []
    for order in ((0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 0, 4, 1, 3), (1, 3, 0, 4, 2)):
        values = new_values(dtype="float32")
        ref = values.begin(range(8), "cloud")
        state = values.aggregate(ref, delivered([one_job(values, ref, one) for one in order]))
        keys.add(state.key)
        weights.append(state.value().weights)
    jobs = [one_job(values, ref, client) for client in range(5)]
    others = [
        values.aggregate(ref, delivered(jobs[:4])),
        values.aggregate(ref, delivered(jobs, [-1, 0, 0, 0, 0])),
        values.aggregate(ref, delivered(jobs), [0.5, 1.0, 1.0, 1.0, 1.0]),
        values.aggregate(ref, delivered(jobs), [1.0, 0.5, 1.0, 1.0, 1.0]),
        values.aggregate(values.begin(range(8), "edge-0"), delivered(jobs)),
    ]

    assert len(keys) == 1
    assert all_differ([*keys, *(state.key for state in others)])
    for one in weights[1:]:
        assert all(torch.equal(weights[0][name], one[name]) for name in one)


def test_tiers_have_both_sides_and_the_share_in_their_keys():
    """Merging and adopting depend on the upper and the lower state, merging on the share too."""
    values = new_values()
    cloud, edge, other = (values.begin([0], tier) for tier in ("cloud", "edge-0", "edge-1"))

    merged = [
        values.merge(cloud, [edge], [0.5]),
        values.merge(cloud, [edge], [0.25]),
        values.merge(cloud, [other], [0.5]),
        values.merge(other, [edge], [0.5]),
    ]
    adopted = [values.adopt(edge, cloud), values.adopt(edge, other), values.adopt(other, cloud)]

    assert all_differ([state.key for state in [*merged, *adopted]])


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """The import path of a class above."""
    file = tmp_path_factory.mktemp("plugins") / "own.py"
    file.write_text(PLUGINS)
    return lambda name: f"{file}:{name}"


@pytest.mark.parametrize("protocol", ["synchronous", {**SEMI_ASYNCHRONOUS, "edge_rounds": 3}])
def test_a_brief_knows_which_version_its_client_last_received(own, protocol):
    """-1 at first, then the version of the client's round before."""
    scenario = small(
        **SMALLER,
        algorithm={"name": own("Remembering"), "local": {"batch_size": 16}},
        protocol=protocol,
        decisions={"selection": {"name": "random", "share": 0.5}},
        stop={"versions": 5},
    )

    simulation, run = simulated(scenario)

    briefs = sys.modules[type(simulation.algorithm).__module__].BRIEFS
    read = sorted(briefs[-run.values.trainer.trained :])
    assert any(held >= 0 for _, _, held in read)
    for client in range(8):
        own_briefs = [(version, held) for one, version, held in read if one == client]
        expected = [-1, *(version for version, _ in own_briefs)][: len(own_briefs)]
        assert [held for _, held in own_briefs] == expected


def test_a_price_is_what_the_turn_costs(own):
    """Twice the work takes twice the seconds, and the server aggregates what was sent up."""
    runs = {
        factor: simulated(small(**SMALLER, algorithm={"name": own("Laborious"), "factor": factor}))[
            1
        ]
        for factor in (1.0, 2.0)
    }
    plain = simulated(small(**SMALLER))[1]

    def of(run, table, kind, actors=slice(0, 8)):
        return getattr(run.accounts, table)[actors, run.accounts.kinds.index(kind)]

    np.testing.assert_allclose(
        of(runs[2.0], "seconds", "compute"), 2 * of(runs[1.0], "seconds", "compute")
    )
    assert (of(runs[1.0], "bytes", "upload") == 3 * of(plain, "bytes", "upload")).all()
    cloud = plain.actors.cloud
    assert of(runs[1.0], "seconds", "cloud_aggregate", cloud) > of(
        plain, "seconds", "cloud_aggregate", cloud
    )


def test_edge_servers_draw_for_themselves(own, tmp_path):
    """At the same moment, frequencies and selections of equal edge servers are other draws."""
    scenario = small(
        population={**TWINS, "clients": 16, "edges": 2, "frequency_min_hz": 1e8},
        data={"name": "synthetic", "examples": 160, "partition": "iid"},
        protocol=SEMI_ASYNCHRONOUS,
        decisions={"selection": {"name": "random", "count": 4}, "allocation": own("Drawn")},
    )

    simulated(scenario, tmp_path)

    events = pd.read_parquet(tmp_path / "events.parquet").query("kind == 'compute'")
    first = events[events["start_s"] == events["start_s"].min()]
    left, right = (first[first["edge"] == edge] for edge in (0, 1))
    assert len(left) == len(right) == 4
    assert set(left["client"]) != set(right["client"] - 8)
    assert not set(left["frequency_hz"]) & set(right["frequency_hz"])


def test_what_is_reported_of_a_turn_is_what_its_rows_cost(tmp_path):
    """Seconds and joules from dispatch to upload, idle power included."""
    _, run = simulated(small(**SMALLER, stop={"versions": 1}), tmp_path)

    events = pd.read_parquet(tmp_path / "events.parquet")
    rounds = events[events["kind"].isin(["download", "compute", "upload"])].groupby("client")
    view = run.observations.clients(np.arange(8), run.clock.now_s, 0, CLOUD)
    np.testing.assert_allclose(view.last_energy_j, rounds["energy_j"].sum())
    np.testing.assert_allclose(view.last_duration_s, rounds["duration_s"].sum())


def test_a_job_is_done_when_its_computation_is_not_when_its_upload_is(tmp_path):
    """Between the two the client holds its new memory already."""
    simulated(small(**SMALLER, algorithm=KEEPING, stop={"versions": 1}), tmp_path)
    events = pd.read_parquet(tmp_path / "events.parquet").set_index("kind")
    computed_s = events.loc["compute", "time_s"].min()
    client = int(events.loc["compute"].sort_values("time_s")["client"].iloc[0])

    limit_s = float(np.nextafter(computed_s, np.inf))
    stop = {"versions": None, "time_s": limit_s}
    _, cut = simulated(small(**SMALLER, algorithm=KEEPING, stop=stop))

    assert cut.values.last_job(client, limit_s) is not None
    assert sum(cut.values.last_job(one, limit_s) is not None for one in range(8)) < 8
