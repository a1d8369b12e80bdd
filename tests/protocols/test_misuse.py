"""Decisions and protocols of a user's own that break their contract are refused, by name."""

import json

import numpy as np
import pandas as pd
import pytest

from tests.small import SEMI_ASYNCHRONOUS, simulated, small

PLUGINS = """
from dataclasses import dataclass, replace
from typing import ClassVar
import numpy as np
from simfl.algorithms.base import Algorithm
from simfl.decisions.base import Scheduling, Selection, Staleness
from simfl.protocols.base import Protocol

class Chosen(Selection):
    def decide(self, memory, view, rng):
        return memory, self.choose(view.clients)
class Twice(Chosen):
    def choose(self, clients): return np.repeat(clients, 2)
class Mask(Chosen):
    def choose(self, clients): return clients >= 0
class Floats(Chosen):
    def choose(self, clients): return clients * 1.0
class Nobody(Chosen):
    def choose(self, clients): return clients[:0]
class Strangers(Chosen):
    def choose(self, clients): return clients + 100
class AsList(Chosen):
    def choose(self, clients): return [int(clients[0])]

class Picked(Scheduling):
    def decide(self, memory, view, rng):
        return memory, self.pick(view), {"scores": view.data_share, "best": view.data_share.max()}
class FromBehind(Picked):
    def pick(self, view): return -1
class FarOut(Picked):
    def pick(self, view): return 99
class Busy(Picked):
    def pick(self, view): return int(np.flatnonzero(~view.idle)[0])
class Numpy(Picked):
    def pick(self, view):
        first = np.flatnonzero(view.idle)[0]
        view.idle[:] = False  # a view is the policy's own
        return first

class TooMuch(Staleness):
    def share(self, staleness): return 1.5

class Brief(Protocol):
    def process(self, run):
        yield run.clock.until(1.0)
class GoesOn(Protocol):
    def process(self, run):
        ref = run.begin("cloud")
        for number in range(10):
            chosen = yield from run.select(ref, run.all_clients, number)
            delivered = yield from run.client_rounds(chosen, ref, number)
            ref = yield from run.aggregate(ref, delivered, number)
            run.publish(ref, number, participants=chosen.size, staleness=0)
class Overlapping(Protocol):
    def process(self, run):
        ref = run.begin("cloud")
        rounds = [run.env.process(run.client_rounds(run.all_clients[:2], ref, 0)) for _ in range(2)]
        yield rounds[0] & rounds[1]

@dataclass(frozen=True)
class FirstFour(Algorithm):
    def players(self, version, clients): return [client for client in clients if client < 4]
@dataclass(frozen=True)
class NumpyPrice(Algorithm):
    learned_price: ClassVar[bool] = True
    def brief(self, network, state, client, held):
        plain = super().brief(network, state, client, held)
        price = replace(plain.price, up_bytes=np.int64(100), work=np.float32(1.0))
        return replace(plain, price=price)
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """The import path of a class above."""
    file = tmp_path_factory.mktemp("plugins") / "own.py"
    file.write_text(PLUGINS)
    return lambda name: f"{file}:{name}"


@pytest.mark.parametrize("name", ["Twice", "Mask", "Floats", "Nobody", "Strangers"])
def test_a_selection_chooses_numbers_of_given_clients_each_once(own, name):
    """Anything else is refused before a round is booked."""
    with pytest.raises(ValueError, match=rf"{name}\.decide must choose among the clients it is"):
        simulated(small(decisions={"selection": own(name)}))


def test_a_selection_may_return_a_list(own):
    """What numpy takes for numbers is as good as an array."""
    run = simulated(small(decisions={"selection": own("AsList")}))[1]

    assert run.observations.participations.tolist() == [3, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(("name", "edge"), [("FromBehind", -1), ("FarOut", 99), ("Busy", 1)])
def test_scheduling_picks_an_idle_edge_server(own, name, edge):
    """Neither a busy one nor one that does not exist."""
    scenario = small(protocol=SEMI_ASYNCHRONOUS, decisions={"scheduling": own(name)})
    if name == "Busy":
        scenario = scenario.with_overrides(["protocol.concurrency=2"])

    picked = rf"{name}\.decide picked edge server -?[0-9]+, accepted: an idle one"
    with pytest.raises(ValueError, match=picked) as found:
        simulated(scenario)
    assert name == "Busy" or f"server {edge}," in str(found.value)


def test_scheduling_may_speak_numpy(own, tmp_path):
    """A numpy integer is a pick, arrays are details, and a changed view changes nothing else."""
    scenario = small(protocol=SEMI_ASYNCHRONOUS, decisions={"scheduling": own("Numpy")})

    simulated(scenario, tmp_path)

    events = pd.read_parquet(tmp_path / "events.parquet")
    detail = json.loads(events.loc[events["kind"] == "schedule", "detail"].iloc[0])
    assert np.isclose(sum(detail["scores"]), 1.0)
    assert detail["best"] == max(detail["scores"])
    assert detail["idle"]


@pytest.mark.parametrize("protocol", [SEMI_ASYNCHRONOUS, "asynchronous", "buffered"])
def test_a_share_above_one_is_refused(own, protocol):
    """It would push the model away from its own state."""
    scenario = small(protocol=protocol, decisions={"staleness": own("TooMuch")})

    with pytest.raises(ValueError, match=r"TooMuch\.share gave 1\.5, not in"):
        simulated(scenario)


def test_a_client_is_dispatched_once_at_a_time(own):
    """A protocol that dispatches it again in mid-round is told which client it was."""
    with pytest.raises(ValueError, match="client 0 is dispatched while an earlier round is under"):
        simulated(small(protocol=own("Overlapping")))


@pytest.mark.parametrize("stop", [{"versions": 3}, {"versions": 3, "time_s": 50.0}])
def test_a_protocol_may_end_by_itself(own, stop, tmp_path):
    """The manifest does not claim that a limit was reached."""
    import simfl

    run = simfl.run(small(protocol=own("Brief"), stop=stop), tmp_path / "run")

    assert run.manifest["status"] == "completed"
    assert run.manifest["reason"] == "the protocol ended by itself"
    assert run.manifest["horizon_s"] == 1.0
    said = [one.message for one in run.warnings if one.kind == "ended_by_itself"]
    assert said == ["Brief returned after 0 versions, at 1 s, before anything in stop was reached"]


def test_a_protocol_does_not_publish_after_the_end(own):
    """Figures of more versions would stand under the reason of the first end."""
    with pytest.raises(ValueError, match=r"publish: found version 4, accepted: none after"):
        simulated(small(protocol=own("GoesOn"), stop={"versions": 3}))


@pytest.mark.parametrize("deadline_s", [0.001, 30.0])
def test_decisions_in_an_own_protocol_know_nominal_durations(own, deadline_s, tmp_path):
    """They are those of a flat server's rounds where the protocol does not say what it expects."""
    population = {"groups": [{"device": "phone_high_sd865", "link": "wifi5_ac", "share": 1.0}]}
    allocation = {"allocation": {"name": "deadline", "deadline_s": deadline_s}}
    settings = {"population": population, "decisions": allocation, "stop": {"versions": 10}}
    simulated(small(protocol=own("GoesOn"), **settings), tmp_path / "own")
    simulated(small(protocol="synchronous", **settings), tmp_path / "shipped")

    chosen = {}
    for name in ("own", "shipped"):
        events = pd.read_parquet(tmp_path / name / "events.parquet")
        assert (events["kind"] == "expectation").sum() == 1
        chosen[name] = events.loc[events["kind"] == "compute", "frequency_hz"].unique().tolist()
    assert chosen["own"] == chosen["shipped"] and len(chosen["own"]) == 1


@pytest.mark.parametrize("stop", [{"versions": 3}, {"versions": None, "time_s": 1000.0}])
def test_an_edge_server_without_players_is_named_when_all_stalls(own, stop):
    """Nobody of edge server 1 may play, so that it waits for ever, and the cloud for it.

    A limit of time does not hide it: the run has not come so far, it has stalled.
    """
    local = {"batch_size": 16}
    scenario = small(
        protocol={**SEMI_ASYNCHRONOUS, "concurrency": 1},
        algorithm={"name": own("FirstFour"), "local": local},
        stop=stop,
    )

    with pytest.raises(RuntimeError, match="edge-1 waits for one of 0 clients"):
        simulated(scenario)


def test_a_learned_price_may_be_numpy(own):
    """Prices pass the journal as plain numbers."""
    local = {"batch_size": 16}
    run = simulated(small(algorithm={"name": own("NumpyPrice"), "local": local}))[1]

    uplink = run.accounts.kinds.index("upload")
    assert run.accounts.bytes[:8, uplink].tolist() == [300.0] * 8
