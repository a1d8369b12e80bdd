"""Rows that nothing refuses, but that somebody should look at, are warned of."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfl.calibration.calibrate import Calibration, calibrate
from simfl.scenario.yaml_source.error import ScenarioError
from tests.calibration.planted import file_of

WORK = "device,model,input_shape,outputs,batch_size,batches,seconds"
PI_4B = {"resnet18": 218.4, "resnet50": 652.5, "mobilenet_v2": 305.5}
LINK = "device,direction,bytes,seconds"


def computing(tmp_path: Path, factor: float) -> Calibration:
    """Published times of a Raspberry Pi 4B, times a factor."""
    rows = [f"mine,{model},3x224x224,1000,16,20,{factor * s}" for model, s in PI_4B.items()]
    return calibrate(file_of(tmp_path, rows, WORK), ["rpi_4b"])


def watts(tmp_path: Path, base: str, **read: float) -> list[str]:
    """The doubts about a device whose watts are read once while idle, and while training."""
    rows = [f"mine,{state},{watts}" for state, watts in read.items()]
    return list(calibrate(file_of(tmp_path, rows, "device,state,watts"), [base]).doubts)


def test_plain_measurements_leave_no_doubt(tmp_path: Path) -> None:
    """Neither times nor watts of a board like its base."""
    assert list(computing(tmp_path, 1.0).doubts) == []
    assert watts(tmp_path, "rpi_4b", idle=2.1, train=6.8) == []


@pytest.mark.parametrize("factor", [8.0, 1 / 8])
def test_a_device_unlike_its_base_is_doubted(factor: float, tmp_path: Path) -> None:
    """Seconds of one batch beside the number of all of them are a factor that all rows share."""
    (doubt,) = computing(tmp_path, factor).doubts

    assert doubt.startswith("mine: its seconds are typically ") and "those of rpi_4b" in doubt
    told = float(doubt.split("typically ")[1].split(" times")[0])
    assert told == pytest.approx(factor, rel=0.2)


def test_a_reading_that_loses_against_its_base_is_doubted(tmp_path: Path) -> None:
    """A wattmeter says 2.1 W where the base has 0.1 W, and the profile gets neither."""
    doubts = watts(tmp_path, "phone_flagship_sd8gen2", idle=2.1)

    assert [one.partition(" times those")[0] for one in doubts][:1] == [
        "mine: its watts (idle) are typically 21"
    ]
    assert "1 of 1 rows of watts (idle)" in doubts[1] and "line 2: 2.1, fitted 0.3" in doubts[1]


def test_training_that_costs_nothing_is_doubted(tmp_path: Path) -> None:
    """As by a meter before the power supply of something else."""
    (doubt,) = watts(tmp_path, "rpi_4b", idle=5.0, train=5.1)

    assert "training costs next to no energy" in doubt


def test_a_transfer_that_hung_is_doubted(tmp_path: Path) -> None:
    """A lost packet's time-out is not the link's rate."""
    rows = [f"pi,{way},{size:g},{8 * size / 2e7 + 0.002}" for way in ("up", "down")
            for size in (2e4, 1e6, 1e7)]  # fmt: skip
    rows[1] = f"pi,up,1e6,{8e6 / 2e7 + 1.0}"

    (doubt,) = calibrate(file_of(tmp_path, rows, LINK)).doubts

    assert doubt.startswith("pi_link: 1 of 6 rows of seconds") and "line 3: 1.4" in doubt


@pytest.mark.parametrize("rtt_s", [0.003, 0.03, 0.08])
def test_the_base_does_not_decide_a_round_trip_time_that_rows_tell(
    rtt_s: float, tmp_path: Path
) -> None:
    """Of a base with 4 ms: to a server in the same room, in the same country, and far away."""
    rows = [f"pi,{way},{size:g},{8 * size / 2e7 + rtt_s / 2}" for way in ("up", "down")
            for size in (1e3, 2e4, 1e6, 1e7)]  # fmt: skip

    made = calibrate(file_of(tmp_path, rows, LINK))

    (found,) = [one for one in made.twins[0].figures if one.key == "link.rtt_s"]
    low, high = found.interval
    assert low < rtt_s < high and found.value == pytest.approx(rtt_s, rel=0.3)
    assert list(made.doubts) == []


@pytest.mark.parametrize(("hung", "refused"), [(1, False), (2, False), (3, True)])
def test_transfers_that_hung_are_outliers_unless_most_did(
    hung: int, refused: bool, tmp_path: Path
) -> None:
    """Small messages after a lost packet, 50 times as long: true, but not the link's rate."""
    rows = [f"pi,{way},{size:g},{8 * size / 7e7 + 0.002}" for way in ("up", "down")
            for size in (2e4, 1e6, 1e7)]  # fmt: skip
    for place in (0, 3, 1)[:hung]:
        rows[place] = ",".join([*rows[place].split(",")[:3], "9.5"])
    file = file_of(tmp_path, rows, LINK)

    if refused:
        with pytest.raises(ScenarioError, match="seconds in ms"):
            calibrate(file)
        return
    made = calibrate(file)
    (rate,) = [one for one in made.twins[0].figures if one.key == "link.uplink_bps"]
    assert rate.value == pytest.approx(7e7, rel=0.2)
    assert rate.interval[0] < 7e7 < rate.interval[1]
    assert (
        made.doubts[0].startswith(f"pi_link: {hung} of 6 rows") and "line 2: 9.5" in made.doubts[0]
    )
