"""What becomes of clients' rounds is counted as the event log tells it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from simfl.protocols.fates import Fates
from simfl.runs.summary import wasted as told_of
from tests.protocols.faults import PROTOCOLS, Watched, faulty, outages, tails_after
from tests.small import SEMI_ASYNCHRONOUS, simulated, small

SHARED = {"access_sharing": {"name": "processor_sharing", "capacity_bps": 2e7}}


@pytest.mark.parametrize("sharing", [{}, SHARED], ids=["dedicated", "shared"])
@pytest.mark.parametrize("protocol", ["asynchronous", SEMI_ASYNCHRONOUS], ids=["flat", "tiers"])
def test_fates_are_those_of_the_log(
    protocol: str | dict[str, Any], sharing: dict[str, Any], tmp_path: Path
) -> None:
    """Rounds that the end of the run cuts off have none; each other one has one.

    Updates that an edge server has received have not arrived if it crashes before it reports.
    """
    _, run = simulated(
        small(
            population={
                "availability": {
                    "name": "renewal",
                    "present": {"mean_s": 0.3, "law": "exponential"},
                    "absent": {"mean_s": 0.1, "law": "exponential"},
                },
                "leaving": "abort",
                "message_loss": {"probability": 0.2, "timeout_s": 0.01, "attempts_max": 1},
                "faults": {
                    "clients": {"works": {"mean_s": 2}, "broken": {"mean_s": 0.5}},
                    "edge_servers": {"works": {"mean_s": 3}, "broken": {"mean_s": 0.5}},
                },
                **sharing,
            },
            algorithm={"name": "none", "local": {"epochs": 40, "batch_size": 16}},
            protocol=protocol,
            stop={"versions": 25},
        ),
        tmp_path,
    )

    events = pd.read_parquet(tmp_path / "events.parquet")
    of_clients = events[events["client"].notna()]
    messages = of_clients[of_clients["kind"].isin(["download", "compute", "upload"])]
    begun = (messages["kind"] == "download").sum()
    cut_off = (messages["cut_by"] == "end").sum()
    ends = of_clients[of_clients["detail"].fillna("").str.contains('"ends"')]["kind"]
    fates = run.fates
    assert sum(fates.values()) == begun - cut_off
    uploads = messages[(messages["kind"] == "upload") & (messages["bytes"] > 0)]
    gone = of_crashed_dispatches(events, uploads)
    assert gone > 0 or protocol == "asynchronous"
    assert fates["arrived"] == len(uploads) - gone > 0
    assert fates["unavailable"] == (ends == "unavailable").sum() > 0
    assert fates["crash"] == (ends == "crash").sum()
    assert fates["lost"] > 0


def of_crashed_dispatches(events: pd.DataFrame, uploads: pd.DataFrame) -> int:
    """How many of the uploads went to an edge server that crashed in the same dispatch.

    A dispatch that waits for a repair is a crash of none.
    """
    gone, of_edges = 0, events[events["client"].isna()]
    begun = of_edges[of_edges["kind"] == "download"]
    reported = of_edges[(of_edges["kind"] == "upload") & (of_edges["bytes"] > 0)]
    for crash in events[events["detail"] == '{"what": "edge_server"}'].itertuples():
        dispatch = begun[(begun["actor"] == crash.actor) & (begun["start_s"] <= crash.time_s)]
        number = dispatch["round"].max()
        if ((reported["actor"] == crash.actor) & (reported["round"] == number)).any():
            continue
        mine = (uploads["edge"] == crash.edge) & (uploads["round"] == number)
        gone += int(mine.sum())
    return gone


@pytest.mark.parametrize("faults", [{}, {"edge_servers": outages(0.5, 0.1)}])
def test_late_updates_are_lost_with_their_idle_server(
    faults: dict[str, Any], tmp_path: Path
) -> None:
    """Client 1's update comes too late for its round, and its edge server fails after it has
    reported, before its next dispatch: nothing is left to carry over."""
    patience = {"deadline_s": 0.03, "late": "carry_over"}
    protocol = {**PROTOCOLS["hierarchical"], "edge_rounds": 1, "patience": patience}

    watched = Watched(faulty(protocol, versions=10, seed=4, faults=faults), tmp_path)

    edge = watched.events[watched.events["actor"] == "edge-0"]
    first, again = edge[edge["kind"] == "download"]["start_s"][:2]
    late = watched.events.query(f"kind == 'late' and edge == 0 and time_s < {again}")
    assert late["client"].tolist() == [1] and late["time_s"].item() < again
    between = edge.query(f"kind == 'upload' and {first} < time_s < {again}")
    assert (between["bytes"] > 0).all() and len(between) == 1
    assert watched.used[1, 0] == (not faults)


@pytest.mark.parametrize("link", ["wifi5_ac", "lte_2021"])
@pytest.mark.parametrize("sharing", [{}, SHARED], ids=["dedicated", "shared"])
def test_wasted_joules_are_those_of_rounds_without_a_merged_update(
    sharing: dict[str, Any], link: str, tmp_path: Path
) -> None:
    """Of rounds that were broken off, that lost a message, and whose update came too late.

    The radio's tails after them are cut off by the next round, by crashes and by the end. Rounds
    that the run's end cuts off, or whose late update it does not await, count nowhere.
    """
    _, run = simulated(
        small(
            population={
                "message_loss": {"probability": 0.1, "timeout_s": 0.01, "attempts_max": 1},
                "faults": {"clients": {"works": {"mean_s": 2}, "broken": {"mean_s": 0.5}}},
                "speed_spread": 1.0,
                "groups": [{"device": "rpi_4b", "link": link, "share": 1.0}],
                **sharing,
            },
            algorithm={"name": "none", "local": {"epochs": 40, "batch_size": 16}},
            protocol={
                "name": "synchronous",
                "patience": {"deadline_s": 0.08 if link == "wifi5_ac" else 0.25},
            },
            stop={"versions": 60},
        ),
        tmp_path,
    )

    events = pd.read_parquet(tmp_path / "events.parquet")
    stages = events[
        events["client"].notna() & events["kind"].isin(["download", "compute", "upload"])
    ]
    end_s = run.clock.now_s
    merged_j = wasted_j = rounds = late = 0.0
    wasted: list[Any] = []
    late_rows = events[(events["kind"] == "late") & (events["time_s"] <= end_s)]
    dropped = set(zip(late_rows["client"], late_rows["round"], strict=True))
    for place, own in stages.groupby(["client", "round"]):
        if (own["cut_by"] == "end").any():
            continue
        arrived = bool(((own["kind"] == "upload") & (own["bytes"] > 0)).any())
        rounds += 1
        late += place in dropped
        if arrived and place not in dropped:
            merged_j += own["active_j"].sum()
        else:
            wasted.append(place)
            wasted_j += own["active_j"].sum()
    tails_j = tails_after(pd.DataFrame(wasted, columns=["client", "round"]), events, run)
    assert tails_j > (0.2 if link == "lte_2021" else 0.05) * wasted_j > 0
    wasted_j += tails_j
    assert late > 5 and len(wasted) > late + 5 and rounds > len(wasted) + 5 and merged_j > 0
    assert (run.wasted["client_rounds"], run.wasted["wasted_rounds"]) == (rounds, len(wasted))
    assert run.wasted["wasted_active_j"] == pytest.approx(wasted_j, rel=1e-9)
    told = f"{len(wasted)} of {rounds:.0f} ({len(wasted) / rounds:.0%})"
    ((label, shown),) = told_of(run.wasted)
    assert label == "client rounds in vain" and shown.startswith(f"{told}, {wasted_j:.1f}"[:-1])
    assert told_of({**run.wasted, "wasted_active_j": float("nan")}) == [(label, told)]
    assert told_of({**run.wasted, "wasted_rounds": 0}) == []


@pytest.mark.parametrize("link", ["wifi5_ac", "lte_2021"])
@pytest.mark.parametrize("sharing", [{}, SHARED], ids=["dedicated", "shared"])
def test_joules_of_updates_that_a_crashed_edge_server_had_are_wasted(
    sharing: dict[str, Any], link: str, tmp_path: Path
) -> None:
    """All client rounds of such a dispatch are in vain: those that had arrived, and the others."""
    faults = {"edge_servers": {"works": {"mean_s": 2}, "broken": {"mean_s": 0.5}}}
    protocol = {"name": "semi_asynchronous", "edge_rounds": 3, "concurrency": 2}
    algorithm = {"name": "none", "local": {"epochs": 40, "batch_size": 16}}
    scenario = small(
        population={
            "faults": faults,
            "groups": [{"device": "rpi_4b", "link": link, "share": 1.0}],
            **sharing,
        },
        algorithm=algorithm,
        protocol=protocol,
        stop={"versions": 120 if link == "wifi5_ac" else 40},
    )

    _, run = simulated(scenario, tmp_path)

    events = pd.read_parquet(tmp_path / "events.parquet")
    stages = events[
        events["client"].notna() & events["kind"].isin(["download", "compute", "upload"])
    ]
    crashed = set()
    begun = events[events["client"].isna() & (events["kind"] == "download")]
    for crash in events[events["detail"] == '{"what": "edge_server"}'].itertuples():
        dispatch = begun[(begun["actor"] == crash.actor) & (begun["start_s"] <= crash.time_s)]
        crashed.add((crash.edge, dispatch["round"].max()))
    lost = [one in crashed for one in zip(stages["edge"], stages["round"], strict=True)]
    lost_rows = stages[lost]
    arrived = lost_rows[(lost_rows["kind"] == "upload") & (lost_rows["bytes"] > 0)]
    cut_off = lost_rows[lost_rows["cut_by"] == "end"]
    assert len(crashed) > 3 and len(arrived) > 3 and cut_off.empty
    assert run.wasted["wasted_rounds"] == (lost_rows["kind"] == "download").sum()
    tails_j = tails_after(lost_rows[["client", "round"]].drop_duplicates(), events, run)
    assert tails_j > (0.5 if link == "lte_2021" else 0.1) * lost_rows["active_j"].sum()
    wasted_j = lost_rows["active_j"].sum() + tails_j
    assert run.wasted["wasted_active_j"] == pytest.approx(wasted_j, rel=1e-9)


@pytest.mark.parametrize(("sharing", "deadline_s"), [({}, 0.01), (SHARED, 0.03)])
def test_joules_of_updates_that_are_carried_over_and_then_dropped(
    sharing: dict[str, Any], deadline_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round that is given up drops late updates of earlier rounds, too: with the tails of these,
    although their clients have begun other rounds since."""
    dropped: list[tuple[int, int]] = []
    drop = Fates.drop

    def watched(self: Fates, clients: Any, active_j: Any, rounds: Any) -> None:
        dropped.extend(zip(clients.tolist(), rounds.tolist(), strict=True))
        drop(self, clients, active_j, rounds)

    monkeypatch.setattr(Fates, "drop", watched)
    late = {"deadline_s": deadline_s, "late": "carry_over", "least_updates": 5}
    _, run = simulated(
        small(
            population={
                "clients": 8,
                "groups": [{"device": "rpi_4b", "link": "lte_2021", "share": 1.0}],
                "compute_noise": 0.6,
                "speed_spread": 0.8,
                **sharing,
            },
            algorithm={"name": "none", "local": {"epochs": 40, "batch_size": 16}},
            decisions={"selection": {"name": "random", "count": 6}},
            protocol={"name": "synchronous", "patience": late},
            stop={"versions": 10_000, "time_s": 10},
        ),
        tmp_path,
    )

    events = pd.read_parquet(tmp_path / "events.parquet")
    stages = events[
        events["client"].notna() & events["kind"].isin(["download", "compute", "upload"])
    ]
    rounds = stages.groupby(["client", "round"])["active_j"].sum().reset_index()
    rounds["number"] = rounds.groupby("client").cumcount()
    wasted = pd.DataFrame(dropped, columns=["client", "number"]).merge(rounds)
    last = rounds.groupby("client")["number"].max()
    earlier = wasted["number"] < wasted["client"].map(last)
    assert len(wasted) == len(dropped) == run.wasted["wasted_rounds"] and earlier.sum() > 20
    wasted_j = wasted["active_j"].sum() + tails_after(wasted[["client", "round"]], events, run)
    assert run.wasted["wasted_active_j"] == pytest.approx(wasted_j, rel=1e-9)
