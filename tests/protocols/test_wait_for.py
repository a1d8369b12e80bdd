"""Servers that wait until enough clients are there before they select."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simfl
from simfl.protocols import selecting
from simfl.protocols.clock import Stalled
from simfl.runs.runfolder import LoadedRun
from simfl.system.traces.tables import make_intervals
from tests.protocols.faults import Watched, check_promises, faulty, outages
from tests.protocols.test_faults import EVERYTHING
from tests.small import small

TIMING: dict[str, Any] = {
    "algorithm": {"name": "none", "local": {"epochs": 1, "batch_size": 16}},
    "data": {"name": "sizes", "examples_per_client": 5, "input_shape": [8]},
    "model": "linear",
}
WAYS = [pytest.param({}, id="ahead"), pytest.param({"access_sharing": "ofdma_equal"}, id="stepped")]
Stays = Sequence[Sequence[tuple[float, float]]]

BY_HAND: Stays = [[(0, 1000)], [(100, 200)], [(150, 400)], [(300, 1000)]]
"""When each of four clients is there, of 1000 s: one from 0, two from 100, three from 150 s."""


def trace(folder: Path, stays: Stays, period_s: float) -> dict[str, Any]:
    """These stays as a trace, which each client follows in the file's order."""
    rows = [(client, *stay) for client, own in enumerate(stays) for stay in own]
    client, start_s, end_s = np.array(rows, dtype=float).T
    intervals, _ = make_intervals(client, start_s, end_s, np.full(len(stays), period_s))
    intervals.write(folder / "stays.parquet")
    return {"name": "trace", "file": str(folder / "stays.parquet"), "order": "listed"}


def run_of(
    folder: Path,
    stays: Stays,
    wait_for: Mapping[str, Any],
    *,
    protocol: Mapping[str, Any] | str = "synchronous",
    period_s: float = 1000.0,
    versions: int = 1,
    selection: Any = "all",
    **population: Any,
) -> LoadedRun:
    """Rounds of milliseconds among clients that come and go within minutes."""
    protocol = {"name": protocol} if isinstance(protocol, str) else dict(protocol)
    scenario = small(
        **TIMING,
        protocol={**protocol, **({"wait_for": wait_for} if wait_for else {})},
        decisions={"selection": selection},
        population={
            "clients": len(stays),
            "edges": 1,
            "availability": trace(folder, stays, period_s),
            **population,
        },
        stop={"versions": versions},
    )
    return simfl.run(scenario, folder / "run")


def starved(run: LoadedRun) -> int:
    """How many rounds the manifest says were starved."""
    return sum(one.count for one in run.warnings if one.kind == "starved_rounds")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("wait_for", "begins_s", "present"),
    [
        ({"clients": 2}, 100.0, [0, 1]),
        ({"clients": 3}, 150.0, [0, 1, 2]),
        ({"clients": 3, "limit_s": 150.0}, 150.0, [0, 1, 2]),
        ({"clients": 3, "limit_s": 120.0}, 120.0, [0, 1]),
        ({"clients": 4, "limit_s": 250.0}, 250.0, [0, 2]),  # the second has gone again
        ({"clients": 4, "limit_s": 999.0}, 999.0, [0, 3]),
    ],
)
def test_a_round_begins_when_enough_are_there_or_at_the_limit(
    tmp_path: Path, wait_for: dict[str, Any], begins_s: float, present: list[int], way: Any
) -> None:
    """The log says for how long the server waited, and for whom; who lacks somebody is starved."""
    run = run_of(tmp_path, BY_HAND, wait_for, **way)

    (row,) = run.details("select").itertuples()
    assert (row.time_s, row.waited_s) == (begins_s, begins_s)
    assert (row.eligible, list(row.selected)) == (len(present), present)
    assert starved(run) == (len(present) < wait_for["clients"])


@pytest.mark.parametrize("protocol", ["hierarchical", "semi_asynchronous"])
def test_edge_servers_wait_too(tmp_path: Path, protocol: str) -> None:
    """The first of the edge's rounds begins with three, as the flat server's; later ones wait."""
    run = run_of(tmp_path, BY_HAND, {"clients": 3}, protocol={"name": protocol, "edge_rounds": 1})

    (row,) = run.details("select").itertuples()
    assert row.time_s == 150.0 and 149.0 < row.waited_s < 150.0  # since it had the cloud's model
    assert list(row.selected) == [0, 1, 2]


def test_after_the_limit_the_first_to_come_is_enough(tmp_path: Path) -> None:
    """Nobody is there at the limit: at least one must be."""
    run = run_of(tmp_path, [[(500, 900)], [(700, 900)]], {"clients": 2, "limit_s": 100.0})

    (row,) = run.details("select").itertuples()
    assert (row.waited_s, list(row.selected)) == (500.0, [0])
    assert starved(run) == 1


def test_a_deadline_ends_the_wait_for_nobody_only(tmp_path: Path) -> None:
    """Rounds of an edge server that nobody comes to are given up, whatever else it waits for."""
    protocol = {"name": "hierarchical", "edge_rounds": 1, "patience": {"deadline_s": 100.0}}
    wait_for = {"clients": 2, "limit_s": 300.0}

    run = run_of(tmp_path, [[(250, 900)], [(950, 990)]], wait_for, protocol=protocol)

    rows = run.details("select")
    assert rows["eligible"].tolist() == [0, 0, 1]
    # The third round begins to wait after 200 s; its client is there at its deadline.
    np.testing.assert_allclose(rows["waited_s"], [100.0, 100.0, 300.0])
    assert starved(run) == 3


@pytest.mark.parametrize("way", WAYS)
def test_stragglers_are_waited_for(tmp_path: Path, way: dict[str, Any]) -> None:
    """A client that is still busy with a closed round is not free."""
    patience = {"over_selection": 2.0}
    protocol = {"name": "synchronous", "patience": patience, "wait_for": {"clients": 8}}

    run = simfl.run(small(**TIMING, protocol=protocol, population=way), tmp_path / "run")

    selects = run.details("select")
    assert selects["eligible"].tolist() == [8, 8, 8]
    over = run.events[run.events["kind"].isin(["upload", "cloud_aggregate"])]
    over_s = over.groupby("round")["time_s"].max()
    assert selects["time_s"].tolist() == [0.0, over_s[0], over_s[1]]
    waited_s = selects["waited_s"].tolist()
    assert waited_s[0] == 0.0 and waited_s[1] > 0.0


def sixty_phones(rng: np.random.Generator) -> Stays:
    """Two days: the first phone is always available, the others at night, from about 1 for 3
    hours.
    """
    first_s = rng.normal(25, 1.5, 59) * 3600
    last_s = first_s + rng.uniform(2, 4, 59) * 3600
    return [[(0, 86400)], *([stay] for stay in zip(first_s, last_s, strict=True))]


def test_sixty_phones_take_turns(tmp_path: Path) -> None:
    """One of sixty is available in the evening, and trains every version; ten at a time at night.

    A round takes ten minutes, during which the others arrive one by one.
    """
    stays, rounds = sixty_phones(np.random.default_rng(1)), {}
    long = {**TIMING, "data": {**TIMING["data"], "examples_per_client": 10**10}}
    for clients in (1, 10):
        (tmp_path / str(clients)).mkdir()
        scenario = small(
            **long,
            protocol={"name": "synchronous", "wait_for": {"clients": clients}},
            decisions={"selection": {"name": "random", "count": 10}},
            population={
                "clients": 60,
                "availability": trace(tmp_path / str(clients), stays, 2 * 86400.0),
            },
            stop={"versions": 12},
        )
        run = simfl.run(scenario, tmp_path / str(clients) / "run")
        rounds[clients] = run.clients["participations"].to_numpy()
        assert starved(run) == (12 if clients == 1 else 0)

    assert rounds[1].tolist() == [12] + [0] * 59
    assert rounds[10].sum() == 120
    assert np.count_nonzero(rounds[10]) > 30 and rounds[10].max() < 12


def test_who_can_never_come_is_named(tmp_path: Path) -> None:
    """Without a limit the run stalls; with one it goes on with the others."""
    gone = {"name": "tests.protocols.availabilities:Gone", "clients": [0, 1, 2]}
    wait_for: dict[str, Any] = {"clients": 6}
    about: dict[str, Any] = {**TIMING, "population": {"availability": gone}}

    with pytest.raises(Stalled, match="the server waits for 6 of 8 clients to become available"):
        simfl.run(
            small(**about, protocol={"name": "synchronous", "wait_for": wait_for}), tmp_path / "a"
        )
    wait_for["limit_s"] = 60.0
    run = simfl.run(
        small(**about, protocol={"name": "synchronous", "wait_for": wait_for}), tmp_path / "b"
    )

    np.testing.assert_allclose(run.details("select")["waited_s"], [60.0, 60.0, 60.0])
    assert starved(run) == 3


def test_those_who_are_never_there_at_once_are_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They keep their promises, but one goes when the other comes."""
    monkeypatch.setattr(selecting, "MOST_LOOKS", 2000)

    with pytest.raises(Stalled, match=r"the server waits for 2 of 2 clients, but .* wait_for"):
        run_of(tmp_path, [[(0, 500)], [(500, 1000)]], {"clients": 2})


def test_only_players_are_waited_for(tmp_path: Path) -> None:
    """An edge server with fewer clients than that waits for all of its own."""
    stays = [[(0, 1000)], [(200, 1000)], [(0, 1000)], [(0, 1000)], [(50, 1000)]]
    scenario = small(
        **TIMING,
        protocol={"name": "hierarchical", "edge_rounds": 1, "wait_for": {"clients": 3}},
        population={"clients": 5, "availability": trace(tmp_path, stays, 1000.0)},
        stop={"versions": 1},
    )

    rows = simfl.run(scenario, tmp_path / "run").details("select")

    assert sorted(rows["eligible"]) == [2, 3]
    assert sorted(rows["time_s"]) == [50.0, 200.0]


def test_an_edge_server_that_crashes_while_it_waits_begins_again(tmp_path: Path) -> None:
    """What it was waiting for is forgotten with its dispatch; three more dispatches come to 3."""
    population = {"faults": {"edge_servers": outages(40.0, 5.0)}}
    protocol = {"name": "hierarchical", "edge_rounds": 1}

    run = run_of(tmp_path, BY_HAND, {"clients": 3}, protocol=protocol, **population)

    crashes = run.events.query("kind == 'crash' and time_s < 150")
    (row,) = run.details("select").itertuples()
    repaired_s = float(crashes["time_s"].max() + crashes["value"][crashes["time_s"].idxmax()])
    assert len(crashes) > 0 and list(row.selected) == [0, 1, 2]
    assert row.time_s - row.waited_s == pytest.approx(repaired_s, abs=1.0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("limit_s", [0.05, None])
@pytest.mark.parametrize("name", ["synchronous", "hierarchical", "semi_asynchronous"])
def test_protocols_keep_their_promises_when_everything_breaks(
    tmp_path: Path, name: str, limit_s: float | None, way: dict[str, Any]
) -> None:
    """Crashes of edge servers in mid-wait, batteries, losses and leaving: the books balance."""
    wait_for = {"clients": 3, "limit_s": limit_s}
    protocol: dict[str, Any] = {"name": name, "wait_for": wait_for}
    if name != "synchronous":
        protocol["patience"] = {"deadline_s": 0.1}

    watched = Watched(faulty(protocol, versions=30, leaving="abort", **EVERYTHING, **way), tmp_path)

    check_promises(watched)
    assert watched.stalled == ""
    selects = watched.events.query("kind == 'select'")
    assert len(selects) >= 3


def enough_since(stays: Stays, clients: int, limit_s: float, period_s: float) -> float:
    """When so many are there at once first, or anybody from the limit on; by trying each moment."""
    changes = {0.0, limit_s, *(moment for own in stays for stay in own for moment in stay)}
    moments = sorted({one + day * period_s for one in changes for day in range(3)})
    for moment in moments:
        now_s = moment % period_s
        there = sum(any(a <= now_s < b for a, b in own) for own in stays)
        if there >= (1 if moment >= limit_s else clients):
            return moment
    return np.inf


@st.composite
def comings(draw: st.DrawFn) -> Stays:
    """Two to five clients with up to two stays each, on whole seconds below 100."""
    own = st.lists(st.integers(0, 99), min_size=2, max_size=4, unique=True).map(sorted)
    found = draw(st.lists(own, min_size=2, max_size=5))
    return [[(one[0], one[1]), *([(one[2], one[3])] if len(one) == 4 else [])] for one in found]


@given(
    stays=comings(), clients=st.integers(1, 5), limit_s=st.integers(1, 150), stepped=st.booleans()
)
@settings(max_examples=12, deadline=None, derandomize=True)
def test_a_wait_ends_when_it_must(stays: Stays, clients: int, limit_s: int, stepped: bool) -> None:
    """Never later than its limit while anybody is there then, nor earlier than enough are there."""
    clients = min(clients, len(stays))
    way = {"access_sharing": "ofdma_equal"} if stepped else {}
    limit = {} if clients == 1 else {"limit_s": limit_s}
    with TemporaryDirectory() as name:
        run = run_of(Path(name), stays, {"clients": clients, **limit}, period_s=100.0, **way)
        (row,) = run.details("select").itertuples()

    expected_s = enough_since(stays, clients, limit_s, 100.0)
    assert row.time_s == expected_s
    if any(any(a <= limit_s % 100 < b for a, b in own) for own in stays):
        assert row.time_s <= limit_s or clients == 1
