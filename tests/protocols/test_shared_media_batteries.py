"""Batteries by hand, over media on which nobody knows how long a message will take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import simfl
from simfl.runs.battery_levels import battery_levels
from simfl.runs.runfolder import LoadedRun
from tests.protocols.test_hand_timeline import PROFILES, SCENARIO

IDLE_W, RADIO_W, CPU_W = 1.0, 4.0, 0.6
"""Of a client that waits; beyond that while it receives alone, and while it computes."""
RADIO = """
kind: link
link: {name: fixed_rate, uplink_bps: 128, downlink_bps: 128, rtt_s: 0, jitter_s: 0,
       power_transmit_w: 4, power_receive_w: 4, power_idle_w: 0}
"""
PHONE = PROFILES["fast"].replace("memory_bytes", "battery_j: 100\nmemory_bytes")
AWAY = {
    "name": "tests.protocols.availabilities:Away",
    "clients": [1],
    "from_s": 0.5,
    "back_s": 2.0,
}


def run(folder: Path, way: Any, joules: float, seconds: float = 8.0, **changes: Any) -> LoadedRun:
    """A phone with so many joules and a board, whose messages take a second alone."""
    (folder / "profiles").mkdir()
    for name, text in {**PROFILES, "phone": PHONE, "radio": RADIO}.items():
        (folder / "profiles" / f"{name}.yaml").write_text(text)
    scenario = yaml.safe_load(SCENARIO)
    batteries = {"initial": [joules / 100] * 2, "lowest": 0.001, "charge_w": 0.0}
    batteries |= changes.pop("batteries", {})
    phone, board = {"device": "phone", "link": "radio"}, {"device": "fast", "link": "radio"}
    population = scenario["population"] | {
        "groups": [{**phone, "count": 1}, {**board, "count": 1}],
        "access_sharing": way,
        "batteries": {"hours_spread_s": 0.0, **batteries},
        **changes,
    }
    scenario |= {"population": population, "protocol": "synchronous", "stop": {"time_s": seconds}}
    (folder / "scenario.yaml").write_text(yaml.safe_dump(scenario))
    found = simfl.run(folder / "scenario.yaml", folder / "run")
    assert all(found.manifest["invariants"].values()), found.manifest["violations"]
    return found


def states(found: LoadedRun, client: int, rows: int) -> list[tuple[Any, ...]]:
    """What a client did first: kind, from, to, joules, bytes."""
    columns = ["kind", "start_s", "time_s", "energy_j", "bytes"]
    events = found.events[found.events["client"] == client].sort_values("start_s", kind="stable")
    return list(events[columns].head(rows).itertuples(index=False, name=None))


def approx(*row: Any) -> tuple[Any, ...]:
    """A row of `states`, to rounding."""
    return (row[0], *(pytest.approx(value, abs=1e-9) for value in row[1:]))


def test_a_battery_empties_in_mid_transfer_and_the_rival_speeds_up(tmp_path: Path) -> None:
    """5 J at 5 W last for a second, in which each has had half of its message.

    The phone, off, draws nothing any more. The board has the rest half a second later.
    """
    found = run(tmp_path, "ofdma_equal", 5.0)

    first, interruption, off = states(found, 0, 3)
    assert first == approx("download", 0.0, 1.0, (IDLE_W + RADIO_W) * 1.0, 0)
    assert interruption == approx("battery_empty", 1.0, 1.0, 0.0, 0)
    assert (off[0], off[1]) == approx("idle", 1.0) and off[3] == pytest.approx(0.0, abs=1e-9)
    (other,) = states(found, 1, 1)
    assert other == approx("download", 0.0, 1.5, (IDLE_W + RADIO_W) * 1.5, 16)
    assert found.events.query("client == 0 and kind == 'download'")["bytes"].sum() == 0


def test_it_drains_faster_once_the_rival_is_away(tmp_path: Path) -> None:
    """Sharing time, radios send half of it: 3 W for half a second, 5 W alone; 4 J last for one.

    Foreseen at the beginning was a second and a third. The rival, back at 2 s with three quarters
    of its message to come, has the medium to itself.
    """
    found = run(tmp_path, "throughput_fair", 4.0, availability=AWAY, leaving="pause")

    assert states(found, 0, 2) == [
        approx("download", 0.0, 1.0, 4.0, 0),
        approx("battery_empty", 1.0, 1.0, 0.0, 0),
    ]
    other_j = IDLE_W * 2.75 + RADIO_W * (0.25 + 0.75)
    assert states(found, 1, 1) == [approx("download", 0.0, 2.75, other_j, 16)]


def test_a_charger_that_is_plugged_in_on_the_way(tmp_path: Path) -> None:
    """4 J at 5 W for half a second, then, charged with 2 W, at 3 W: another half a second."""
    charger = {"charge_w": 2.0, "plug_in_s": 0.5, "unplug_s": 7.0}
    found = run(tmp_path, "ofdma_equal", 4.0, batteries=charger)

    assert states(found, 0, 1) == [approx("download", 0.0, 1.0, 5.0, 0)]


def test_who_has_run_empty_is_off_until_it_is_charged(tmp_path: Path) -> None:
    """3 J at 5 W, 2 W of which a charger gives, last for a second; off, it has 9 J again at 5.5 s.

    By then the board has begun a round without it.
    """
    charger = {"charge_w": 2.0, "plug_in_s": 0.0, "unplug_s": 50.0, "lowest": 0.09}
    found = run(tmp_path, "ofdma_equal", 3.0, batteries=charger)

    assert states(found, 0, 1) == [approx("download", 0.0, 1.0, 5.0, 0)]
    downloads = found.events.query("kind == 'download' and client >= 0")
    phone, board = (downloads.query(f"client == {one}")["start_s"].tolist() for one in (0, 1))
    assert 1.0 < board[1] < 5.5 <= phone[1]


def test_a_battery_empties_in_a_computation(tmp_path: Path) -> None:
    """10 J are left of 10.8 after a download that the two share, for half of the computation."""
    found = run(tmp_path, "ofdma_equal", 10.8)

    rows = [one for one in states(found, 0, 9) if one[0] != "idle"]
    assert rows[:3] == [
        approx("download", 0.0, 2.0, 10.0, 16),
        approx("compute", 2.0, 2.5, 0.8, 0),
        approx("battery_empty", 2.5, 2.5, 0.0, 0),
    ]


def test_a_pause_draws_idle_power_alone(tmp_path: Path) -> None:
    """Half a second at 5 W, then at 1 W until the battery is empty: the round ends while away."""
    away = {**AWAY, "clients": [0], "back_s": 20.0}
    found = run(tmp_path, "ofdma_equal", 3.5, availability=away, leaving="pause")

    assert states(found, 0, 3) == [
        approx("download", 0.0, 1.5, 3.5, 0),
        approx("unavailable", 0.5, 0.5, 0.0, 0),
        approx("battery_empty", 1.5, 1.5, 0.0, 0),
    ]
    assert states(found, 1, 1) == [approx("download", 0.0, 1.25, 5 * 1.25, 16)]


@pytest.mark.parametrize("way", ["ofdma_equal", "throughput_fair", "fifo"])
def test_levels_are_found_again_from_the_log(tmp_path: Path, way: str) -> None:
    """What is left of 60 J is what the log does not say was drawn."""
    found = run(tmp_path, way, 60.0)

    levels = battery_levels(found)
    drawn_j = found.events.query("client == 0")["energy_j"].sum()
    assert set(levels["client"]) == {0}
    assert levels["level"].iloc[-1] == pytest.approx((60.0 - drawn_j) / 100)
    assert drawn_j > 10
