"""Without rivals both executors give the same run: every row, every column, nothing left out."""

from __future__ import annotations

import math
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import simfl
from simfl.protocols.clock import Clock, Stalled
from simfl.runs.runfolder import LoadedRun
from simfl.scenario.scenario import Scenario
from tests.books import check_books
from tests.protocols.test_determinism import ShuffledEnvironment, log_bytes
from tests.protocols.test_fault_mixes import (
    AVAILABILITIES,
    BATTERIES,
    OUTAGES,
    PROTOCOLS,
    no_more_than_there_are,
)
from tests.protocols.test_shared_media import CRASHES, FREE, GAMES, LOSS, TIGHT, scenario
from tests.protocols.test_shared_media import PROTOCOLS as SHIPPED
from tests.small import simulated, small

TROUBLED = {
    "leaving": "abort",
    "availability": {
        "name": "renewal",
        "present": {"mean_s": 0.2, "law": "exponential"},
        "absent": {"mean_s": 0.1, "law": "exponential"},
    },
    "faults": {"clients": CRASHES},
}
TIMING = {"name": "none", "local": GAMES["local"]}
SERVERS_CRASH = {
    "edge_servers": {"works": {"mean_s": 0.5}, "broken": {"mean_s": 0.1}},
    "cloud_link": {"works": {"mean_s": 0.2}, "broken": {"mean_s": 0.05}},
}
ASKING = {"selection": {"name": "power_of_choice", "count": 2, "factor": 2.0}}
EQUAL = {
    "access_bps": [1e6, 1e6],
    "cycles_per_example": [1e5, 1e5],
    "frequency_max_hz": [1e9, 1e9],
}
POWERED = {
    "initial": [3e-6, 6e-6],
    "lowest": 1e-6,
    "charge_w": 0.5,
    "plug_in_s": 0.0,
    "unplug_s": 43200.0,
}


@pytest.mark.grid(4)
@pytest.mark.parametrize("leaving", ["abort", "pause"])
@pytest.mark.parametrize("protocol", SHIPPED)
def test_clients_that_leave_or_crash_in_mid_round(tmp_path, protocol, leaving):
    """Their rounds end or pause at the same moments, for the same joules and bytes."""
    events = same(tmp_path, protocol, {**TROUBLED, "leaving": leaving})

    assert {"crash", "unavailable"} & set(events["kind"])
    assert leaving == "pause" or {"crash", "unavailable"} & set(events["cut_by"])


@pytest.mark.parametrize("loss", [None, LOSS], ids=["safe", "lossy"])
@pytest.mark.parametrize("protocol", ["hierarchical", "semi_asynchronous"])
def test_servers_that_crash_and_links_that_are_cut(tmp_path, protocol, loss):
    """What they lose, send again and wait for is the same as with links of their own."""
    events = same(tmp_path, protocol, {"faults": SERVERS_CRASH, "message_loss": loss})

    crashes = events.query("kind == 'crash'")["detail"]
    assert set(crashes) == {'{"what": "edge_server"}', '{"what": "cloud_link"}'}
    assert {"edge_server", "cloud_link"} & set(events["cut_by"])
    lost = events[events["lost_bytes"] > 0]
    assert lost["client"].notna().any()
    assert lost["client"].isna().any() == (loss is not None)


@pytest.mark.grid(2)
@pytest.mark.parametrize("loss", [None, LOSS], ids=["safe", "lossy"])
@pytest.mark.parametrize("deadline_s", [None, 0.01])
def test_messages_beside_rounds(tmp_path, deadline_s, loss):
    """FL Games' moves reach clients, and stragglers after their rounds, as over their own links."""
    protocol = {"name": "synchronous", "patience": {"deadline_s": deadline_s}}
    events = same(tmp_path, protocol, {"message_loss": loss}, algorithm=GAMES)

    assert (events["kind"] == "download").sum() > 8
    assert ("late" in set(events["kind"])) == (deadline_s is not None)


@pytest.mark.parametrize("population", [{}, TROUBLED], ids=["calm", "troubled"])
def test_queries(tmp_path, population):
    """Clients that are asked for their losses before they are selected."""
    events = same(tmp_path, "synchronous", population, decisions=ASKING)

    assert events["detail"].astype(str).str.contains("query").any()


@pytest.mark.grid(3)
@pytest.mark.parametrize("protocol", ["synchronous", "asynchronous", "patient"])
@pytest.mark.parametrize(
    "ways",
    [{"access_sharing": FREE}, {"backhaul_sharing": FREE}],
    ids=["access", "backhaul"],
)
def test_a_server_behind_the_backhaul(tmp_path, ways, protocol):
    """Either hop of it, or both (among the mixes below): 1 Mbit/s is slower than some links."""
    behind = {**TROUBLED, "leaving": "pause", "message_loss": LOSS, "server_behind": "backhaul"}
    (tmp_path / "slow.yaml").write_text(SLOW_BACKHAUL)
    behind |= {"profiles": [str(tmp_path)], "backhaul": "slow"}
    runs = [
        simfl.run(scenario(protocol, None, {**behind, **way}), tmp_path / str(number))
        for number, way in enumerate(({}, ways))
    ]

    compare(*runs)
    kinds = set(runs[0].events["kind"])
    assert {"download", "upload", "network"} <= kinds
    assert "backhaul" in runs[0].hardware


SLOW_BACKHAUL = """\
kind: link
link:
  name: fixed_rate
  uplink_bps: 1.0e6
  downlink_bps: 1.0e6
  rtt_s: 0.02
  jitter_s: 0.01
  power_transmit_w: 0
  power_receive_w: 0
  power_idle_w: 0
  loss_probability: 0.1
  energy_j_per_byte: 2.0e-7
"""


@pytest.mark.grid(1)
@pytest.mark.parametrize("leaving", ["abort", "pause"])
def test_batteries(tmp_path, leaving):
    """Clients whose batteries run empty in any stage, and between their rounds."""
    population = {**TROUBLED, "leaving": leaving, "batteries": POWERED, "message_loss": LOSS}
    events = same(tmp_path, "synchronous", population, algorithm=TIMING, stop={"versions": 30})

    assert "battery_empty" in set(events["cut_by"])


@pytest.mark.grid(1)
@pytest.mark.parametrize("protocol", ["synchronous", "hierarchical", "semi_asynchronous"])
def test_faults_of_a_moment_in_any_order(tmp_path, protocol):
    """Byte for byte, where clients pause, run empty and crash, and so do servers and links."""
    faults = {"clients": CRASHES, **SERVERS_CRASH}
    trouble = {**TROUBLED, "leaving": "pause", "faults": faults, "batteries": POWERED}
    run = scenario(protocol, TIGHT, trouble, algorithm=TIMING)
    found = set()
    for order in range(3):
        folder = tmp_path / str(order)
        folder.mkdir()
        simulated(run, folder, clock=Clock(ShuffledEnvironment(order)))
        found.add(log_bytes(folder))

    kinds = set(pd.read_parquet(folder / "events.parquet")["kind"])
    assert len(found) == 1
    assert {"unavailable", "crash", "battery_empty"} <= kinds


def test_a_run_that_stalls_has_its_last_moment_in_the_log(tmp_path):
    """All batteries are empty in the end; what would have come later stalls nobody later."""
    batteries = {**POWERED, "initial": [0.0, 3e-6], "charge_w": 0.0, "unplug_s": 0.3}
    batteries["hours_spread_s"] = 0.2
    away = {
        "name": "renewal",
        "present": {"mean_s": 3.0, "law": "exponential"},
        "absent": {"mean_s": 0.01, "law": "exponential"},
    }
    run = {"seed": 0, "protocol": {"name": "asynchronous"}, "stop": {"versions": 80, "time_s": 9.0}}
    phones = [{"device": "phone_high_sd865", "link": "lte_2021", "share": 1.0}]
    several = []
    for way in ("dedicated", FREE):
        population = {"clients": 3, "edges": 1, "leaving": "pause", "batteries": batteries}
        population |= {"compute_noise": 0.1, "transfer_noise": 0.1, "groups": phones}
        population |= {"availability": away, "access_sharing": way}
        several.append(
            run_of(small(**run, algorithm=TIMING, population=population), tmp_path / str(way))
        )

    compare(*several)
    for one in several:
        assert one.manifest["reason"].startswith("Stalled: stalled at ")
        assert "battery_empty" in set(one.events["kind"])
        last_s = one.events.query("client.notna()").groupby("client")["time_s"].max()
        assert last_s.tolist() == [one.manifest["horizon_s"]] * 3
        assert one.events["energy_j"].sum() == pytest.approx(one.manifest["energy_j"])


@pytest.mark.grid(3)
@pytest.mark.parametrize("leaving", ["abort", "pause"])
@pytest.mark.parametrize("seed", range(103, 108))
def test_clients_that_leave_by_the_clock(tmp_path, seed, leaving):
    """A model that rounds at its boundary still says how long they are away."""
    periodic = {"name": "periodic", "period_s": 1.0, "share": 0.1}
    changes = {"seed": seed, "algorithm": TIMING, "stop": {"versions": 8, "time_s": 1.0}}
    events = same(
        tmp_path, "hierarchical", {"availability": periodic, "leaving": leaving}, **changes
    )

    leave = events[events["kind"] == "unavailable"]
    assert len(leave)
    assert leave["value"].to_numpy() == pytest.approx(0.9)


MIXES = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**31),
        "population": st.fixed_dictionaries(
            {
                "clients": st.integers(3, 10),
                "edges": st.integers(1, 3),
                "compute_noise": st.just(0.1),
                "transfer_noise": st.just(0.1),
                "availability": AVAILABILITIES,
                "leaving": st.sampled_from(["ignore", "pause", "abort"]),
                "noticed_after_s": st.sampled_from([0.0, 0.05]),
                "message_loss": st.none()
                | st.builds(
                    lambda probability, attempts: {
                        "probability": probability,
                        "timeout_s": 0.01,
                        "attempts_max": attempts,
                    },
                    st.sampled_from([0.1, 0.5, 0.9]),
                    st.integers(1, 4),
                ),
                "faults": st.fixed_dictionaries(
                    {"clients": OUTAGES, "edge_servers": OUTAGES, "cloud_link": OUTAGES}
                ),
                "batteries": BATTERIES,
            }
        ),
        "protocol": PROTOCOLS,
        "decisions": st.sampled_from([{}, {"selection": {"name": "random", "count": 2}}, ASKING]),
    }
).map(no_more_than_there_are)


def check(mix: dict[str, Any]) -> None:
    """A mix over links of its own, and over channels without rivals."""
    asks = mix["decisions"] == ASKING
    algorithm = "fedavg" if asks else "none"
    if asks and mix["protocol"]["name"] in ("asynchronous", "buffered"):
        mix = {**mix, "decisions": {}}
    local = {"epochs": 1, "batch_size": 16}
    behind = {"server_behind": ("access_point", "backhaul")[mix["seed"] % 2]}
    ways = []
    for way in ("dedicated", FREE):
        shared = {"access_sharing": way, "backhaul_sharing": way}
        ways.append(
            small(
                **{**mix, "population": {**mix["population"], **behind, **shared}},
                algorithm={"name": algorithm, "local": local},
                stop={"versions": 8, "time_s": 1.0},
            )
        )
    with tempfile.TemporaryDirectory() as folder:
        compare(*(run_of(one, Path(folder) / str(n)) for n, one in enumerate(ways)))


def run_of(one: Scenario, folder: Path) -> LoadedRun:
    """A run to its end, if only that nobody will ever come."""
    try:
        return simfl.run(one, folder)
    except Stalled:
        return simfl.load_run(folder)


@given(mix=MIXES)
@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_any_mix(mix: dict[str, Any]) -> None:
    """A handful; the thousand are below."""
    check(mix)


@pytest.mark.slow
@given(mix=MIXES)
@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_thousand_mixes(mix: dict[str, Any]) -> None:
    """1,000 random mixes of faults, absences, batteries, losses and protocols."""
    check(mix)


@pytest.mark.parametrize("protocol", ["asynchronous", {"name": "buffered", "buffer": 2}])
def test_a_version_counts_what_arrives_at_its_moment(tmp_path, protocol):
    """Two equal clients: one's upload ends when the server has processed the other's, 5 ms each.

    Over channels both events have the same time. The version counts the bytes, whichever came
    first.
    """
    alike = {"name": "paper", "clients": 4, "noise": 0.0, "uplink_codec": "float16", **EQUAL}
    local = {"steps": 3, "batch_size": 8, "learning_rate": 0.1}
    timing = {"name": "none", "local": local}
    run = simfl.run(
        small(
            population={**alike, "access_sharing": FREE},
            algorithm=timing,
            protocol=protocol,
            stop={"versions": 8},
        ),
        tmp_path / "run",
    )

    uploads = run.events.query("kind == 'upload' and bytes > 0")["time_s"]
    assert run.rounds["time_s"].isin(uploads).any()
    check_books(run)


def same(tmp_path, protocol, population, **changes) -> pd.DataFrame:
    """The rows of a run over links of their own, which are those over channels without rivals."""
    runs = [
        simfl.run(scenario(protocol, way, population, **changes), tmp_path / str(way))
        for way in (None, FREE)
    ]
    compare(*runs)
    return runs[0].events


ROUNDING_S = 1e-12
"""Moments that are no further apart are the same: sums of the same terms in another order."""


def compare(left: LoadedRun, right: LoadedRun, before_s: float = math.inf) -> None:
    """Every row and column of the logs, and of the versions, that ended before a moment."""
    for run in (left, right):
        assert run.manifest["violations"] == []
    reasons = [run.manifest["reason"].split(":")[0] for run in (left, right)]
    assert reasons[0] == reasons[1]  # who waits for what is said of steps, too
    rounds = [run.rounds[run.rounds["time_s"] < before_s] for run in (left, right)]
    pd.testing.assert_frame_equal(*rounds, rtol=1e-9, atol=ROUNDING_S)
    # What sharing a channel adds is said of shared channels only.
    logs = [run.events[run.events["kind"] != "expectation"] for run in (left, right)]
    one, two = (in_order(log[log["time_s"] < before_s]) for log in logs)
    columns = [name for name in one if name not in ("seq", "detail")]
    # A column with and without an empty place has another type.
    close = {"rtol": 1e-9, "atol": ROUNDING_S, "check_dtype": False}
    pd.testing.assert_frame_equal(one[columns], two[columns], **close)
    for pair in zip(one["detail"].fillna(""), two["detail"].fillna(""), strict=True):
        assert same_words(*pair), " and ".join(pair)


NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def same_words(left: str, right: str) -> bool:
    """Whether two texts are equal except for the last bits of numbers, such as estimated
    seconds.
    """
    if left == right:
        return True
    if NUMBER.sub("", left) != NUMBER.sub("", right):
        return False
    pair = ([float(one) for one in NUMBER.findall(text)] for text in (left, right))
    return bool(np.allclose(*pair, rtol=1e-9, atol=1e-12))


def in_order(events: pd.DataFrame) -> pd.DataFrame:
    """By actor and time, whatever last bits say: nobody waits for a rounding error."""
    waits = (events["kind"] == "idle") & (events["duration_s"] <= ROUNDING_S)
    events = events[~waits]
    keys = events.assign(begins=events["start_s"].round(9), ends=events["time_s"].round(9))
    order = keys.sort_values(["actor", "begins", "ends", "kind", "edge", "round"]).index
    return events.loc[order].reset_index(drop=True)


def tie_at_the_end(left: LoadedRun, right: LoadedRun) -> bool:
    """Whether something that ends with the run was cut by its end in one of the two only.

    As when the same seconds, added up in another order, end a last bit later.
    """
    begun = ["actor", "kind", "begins"]
    last = [run.events[run.events["time_s"] >= run.manifest["horizon_s"]] for run in (left, right)]
    one, two = (
        rows.assign(begins=rows["start_s"].round(9))[[*begun, "duration_s", "cut_by"]]
        for rows in last
    )
    both = one.merge(two, on=begun, suffixes=("_left", "_right"))
    as_long = (both["duration_s_left"] - both["duration_s_right"]).abs() <= ROUNDING_S
    cut = (both[["cut_by_left", "cut_by_right"]] == "end").sum(axis=1) == 1
    return bool((as_long & cut).any())


def test_the_comparison_sees_a_last_byte(tmp_path):
    """One byte, or a joule in a million, is not the same."""
    run = simfl.run(scenario("synchronous"), tmp_path / "run")
    for column, change in (("lost_bytes", 1), ("energy_j", 1e-6)):
        other = simfl.load_run(tmp_path / "run")
        other.events[column] += change
        with pytest.raises(AssertionError):
            compare(run, other)
    assert same_words('{"estimated_s": [0.1, 2]}', '{"estimated_s": [0.10000000000000001, 2]}')
    assert not same_words('{"estimated_s": [0.1, 2]}', '{"estimated_s": [0.1000001, 2]}')
    assert not same_words('{"idle": [0, 1]}', '{"idle": [0]}')


@pytest.mark.grid(1)
@pytest.mark.parametrize("protocol", ["synchronous", "hierarchical"])
def test_late_updates_in_whichever_order_they_come(tmp_path, protocol):
    """Stragglers of several rounds that are carried over into one: by round and client."""
    patience = {"deadline_s": 0.01, "over_selection": 2.0, "late": "carry_over"}
    run = {"name": protocol, "patience": patience}
    selection = {"selection": {"name": "random", "count": 4}}
    slow = {"straggler_mean": 3.0, "clients": 10, "edges": 1}
    events = same(tmp_path, run, slow, algorithm=TIMING, decisions=selection, stop={"versions": 40})

    assert events["detail"].astype(str).str.contains("staleness_each").any()
