"""Rounds that bring nothing, or only by assumption, are told where they would mislead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import simfl
from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.cli.app import app
from simfl.runs.runfolder import LoadedRun
from simfl.study.comparable import unlike_servers
from tests.small import small

SLOW, FAST = "rpi_zero_2w", "rpi_5"
TIMING = {"name": "none", "local": {"epochs": 400, "batch_size": 16}}
SHARED = {"access_sharing": {"name": "processor_sharing", "capacity_bps": 2e7}}


def messages(run: LoadedRun, kind: str) -> list[str]:
    """What the run's warnings of a kind say."""
    return [one.message for one in run.warnings if one.kind == kind]


def with_deadline(folder: Path, slow: int, versions: int, **patience: Any) -> LoadedRun:
    """Some slow boards among eight, whose updates come after the deadline of 0.12 s."""
    groups = [
        {"device": FAST, "link": "ethernet_1g", "count": 8 - slow},
        {"device": SLOW, "link": "ethernet_1g", "count": slow},
    ]
    scenario = small(
        data={"partition": "iid"},
        population={"groups": [one for one in groups if one["count"]]},
        algorithm=TIMING,
        protocol={
            "name": "synchronous",
            "patience": {"deadline_s": 0.12, **patience},
            "wait_for": {"clients": 8},
        },
        stop={"versions": versions, "time_s": 5.0},
    )
    return simfl.run(scenario, folder)


@pytest.mark.parametrize(
    ("slow", "versions", "patience", "told"),
    [
        (2, 4, {}, True),
        (2, 3, {}, False),
        (2, 4, {"late": "carry_over"}, False),
        (2, 4, {"deadline_s": 60.0}, False),
        (8, 4, {}, False),
        (2, 4, {"least_updates": 8}, False),
    ],
    ids=["late", "too few", "carried over", "in time", "one is waited for", "all are given up"],
)
def test_a_kind_of_device_that_is_always_dropped_is_told(
    slow: int, versions: int, patience: dict[str, Any], told: bool, tmp_path: Path
) -> None:
    """A fifth of the rounds is: too few for the warnings of most rounds, or of chance."""
    run = with_deadline(tmp_path / "run", slow, versions, **patience)

    rounds = int(run.clients.loc[run.clients["device"] == SLOW, "participations"].sum())
    said = (
        f"of the clients with {SLOW} on ethernet_1g (2 clients, {rounds} rounds): no version has an"
    )
    found = messages(run, "always_dropped")
    assert len(found) == told and all(said in one for one in found)
    assert not messages(run, "mostly_late") or slow == 8
    given_up = "least_updates" in patience
    assert (run.clients["dropped"].sum() == run.clients["participations"].sum() > 0) == given_up


def test_the_summary_counts_dropped_rounds_apart(tmp_path: Path) -> None:
    """Beside those that were finished."""
    groups = [
        {"device": FAST, "link": "ethernet_1g", "count": 6},
        {"device": SLOW, "link": "ethernet_1g", "count": 2},
    ]
    scenario = small(
        data={"partition": "iid"},
        population={"groups": groups},
        algorithm=TIMING,
        protocol={
            "name": "synchronous",
            "patience": {"deadline_s": 0.12},
            "wait_for": {"clients": 8},
        },
        stop={"versions": 4},
    )
    (tmp_path / "run.yaml").write_text(scenario.to_yaml())
    command = ["run", str(tmp_path / "run.yaml"), "--out", str(tmp_path / "run")]

    printed = CliRunner().invoke(app, command).stdout

    clients = simfl.load_run(tmp_path / "run").clients
    assert clients["dropped"].sum() == 6
    row = next(line for line in printed.splitlines() if line.startswith("│ all "))
    cells = [cell.strip() for cell in row.split("│")[1:5]]
    assert cells == ["all", "8", str(clients["participations"].sum()), "6"]


def leaving(folder: Path, rule: str, share: float = 0.5, **population: Any) -> LoadedRun:
    """Clients that leave for good shortly after the start of the first of three rounds."""
    gone = {"name": "absence", "share": share, "from_s": 0.01}
    scenario = small(
        data={"partition": "iid"},
        population={
            "availability": gone,
            "leaving": rule,
            "groups": [{"device": FAST, "link": "wifi5_ac", "share": 1.0}],
            **population,
        },
        algorithm=TIMING,
        stop={"versions": 3},
    )
    return simfl.run(scenario, folder)


@pytest.mark.parametrize("sharing", [{}, SHARED], ids=["dedicated", "shared"])
def test_rounds_that_go_on_without_their_client_are_told(
    sharing: dict[str, Any], tmp_path: Path
) -> None:
    """As many as would be broken off; nobody is there to go on in the rounds after it."""
    ignored, aborted, paused = (
        leaving(tmp_path / rule, rule, **sharing) for rule in ("ignore", "abort", "pause")
    )

    broken_off = int((aborted.events["kind"] == "unavailable").sum())
    rounds = ignored.manifest["client_rounds"]
    assert broken_off > 0
    (said,) = messages(ignored, "ignored_absences")
    share = f"{broken_off} of {rounds} client rounds ({broken_off / rounds:.1%})"
    assert said.startswith(f"{share} went on after their client had left")
    assert not messages(aborted, "ignored_absences")
    assert not messages(paused, "ignored_absences")


@pytest.mark.parametrize("sharing", [{}, SHARED], ids=["dedicated", "shared"])
def test_they_are_those_in_which_the_client_is_away_at_some_moment(
    sharing: dict[str, Any], tmp_path: Path
) -> None:
    """By the log and the model's own answers; rounds that the end cuts off have not ended."""
    renewal = {
        "name": "renewal",
        "present": {"mean_s": 1.0, "law": "exponential"},
        "absent": {"mean_s": 0.5, "law": "exponential"},
    }
    groups = [{"device": SLOW, "link": "wifi5_ac", "share": 1.0}]
    scenario = small(
        data={"partition": "iid"},
        population={"availability": renewal, "groups": groups, **sharing},
        algorithm=TIMING,
        protocol={"name": "asynchronous", "concurrency": 4},
        stop={"versions": 40},
    )
    run = simfl.run(scenario, tmp_path / "run")
    pausing = scenario.with_overrides(["population.leaving=pause"])
    simulation = assemble(scenario, Options(device="cpu"))
    model = simulation.parts[("population", "availability")]

    away = 0
    for client, rows in run.events.dropna(subset="client").groupby("client"):
        begins = rows[rows["kind"] == "download"]["start_s"]
        ends = rows[(rows["kind"] == "upload") & (rows["cut_by"] != "end")]["time_s"]
        for begin_s, end_s in zip(begins, ends, strict=False):
            who = np.array([int(client)])
            moments_s = np.linspace(begin_s, end_s, 2000)[1:-1]
            there = [model.available(who, at_s, simulation.streams)[0] for at_s in moments_s]
            away += not all(there)

    rounds = run.manifest["client_rounds"]
    (said,) = messages(run, "ignored_absences")
    assert 3 < away < rounds and said.startswith(f"{away} of {rounds} client rounds")
    assert not messages(simfl.run(pausing, tmp_path / "pausing"), "ignored_absences")


@pytest.mark.parametrize("sharing", [{}, SHARED], ids=["dedicated", "shared"])
@pytest.mark.parametrize("away_s", [0.02, 20.0])
def test_rounds_that_mostly_wait_are_told(
    away_s: float, sharing: dict[str, Any], tmp_path: Path
) -> None:
    """With the mean duration of a round, and of its pauses, by the log."""
    renewal = {
        "name": "renewal",
        "present": {"mean_s": 0.1, "law": "exponential"},
        "absent": {"mean_s": away_s, "law": "exponential"},
    }
    scenario = small(
        data={"partition": "iid"},
        population={
            "availability": renewal,
            "leaving": "pause",
            "groups": [{"device": SLOW, "link": "wifi5_ac", "share": 1.0}],
            **sharing,
        },
        algorithm=TIMING,
        stop={"versions": 5},
    )
    run = simfl.run(scenario, tmp_path / "run")

    events = run.events[run.events["cut_by"] != "end"]
    took_s = events.loc[events["kind"].isin(["download", "compute", "upload"]), "duration_s"].sum()
    paused_s = events.loc[events["kind"] == "unavailable", "value"].sum()
    rounds = run.manifest["client_rounds"]
    found = messages(run, "mostly_paused")
    assert 0.0 < paused_s < took_s
    assert len(found) == (paused_s > 0.5 * took_s) == (away_s > 1.0)
    mean_s = f"took {took_s / rounds:.4g} s on average, {paused_s / rounds:.4g} s of it paused"
    assert all(said.endswith(mean_s) for said in found)


def test_clients_who_stay_are_no_reason_to_warn(tmp_path: Path) -> None:
    """Nobody leaves."""
    assert not messages(leaving(tmp_path / "run", "ignore", share=0.0), "ignored_absences")


def costs(*places: str) -> pd.DataFrame:
    """A setting for each place of the server."""
    return pd.DataFrame({"point": range(len(places)), "server_place": places})


def test_servers_at_unlike_places_are_told() -> None:
    """Where some have tiers; not of accuracies, or where the backhaul is before both."""
    flat, behind, tiers = "access points", "behind the backhaul", "behind edge servers"

    (said,) = unlike_servers(costs(flat, tiers), ["accuracy", "time_s", "bytes"])

    assert said.startswith("time_s, bytes: without edge servers the server is at the access points")
    assert unlike_servers(costs(flat, tiers), ["time_to_accuracy_0.5_s"])
    assert unlike_servers(costs(flat, tiers), ["accuracy"]) == []
    assert unlike_servers(costs(behind, tiers), ["time_s"]) == []
    assert unlike_servers(costs(flat, behind), ["time_s"]) == []
    assert unlike_servers(pd.DataFrame({"point": [0, 1]}), ["time_s"]) == []


@pytest.mark.parametrize(("behind", "told"), [("access_point", True), ("backhaul", False)])
def test_compare_tells_servers_at_unlike_places(
    behind: str, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a run's hardware says."""
    monkeypatch.setenv("COLUMNS", "500")
    simfl.run(small(algorithm="none", population={"server_behind": behind}), tmp_path / "flat")
    simfl.run(small(algorithm="none", protocol="hierarchical"), tmp_path / "tiers")

    found = CliRunner().invoke(app, ["compare", str(tmp_path / "flat"), str(tmp_path / "tiers")])

    assert ("server_behind: backhaul puts it there in both" in found.stdout) == told
