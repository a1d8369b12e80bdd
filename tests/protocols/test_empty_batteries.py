"""Devices that are off, by hand: 0.5 W come in, they idle at 1 W, and 20 J of 100 restart them."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfl.runs.battery_levels import battery_levels
from simfl.runs.runfolder import LoadedRun
from tests.protocols.test_shared_media_batteries import approx, run, states

HARVEST = {"harvest_w": [[0.0, 0.5]], "lowest": 0.2}
ALL_DAY = {"plug_in_s": 0.0, "unplug_s": 86_399.0, "hours_spread_s": 0.0}
PLUGGED_IN = {**ALL_DAY, "charge_w": 0.5, "lowest": 0.2}
PHONE_ALONE = {"clients": 1, "groups": [{"device": "phone", "link": "radio", "count": 1}]}


def unmet_j(found: LoadedRun) -> float:
    """What the phone would have drawn if it had not been off."""
    told = found.details("idle").query("client == 0")
    return float(told["unmet_j"].sum())


def level_at(time_s: float) -> float:
    """The level of a waiting client: 40 s off, when 0.5 W make 20 J, and 40 s on, which use
    them.
    """
    place_s = time_s % 80.0
    return 0.005 * min(place_s, 80.0 - place_s)


@pytest.mark.parametrize("way", ["dedicated", "fifo"])
def test_a_run_goes_on_when_its_devices_have_restarted(tmp_path: Path, way: str) -> None:
    """Empty at first, back at 40 s. A round takes 5, 3.2 and 5 J in 4 s, the cloud half a second.

    Of 20 J, and what has come in by then, 1.85 J are left for the second round's upload, which
    takes 4.5 W more than comes in. Then the phone is off for another 40 s, and so on.
    """
    found = run(tmp_path, way, 0.0, 100.0, batteries=PLUGGED_IN, **PHONE_ALONE)

    upload_s = (20 + 0.5 * 7.5 - (13.2 + 0.5 + 8.2)) / 4.5
    for begun_s, row in ((40.0, 0), (80 + 7.5 + upload_s, 9)):
        empty_s = begun_s + 7.5 + upload_s
        rows = states(found, 0, row + 9)[row:]
        assert rows[0] == approx("idle", begun_s - 40, begun_s, 0.0, 0)
        assert rows[1] == approx("download", begun_s, begun_s + 1, 5.0, 16)
        assert rows[3] == approx("upload", begun_s + 3, begun_s + 4, 5.0, 16)
        assert rows[7] == approx("upload", begun_s + 7.5, empty_s, 5 * upload_s, 0)
        assert rows[8] == approx("battery_empty", empty_s, empty_s, 0.0, 0)
    off_s = 100 - empty_s
    assert unmet_j(found) == pytest.approx(40 + 40 + off_s)
    assert battery_levels(found)["level"].iloc[-1] == pytest.approx(0.005 * off_s)


@pytest.mark.parametrize("way", ["dedicated", "fifo"])
def test_by_a_harvest_alone_each_restart_makes_one_round(tmp_path: Path, way: str) -> None:
    """Below 20 J it takes part in no other; it is empty, and back, before the next one."""
    found = run(tmp_path, way, 0.0, 190.0, batteries=HARVEST, **PHONE_ALONE)

    downloads = found.events.query("client == 0 and kind == 'download'")
    begins_s = downloads["start_s"].tolist()
    # Of 20 J and 2 J that come in, 13.2 J are used in 4 s; the rest lasts at 0.5 W net.
    off_s = 44.0 + (22.0 - 13.2) / 0.5
    assert begins_s == pytest.approx([40.0, off_s + 40.0, 2 * (off_s + 40.0) - 40.0])
    assert not (found.events["kind"] == "battery_empty").any()


@pytest.mark.parametrize("way", ["dedicated", "fifo"])
def test_who_waits_goes_off_and_comes_back(tmp_path: Path, way: str) -> None:
    """On from 40 to 80 s and from 120 to 160 s, whenever the log looks at it."""
    away = {
        "name": "tests.protocols.availabilities:Away",
        "clients": [0],
        "from_s": 0.0,
        "back_s": 1000.0,
    }
    found = run(tmp_path, way, 0.0, 190.0, batteries=HARVEST, availability=away)

    waits = found.events.query("client == 0")
    assert set(waits["kind"]) == {"idle"} and len(waits) > 10
    assert waits["energy_j"].sum() == pytest.approx(80.0)
    assert unmet_j(found) == pytest.approx(110.0)
    for one in battery_levels(found).itertuples():
        assert one.level == pytest.approx(level_at(one.time_s), abs=1e-9)
