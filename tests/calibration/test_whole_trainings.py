"""Rows of whole local trainings: their fixed time, and rows of steps as before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from simfl.calibration.calibrate import Calibration, calibrate
from simfl.calibration.machines import SCATTER, Base, sigma
from simfl.calibration.measurements import read_measurements
from simfl.calibration.twins import Figure
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.system.catalogue import Catalogue
from tests.calibration.planted import file_of

KEY = "processor.seconds_per_training"
HEAD = "device,batch_size,batches,seconds,convolution_flops,traffic_bytes,trainings,clock_hz"
FIXED_S, STEP_S = 3.0, 2.0
"""A training of n steps of the planted machine takes FIXED_S + n STEP_S."""


def calibrated(
    folder: Path, trainings: list[tuple[int, int | str]], base: str = "rpi_4b", clock_hz: str = ""
) -> Calibration:
    """From rows of so many steps, in so many trainings."""
    rows = []
    for steps, whole in trainings:
        seconds = steps * STEP_S + FIXED_S * (whole or 0)
        rows.append(f"pi,16,{steps},{seconds},3.6e8,6.1e6,{whole},{clock_hz}")
    return calibrate(file_of(folder, rows, HEAD), [f"pi={base}"])


def fixed_time(found: Calibration) -> Figure:
    """The figure of a training's fixed time."""
    (twin,) = found.twins
    (figure,) = [one for one in twin.figures if one.key == KEY]
    return figure


def test_trainings_of_two_lengths_tell_their_fixed_time(tmp_path: Path) -> None:
    """One of a single step and one of many; a row may hold several trainings."""
    for folder, rows in (("one", [(1, 1), (100, 1)]), ("several", [(4, 4), (300, 3)])):
        (tmp_path / folder).mkdir()
        figure = fixed_time(calibrated(tmp_path / folder, rows))

        assert figure.value == pytest.approx(FIXED_S, rel=2 * SCATTER)
        assert figure.interval[0] < FIXED_S < figure.interval[1]
        assert figure.origin == ""


def test_trainings_of_one_length_leave_it_open(tmp_path: Path) -> None:
    """The prior's 0.3 s, within 15 times; a short training is then predicted less surely."""
    found = calibrated(tmp_path, [(100, 1)])
    figure = fixed_time(found)

    assert figure.origin == "from the prior"
    assert any(f"no row tells {KEY}" in one for one in found.warnings)
    low, high = figure.interval
    assert low < 0.07 and high > 2.0
    fit = found.computing
    assert fit is not None

    def factor(steps: int) -> float:
        row = fit.rows.amounts[0] * steps / 100
        row[-1] = 1.0
        ends = fit.fit.interval(0, row, is_measured=True)
        return ends[1] / ends[0]

    assert factor(1) > 1.5 * factor(100)


MODELS = "device,model,input_shape,outputs,batch_size,examples,trainings,seconds"
TWO_LENGTHS = [
    f"pi,{model},3x32x32,10,16,{examples},{trainings},{seconds}"
    for model, long_s, short_s in (
        ("resnet18", 24, 1.8),
        ("mobilenet_v2", 14, 1.2),
        ("resnet50", 60, 3.6),
        ("vgg11", 30, 2.1),
    )
    for examples, trainings, seconds in ((320, "", long_s), (16, 1, short_s))
]


@pytest.mark.parametrize(
    ("rows", "is_told"),
    [
        # 6 % of the training is fixed time by the best fit, and anything by the draws.
        (["pi,cnn,3x32x32,10,32,3200,1,10"], False),
        (["pi,resnet18,3x32x32,10,16,16,1,4.9", "pi,resnet18,3x32x32,10,16,320,1,28.4"], True),
        # Less than half of each training, but told by many rows.
        (TWO_LENGTHS, True),
    ],
)
def test_when_rows_tell_the_fixed_time(rows: list[str], is_told: bool, tmp_path: Path) -> None:
    """It is most of a training, or several rows narrow it."""
    figure = fixed_time(calibrate(file_of(tmp_path, rows, MODELS), ["pi=rpi_4b"]))

    assert (figure.origin == "") == is_told


def test_steps_in_a_loop_say_nothing_of_it(tmp_path: Path) -> None:
    """Then the base's fixed time stays, with nothing said of it."""
    text = yaml.safe_load(Catalogue().profile("device", "rpi_4b").path.read_text(encoding="utf-8"))
    text["processor"]["seconds_per_training"] = 0.7
    text["unverified"] = [*text.get("unverified", []), KEY]
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "slow_pi.yaml").write_text(yaml.safe_dump(text), encoding="utf-8")
    rows = [f"pi,16,{steps},{steps * STEP_S},3.6e8,6.1e6,," for steps in (1, 100)]
    file = file_of(tmp_path, rows, HEAD)

    (twin,) = calibrate(file, ["pi=slow_pi"], folders=[mine]).twins

    assert KEY not in [one.key for one in twin.figures]
    assert yaml.safe_load(twin.text())["processor"]["seconds_per_training"] == 0.7


def test_steps_beside_trainings_tell_it_too(tmp_path: Path) -> None:
    """What whole trainings take longer than the same steps in a loop is their fixed time."""
    figure = fixed_time(calibrated(tmp_path, [(2, ""), (100, ""), (2, 1)]))

    assert figure.value == pytest.approx(FIXED_S, rel=2.5 * SCATTER)


@pytest.mark.parametrize(
    ("examples", "batches", "trainings", "counted"),
    [(340, "", 20, 40), (340, 40, 20, 40), (80, "", 10, 10), (8, "", 1, 1), (34, 6, 1, 6)],
)
def test_every_training_ends_with_a_short_step(
    examples: int, batches: int | str, trainings: int, counted: int, tmp_path: Path
) -> None:
    """And may be shorter than a batch; `batches` say more where a training has several epochs."""
    head = "device,batch_size,examples,batches,trainings,seconds,convolution_flops"
    path = file_of(tmp_path, [f"pi,16,{examples},{batches},{trainings},9,1e9"], head)

    (one,) = read_measurements(path).computations

    assert (one.examples, one.batches, one.trainings) == (examples, counted, trainings)


@pytest.mark.parametrize(
    ("examples", "batches", "trainings", "words"),
    [
        (340, 19, 20, "batches: found '19', accepted: 22 to 340, or an empty cell for 40"),
        (34, 35, 1, "batches: found '35', accepted: 3 to 34, or an empty cell for 3"),
        (9, "", 10, "examples: found 9, accepted: at least trainings, which is 10"),
    ],
)
def test_steps_that_trainings_cannot_have_are_refused(
    examples: int, batches: int | str, trainings: int, words: str, tmp_path: Path
) -> None:
    """None is longer than a batch, or without an example."""
    head = "device,batch_size,examples,batches,trainings,seconds,convolution_flops"
    path = file_of(tmp_path, [f"pi,16,{examples},{batches},{trainings},9,1e9"], head)

    with pytest.raises(ScenarioError) as caught:
        read_measurements(path)

    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("measured_hz", "clock_hz", "watts", "expected_s"),
    [(None, "0.9e9", "4", 4.0), ("0.9e9", "", "", 1.0), (None, "", "", 2.0)],
)
def test_a_kept_fixed_time_keeps_its_cycles(
    measured_hz: str | None, clock_hz: str, watts: str, expected_s: float, tmp_path: Path
) -> None:
    """The base's 2 s are of its own clock; the profile's may be another."""
    text = yaml.safe_load(Catalogue().profile("device", "rpi_4b").path.read_text(encoding="utf-8"))
    text["processor"]["seconds_per_training"] = 2.0
    text["processor"].pop("measured_hz", None)
    if measured_hz:
        text["processor"]["measured_hz"] = float(measured_hz)
    text["unverified"] = [*text.get("unverified", []), KEY]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "slow_pi.yaml").write_text(yaml.safe_dump(text), encoding="utf-8")
    head = f"{HEAD},watts"
    rows = [f"pi,16,20,{seconds},3.6e8,6.1e6,,{clock_hz},{watts}" for seconds in (24.0, 25.0)]
    (twin,) = calibrate(
        file_of(tmp_path, rows, head), ["pi=slow_pi"], folders=[tmp_path / "mine"]
    ).twins

    written = yaml.safe_load(twin.text())
    assert float(written["processor"]["seconds_per_training"]) == expected_s
    assert written["processor"].get("measured_hz", 1.8e9) == (0.9e9 if watts else 1.8e9)


def test_it_is_of_the_clock_that_was_measured(tmp_path: Path) -> None:
    """A board that was timed at half its clock is said to need half of it at its highest."""
    (tmp_path / "full").mkdir()
    (tmp_path / "half").mkdir()
    full = fixed_time(calibrated(tmp_path / "full", [(1, 1), (100, 1)]))
    half = fixed_time(calibrated(tmp_path / "half", [(1, 1), (100, 1)], clock_hz="0.75e9"))

    assert half.value == pytest.approx(full.value / 2, rel=0.2)


def test_a_fixed_time_is_no_rate_of_a_base() -> None:
    """A base that has nothing else measured is as uncertain as a peak alone."""
    peak, fixed = Base("sbc", 1e10), Base("sbc", 1e10, {KEY: 0.5})

    assert fixed.device_sigma() == peak.device_sigma() > sigma(2.0)
    assert Base("sbc", 1e10, {"processor.rates.dense": 1e10}).device_sigma() == sigma(2.0)


def test_power_while_it_waits_counts_it(tmp_path: Path) -> None:
    """Watts of an accelerator's short and long trainings are told apart by their fixed time."""
    head = f"{HEAD},watts"
    rows = [
        f"board,64,{steps},{FIXED_S + steps * 0.1},1.1e8,2e6,1,,{watts}"
        for steps, watts in ((1, 8.0), (300, 21.0))
    ]
    found = calibrate(file_of(tmp_path, rows, head), ["board=jetson_agx_xavier"])
    (twin,) = found.twins

    (stall,) = [one for one in twin.figures if one.key == "processor.stall_utilization"]
    assert stall.value < 0.4
    assert np.median(stall.draws) < 0.7
