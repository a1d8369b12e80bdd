"""Random media, populations, losses and protocols: every run ends and every law holds."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simfl.protocols.clock import Stalled
from simfl.protocols.run import Run
from simfl.system.battery import Batteries, Flow
from tests.protocols.test_determinism import log_bytes
from tests.small import SMALL, simulated, small

RATES = st.sampled_from([2e5, 1e6, 5e7])
WAYS = st.one_of(
    st.sampled_from(["dedicated", "ofdma_equal", "ofdma_weighted", "throughput_fair"]),
    st.just("airtime_fair"),
    st.builds(lambda channels: {"name": "fifo", "channels": channels}, st.integers(1, 3)),
    st.builds(lambda rate: {"name": "processor_sharing", "capacity_bps": rate}, RATES),
    st.builds(
        lambda access, backhaul: {
            "name": "max_min",
            "access_bps": access,
            "backhaul_bps": backhaul,
        },
        RATES,
        RATES,
    ),
)
PATIENCE = st.fixed_dictionaries(
    {},
    optional={
        "deadline_s": st.sampled_from([0.01, 0.1, 1.0]),
        "over_selection": st.sampled_from([1.0, 1.5, 3.0]),
        "late": st.sampled_from(["drop", "carry_over"]),
    },
)
PROTOCOLS = st.one_of(
    st.builds(lambda patience: {"name": "synchronous", "patience": patience}, PATIENCE),
    st.builds(
        lambda patience, rounds: {
            "name": "semi_asynchronous",
            "edge_rounds": rounds,
            "concurrency": 2,
            "patience": patience,
        },
        PATIENCE,
        st.integers(1, 2),
    ),
    st.just({"name": "hierarchical", "edge_rounds": 2}),
    st.just({"name": "asynchronous", "concurrency": 3}),
    st.just({"name": "buffered", "buffer": 2}),
)
LOSS = st.none() | st.builds(
    lambda share, attempts: {
        "probability": share,
        "timeout_s": 0.02,
        "attempts_max": attempts,
    },
    st.sampled_from([0.1, 0.4]),
    st.integers(1, 3),
)
SOJOURN = st.builds(lambda mean_s: {"mean_s": mean_s}, st.sampled_from([0.02, 0.1, 1.0]))
AVAILABILITY = st.one_of(
    st.sampled_from(["always", {"name": "periodic", "period_s": 50.0, "share": 0.4}]),
    st.builds(
        lambda present, absent: {"name": "renewal", "present": present, "absent": absent},
        SOJOURN,
        SOJOURN,
    ),
)
FAULTS = st.sampled_from(
    [
        {},
        {"leaving": "abort"},
        {"leaving": "pause"},
        {"faults": {"clients": {"works": {"mean_s": 5.0}, "broken": {"mean_s": 0.5}}}},
        {"faults": {"edge_servers": {"works": {"mean_s": 0.5}, "broken": {"mean_s": 0.1}}}},
        {"faults": {"cloud_link": {"works": {"mean_s": 0.2}, "broken": {"mean_s": 0.1}}}},
        {
            "leaving": "pause",
            "faults": {
                "clients": {"works": {"mean_s": 3.0}, "broken": {"mean_s": 0.2}},
                "edge_servers": {"works": {"mean_s": 3.0}, "broken": {"mean_s": 0.1}},
                "cloud_link": {"works": {"mean_s": 1.0}, "broken": {"mean_s": 0.1}},
            },
        },
    ]
)
# Of a phone's capacity: tenths of a joule; the charger comes or goes in mid-run.
BATTERIES = st.none() | st.builds(
    lambda high, charge_w, plug_in_s: {
        "initial": [0.0, high],
        "lowest": high / 3,
        "charge_w": charge_w,
        "plug_in_s": plug_in_s,
        "unplug_s": plug_in_s + 40_000.0,
        "hours_spread_s": 0.2,
    },
    st.sampled_from([3e-6, 1e-5, 1e-4]),
    st.sampled_from([0.5, 1.3, 20.0]),
    st.sampled_from([0.0, 0.2]),
)
STOP = st.sampled_from([{"versions": 3, "time_s": 1.0}, {"versions": None, "time_s": 0.3}])


class Meter:
    """What clients' batteries have given, by client."""

    def __init__(self) -> None:
        self.drawn_j = np.zeros(8)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Note what flows."""
        advance = Batteries.advance

        def noted(batteries: Batteries, clients: Any, *arguments: Any) -> Flow:
            flow = advance(batteries, clients, *arguments)
            self.drawn_j[clients] += flow.drawn_j
            return flow

        with mock.patch.object(Batteries, "advance", noted):
            yield

    def agrees(self, run: Run, events: pd.DataFrame) -> bool:
        """Whether that is what the log says, once the last loads are followed to the end.

        Where the end comes upon a client between two flows, its battery is ahead of it.
        """
        charge = run.observations._presence.charge
        assert charge is not None
        clients = np.arange(8)
        ahead = charge._batteries.time_s > run.clock.now_s
        clients = clients[charge.on_battery(clients) & ~ahead]
        charge.release(clients, run.clock.now_s)
        booked_j = events.groupby("client")["energy_j"].sum().reindex(range(8), fill_value=0.0)
        return np.allclose(self.drawn_j[clients], booked_j.to_numpy()[clients], rtol=1e-8)


def laws_hold(**changes: Any) -> None:
    """The run ends, keeps every law, fills every client's time, and is the same again."""
    found, trouble = set(), changes["population"]
    for _ in range(2):
        meter, stalled = Meter(), ""
        with tempfile.TemporaryDirectory() as folder, meter.watching():
            try:
                run = simulated(small(**changes), Path(folder))[1]
            except Stalled as reason:
                stalled = str(reason)
            if stalled:
                # Who leaves or crashes may never be there for as long as a slow medium takes.
                helpless = "faults" in trouble or trouble["batteries"] is not None
                assert trouble.get("leaving") == "abort" or helpless
                assert "waits for" not in stalled
                return
            events = pd.read_parquet(Path(folder) / "events.parquet")
            found.add(log_bytes(Path(folder)))
            if trouble["batteries"] is not None and trouble["access_sharing"] != "dedicated":
                assert meter.agrees(run, events)
        assert all(run.laws.values()), run.accounts.violations
        assert np.isfinite(events["energy_j"]).all()
        client_rounds = events[events["kind"] == "upload"].dropna(subset="client")
        assert not client_rounds.duplicated(["client", "start_s", "round"]).any()
    assert len(found) == 1


CASES = {
    "seed": st.integers(0, 10**6),
    "access": WAYS,
    "backhaul": WAYS,
    "loss": LOSS,
    "availability": AVAILABILITY,
    "rivals": st.booleans(),
    "faults": FAULTS,
    "batteries": BATTERIES,
    "protocol": PROTOCOLS,
    "stop": STOP,
}


def scenario(**case: Any) -> dict[str, Any]:
    """What `small` is changed by."""
    groups = SMALL["population"]["groups"]
    population = {
        "access_sharing": case["access"],
        "backhaul_sharing": case["backhaul"],
        "message_loss": case["loss"],
        "availability": case["availability"],
        "transfer_noise": 0.2,
        "batteries": case["batteries"],
        "groups": [{**one, "medium": "air"} for one in groups] if case["rivals"] else groups,
        **case["faults"],
    }
    selection = {"selection": {"name": "random", "share": 0.6}}
    return {
        "algorithm": case.get("algorithm", "none"),
        "seed": case["seed"],
        "protocol": case["protocol"],
        "population": population,
        "decisions": selection,
        "stop": case["stop"],
    }


@given(case=st.fixed_dictionaries(CASES))
@settings(max_examples=10, deadline=None, derandomize=True)
def test_every_law_holds_over_random_media(case: dict[str, Any]) -> None:
    """Twenty mixes."""
    laws_hold(**scenario(**case))


GAMES = {"name": "fl_games", "local": {"epochs": 1, "batch_size": 16, "learning_rate": 0.1}}
IMPATIENT = st.builds(
    lambda deadline_s: {"name": "synchronous", "patience": {"deadline_s": deadline_s}},
    st.none() | st.sampled_from([0.01, 0.1]),
)
PLAYED = {**CASES, "algorithm": st.just(GAMES), "protocol": IMPATIENT}


@given(case=st.fixed_dictionaries(PLAYED))
@settings(max_examples=3, deadline=None, derandomize=True)
def test_messages_beside_turns_keep_every_law(case: dict[str, Any]) -> None:
    """Five mixes."""
    laws_hold(**scenario(**case))


@pytest.mark.slow
@given(case=st.fixed_dictionaries(PLAYED))
@settings(max_examples=50, deadline=None)
def test_messages_beside_turns_keep_every_law_in_many_mixes(case: dict[str, Any]) -> None:
    """Fifty mixes."""
    laws_hold(**scenario(**case))


@pytest.mark.slow
@given(case=st.fixed_dictionaries(CASES))
@settings(max_examples=100, deadline=None)
def test_every_law_holds_over_many_random_media(case: dict[str, Any]) -> None:
    """A hundred mixes."""
    laws_hold(**scenario(**case))
