"""Between edge servers and the cloud: whose weights, what they count, whose machine, how long."""

import sys

import numpy as np
import pandas as pd
import pytest
import torch

import simfl
from simfl.assembly.assemble import assemble
from simfl.provenance.journal import Journal
from tests.small import SEMI_ASYNCHRONOUS, final_weights, simulated, small

PLUGINS = '''
from dataclasses import dataclass, replace
from simfl.algorithms.base import Algorithm
from simfl.decisions.base import Staleness

STARTS = []

@dataclass(frozen=True)
class Watching(Algorithm):
    def brief(self, network, state, client, held):
        STARTS.append(state.weights)
        return super().brief(network, state, client, held)

@dataclass(frozen=True)
class Deaf(Staleness):
    def share(self, staleness):
        return 0.0 * staleness

@dataclass(frozen=True)
class OnesFrom(Algorithm):
    """A model of zeros, but of ones where this client has taken part."""
    client: int = 0
    def start(self, network, clients, evaluator, seed):
        state = super().start(network, clients, evaluator, seed)
        zeros = {name: 0 * tensor for name, tensor in state.weights.items()}
        return replace(state, weights=zeros)
    def aggregate(self, state, updates, evaluator):
        one = float(any(update.client == self.client for update in updates))
        weights = {name: 0 * tensor + one for name, tensor in state.weights.items()}
        return replace(state, weights=weights)
'''
ONE_ROUND = {**SEMI_ASYNCHRONOUS, "edge_rounds": 1}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Six versions of two edge servers: the simulation, its run and its events."""
    folder = tmp_path_factory.mktemp("finished")
    population = {"edge_server": "edge_xeon_d", "cloud_server": "edge_epyc_node"}
    scenario = small(population=population, protocol=ONE_ROUND, stop={"versions": 6})
    simulation, run = simulated(scenario, folder)
    return simulation, run, pd.read_parquet(folder / "events.parquet")


def test_edge_servers_start_from_the_clouds_weights(tmp_path):
    """Where the cloud takes nothing in, every dispatch starts from its first weights again."""
    file = tmp_path / "own.py"
    file.write_text(PLUGINS)
    scenario = small(
        algorithm={"name": f"{file}:Watching", "local": {"batch_size": 16}},
        protocol=ONE_ROUND,
        decisions={"staleness": f"{file}:Deaf"},
        stop={"versions": 6},
    )

    simulation, run = simulated(scenario)

    starts = sys.modules[type(simulation.algorithm).__module__].STARTS
    first = simulation.network.initial(run.values._streams.seed("model"))
    assert len(starts) >= 6 * 4
    for start in starts:
        assert all(torch.equal(start[name], first[name]) for name in first)


@pytest.mark.parametrize(("staleness", "weight"), [(0, 0.2), (1, 0.18), (3, 0.1458)])
def test_a_late_model_moves_the_cloud_by_its_share(staleness, weight, tmp_path):
    """The card's anchors on a merge: w = 0 and w_m = 1 give w = xi, by ell = 0.2 and k = 0.9.

    Four edge servers of one client each, with equal hardware, are dispatched together, so that the
    n-th to arrive is n - 1 versions late; all models but its own are zeros.
    """
    equal = [{"device": "rpi_4b", "link": "wifi5_ac", "share": 1.0}]
    file = tmp_path / "own.py"
    file.write_text(PLUGINS)

    def versions(client):
        scenario = small(
            data={"partition": "iid"},
            population={"clients": 4, "edges": 4, "groups": equal},
            algorithm={"name": f"{file}:OnesFrom", "client": client},
            protocol={**ONE_ROUND, "concurrency": 4},
            decisions={"staleness": {"name": "exponential", "initial": 0.2, "base": 0.9}},
            stop={"versions": staleness + 1},
        )
        return simulated(scenario)[1]

    client = versions(0).publications.rounds[staleness]["edge"]
    run = versions(client)

    assert run.publications.rounds[staleness]["staleness"] == staleness
    for tensor in final_weights(run).values():
        np.testing.assert_allclose(tensor, weight, rtol=1e-12)


def test_latency_is_from_dispatch_to_arrival(finished):
    """What the cloud observes of an edge server: download, edge round, upload."""
    _, run, events = finished
    view = run.observations.edges(run.clock.now_s, 9, np.ones(2, dtype=bool))

    for edge in range(2):
        own = events[(events["actor"] == f"edge-{edge}") & events["version"].notna()]
        arrived = own[(own["kind"] == "upload") & (own["bytes"] > 0)].iloc[-1]
        begun = own[(own["kind"] == "download") & (own["round"] == arrived["round"])].iloc[-1]
        assert view.last_latency_s[edge] == pytest.approx(arrived["time_s"] - begun["start_s"])


def test_every_message_has_its_own_jitter_in_its_own_direction(finished):
    """The n-th message of an edge server takes what the backhaul says of it, down and up."""
    simulation, _, events = finished
    messages = events[events["actor"].isin(["edge-0", "edge-1"]) & (events["bytes"] > 0)]

    for (edge, kind), own in messages.groupby(["edge", "kind"]):
        cost = simulation.world.backhaul_transfer(
            edge, np.arange(len(own)), simulation.network.size_bytes, kind == "upload"
        )
        assert len(own) >= 2
        assert own["duration_s"].is_unique
        np.testing.assert_allclose(own["duration_s"], cost.duration_s)


def test_each_tier_computes_on_its_own_machine(finished):
    """Edge servers and the cloud are different machines."""
    simulation, _, events = finished
    size = simulation.network.size_bytes

    for kind, tier in (("edge_aggregate", "edge"), ("cloud_aggregate", "cloud")):
        row = events[(events["kind"] == kind) & events["detail"].str.contains("updates")].iloc[0]
        received = size * int(row["detail"].split(":")[1].strip(" }"))
        cost = simulation.world.aggregate(tier, received / 2, received + size)
        other = simulation.world.aggregate(
            {"edge": "cloud", "cloud": "edge"}[tier], received / 2, received + size
        )
        assert row["duration_s"] == pytest.approx(float(cost.duration_s))
        assert row["duration_s"] != pytest.approx(float(other.duration_s))


def test_each_dispatch_draws_anew():
    """A random rule does not pick the same edge server for ever."""
    scenario = small(
        population={"edges": 8},
        protocol=SEMI_ASYNCHRONOUS,
        decisions={"scheduling": "random"},
        algorithm="none",
    )
    run = assemble(scenario).make_run(None, Journal())

    picked = [run.schedule(np.ones(8, dtype=bool), dispatch) for dispatch in range(20)]

    assert len(set(picked)) > 3


def test_a_dispatch_moves_the_papers_bytes(tmp_path):
    """FedCure's MNIST network, 10 clients, 12 edge rounds: 2 B + 2 B * 12 * 10 = 28,011,984."""
    run = simfl.run(
        small(
            data={
                "name": "sizes",
                "examples_per_client": 1,
                "input_shape": [1, 28, 28],
                "outputs": 10,
            },
            model="fedcure_cnn",
            population={"name": "paper", "clients": 20, "edges": 2},
            algorithm={"name": "none", "local": {"steps": 1, "batch_size": 1}},
            protocol={"name": "semi_asynchronous", "edge_rounds": 12, "concurrency": 1},
            stop={"versions": 4},
        ),
        tmp_path / "run",
    )

    sent = run.events[run.events["kind"].isin(["download", "upload"])]
    by_dispatch = sent.groupby(["round", "edge"])["bytes"].sum()

    assert by_dispatch.loc[1].tolist() == [28_011_984]
