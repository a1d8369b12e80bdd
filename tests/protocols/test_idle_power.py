"""Which idle power is charged: timelines by hand, and all invariants under every mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import simfl
from simfl.runs.battery_levels import battery_levels
from simfl.scenario.scenario import Scenario
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.streams import Streams
from simfl.system.failures import Failures
from simfl.system.idle_power import IdlePower
from tests.books import check_books
from tests.protocols.faults import faulty
from tests.protocols.test_hand_timeline import PROFILES, SCENARIO
from tests.system.presences import Intervals, Planned

EXACT = 1e-12


def by_hand(folder: Path, *settings: str) -> simfl.LoadedRun:
    """The scenario that `test_hand_timeline` computes on paper, with some keys set."""
    (folder / "profiles").mkdir(exist_ok=True)
    for name, text in PROFILES.items():
        (folder / "profiles" / f"{name}.yaml").write_text(text)
    (folder / "scenario.yaml").write_text(SCENARIO)
    scenario = Scenario.from_yaml(folder / "scenario.yaml").with_overrides(list(settings))
    return simfl.run(scenario, folder / "run")


# Of one client round: down, compute, up; beyond idle power of 1.5 W.
ROUND_J = (1.875 + 2.1 + 3.75) + (1.875 + 4.025 + 3.75)
ACTIVE_J = (0.75 + 0.6 + 1.875) + (0.75 + 1.025 + 1.875)
WAITED_S = 1 + 1 + 3.25 + 2.25
NETWORK_J = 8.0


def test_parts_of_the_energy_by_hand(tmp_path: Path) -> None:
    """Clients, servers and the network at both versions; the three are the total."""
    rounds = by_hand(tmp_path).rounds
    servers_j = 13 + 13 + 23.25 + 15 + 11 * 4.5 + 10 * 6.75
    expected = {
        "client_energy_j": ROUND_J + 1.5 * WAITED_S,
        "client_active_j": ACTIVE_J,
        "server_energy_j": servers_j,
        "network_energy_j": NETWORK_J,
        "energy_j": ROUND_J + 1.5 * WAITED_S + servers_j + NETWORK_J,
    }
    for column, joules in expected.items():
        assert rounds[column].tolist() == pytest.approx([joules, 2 * joules], rel=EXACT), column


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_servers_idle_power_by_the_share_that_is_charged(tmp_path: Path, share: float) -> None:
    """11 W of the edge server and 10 W of the cloud, all the time; their work in full."""
    run = by_hand(tmp_path, f"population.server_idle_share={share}")
    # 2 W for 2 s of messages, 20 W for 0.75 s and 0.5 s of aggregation.
    servers_j = 4 + 15 + 10 + share * (11 + 10) * 7.25

    assert run.rounds["server_energy_j"].tolist() == pytest.approx(
        [servers_j, 2 * servers_j], rel=EXACT
    )
    client_j = ROUND_J + 1.5 * WAITED_S
    assert run.manifest["client_energy_j"] == pytest.approx(2 * client_j, rel=EXACT)
    aggregate = run.events.query("kind == 'edge_aggregate'")["energy_j"]
    assert aggregate.tolist() == pytest.approx([(11 * share + 20) * 0.75] * 2, rel=EXACT)


def test_idle_power_in_rounds_only(tmp_path: Path) -> None:
    """From a dispatch to the round's end at 1.5 W, between rounds nothing; rows stay."""
    run = by_hand(tmp_path, "population.client_idle=rounds")

    assert run.rounds["client_energy_j"].tolist() == pytest.approx(
        [ROUND_J, 2 * ROUND_J], rel=EXACT
    )
    assert run.rounds["client_active_j"].tolist() == pytest.approx(
        [ACTIVE_J, 2 * ACTIVE_J], rel=EXACT
    )
    waits = run.events.query("kind == 'idle' and client >= 0")
    assert waits["duration_s"].sum() == pytest.approx(2 * WAITED_S, rel=EXACT)
    assert waits["energy_j"].tolist() == [0.0] * 6
    assert all(run.manifest["invariants"].values())


def test_idle_power_while_present(tmp_path: Path) -> None:
    """There for the first 4.5 s of every 5: one client waits through 0.25 s of an absence.

    Client 0 waits from 4 to 8.25 and from 11.25, client 1 from 5 to 8.25 and from 12.25, and both
    for the first second; they are away from 4.5 to 5, from 9.5 to 10 and from 14.5 on.
    """
    columns = {"client": [0, 1], "start_s": [0.0, 0.0], "end_s": [4.5, 4.5], "period_s": [5.0, 5.0]}
    pd.DataFrame(columns).to_parquet(tmp_path / "there.parquet")
    run = by_hand(
        tmp_path,
        "population.client_idle=present",
        "population.availability={name: trace, file: there.parquet, order: listed}",
    )
    waits = run.events.query("kind == 'idle' and client >= 0")
    expected_s = {
        (row.client, row.start_s): row.duration_s
        - max(0.0, min(row.time_s, 5.0) - max(row.start_s, 4.5))
        for row in waits.itertuples()
    }
    assert waits["energy_j"].tolist() == pytest.approx(
        [1.5 * paid_s for paid_s in expected_s.values()], rel=EXACT
    )
    assert min(waits["energy_j"] / waits["duration_s"]) < 1.5


def test_absences_and_crashes_of_a_wait() -> None:
    """Away from 2 to 5 and from 9 on; crashed from 4 to 7: unpaid from 2 to 7 and from 9 on."""
    there, who = Intervals(((0.0, 2.0), (5.0, 9.0))), np.array([0])
    idle = IdlePower("present", there, Planned(4.0), 1, Streams(0))

    def unpaid(from_s: float, until_s: float) -> float:
        return float(idle.unpaid_s(who, np.array([from_s]), np.array([until_s]))[0])

    for until_s, unpaid_s in ((1.0, 0), (3.0, 1), (4.5, 2.5), (6.0, 4), (8.0, 5), (11.0, 7)):
        assert unpaid(0.0, until_s) == pytest.approx(unpaid_s, abs=EXACT)
    assert unpaid(3.0, 8.0) == pytest.approx(4.0, abs=EXACT)
    assert unpaid(0.0, 3.0) == pytest.approx(1.0, abs=EXACT)
    rounds = IdlePower("rounds", there, Failures(None, Streams(0), ""), 1, Streams(0))
    assert rounds.unpaid_s(who, np.array([3.0]), np.array([8.0])).tolist() == [5.0]


ABSENCES: dict[str, Any] = {
    "availability": {
        "name": "renewal",
        "present": {"mean_s": 0.3, "law": "exponential"},
        "absent": {"mean_s": 0.1, "law": "exponential"},
    },
    "faults": {"clients": {"works": {"mean_s": 0.5}, "broken": {"mean_s": 0.1}}},
}


@pytest.mark.grid(3)
@pytest.mark.parametrize("mode", ["present", "rounds"])
@pytest.mark.parametrize("protocol", ["synchronous", "asynchronous", "semi_asynchronous"])
@pytest.mark.parametrize("sharing", ["dedicated", "throughput_fair"])
def test_every_mode_keeps_the_books(tmp_path: Path, mode: str, protocol: str, sharing: str) -> None:
    """All laws, and what only idle rows of clients cost less than under `always`."""
    more = {**ABSENCES, "leaving": "pause", "access_sharing": sharing}
    runs = {
        one: simfl.run(faulty(protocol, client_idle=one, **more), tmp_path / one)
        for one in ("always", mode)
    }

    check_books(runs[mode])
    whole, part = (run.events for run in runs.values())
    assert runs[mode].manifest["fingerprint"] == runs["always"].manifest["fingerprint"]
    waits = (whole["kind"] == "idle") & whole["client"].notna()
    np.testing.assert_array_equal(part.loc[~waits, "energy_j"], whole.loc[~waits, "energy_j"])
    assert (part.loc[waits, "energy_j"] <= whole.loc[waits, "energy_j"] + 1e-12).all()
    assert part.loc[waits, "energy_j"].sum() < whole.loc[waits, "energy_j"].sum()
    for column in ("client_active_j", "server_energy_j", "network_energy_j"):
        np.testing.assert_allclose(
            runs[mode].rounds[column], runs["always"].rounds[column], rtol=1e-9, atol=1e-12
        )


def test_batteries_are_drained_by_what_devices_draw(tmp_path: Path) -> None:
    """Whoever pays for a wait: the run's course, and the levels found again, are the same."""
    phones = {"groups": [{"device": "phone_high_sd865", "link": "lte_2021", "share": 1.0}]}
    batteries = {"initial": [4e-6, 4e-5], "lowest": 1e-6, "charge_w": 3.0}
    levels = []
    for mode in ("always", "rounds"):
        scenario = faulty("asynchronous", client_idle=mode, batteries=batteries, **phones)
        run = simfl.run(scenario, tmp_path / mode)
        check_books(run)
        levels.append(battery_levels(run))
    assert (run.events.query("kind == 'idle' and client >= 0")["energy_j"] == 0).all()
    np.testing.assert_allclose(levels[0]["level"], levels[1]["level"], atol=1e-12)

    with pytest.raises(ScenarioError, match="client_idle: found present, accepted with batteries"):
        simfl.run(faulty("asynchronous", client_idle="present", batteries=batteries))
