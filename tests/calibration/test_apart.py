"""Machines that were measured apart have errors of their own, and one bad row moves no figure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from simfl.calibration.calibrate import calibrate
from simfl.calibration.twins import Figure, Twin
from tests.calibration.planted import file_of

HEAD = "device,model,input_shape,outputs,batch_size,batches,seconds,watts"
LINK = "device,direction,bytes,seconds"


def board(folder: Path, name: str, slower: float = 1.0) -> Twin:
    """Three models of a board, calibrated from a file of its own."""
    rows = [
        f"{name},{model},1x28x28,10,32,100,{slower * seconds:g},{watts}"
        for model, seconds, watts in (("lenet", 3.0, 5.0), ("linear", 0.5, 4.5), ("cnn", 9.0, 5.5))
    ]
    (folder / name).mkdir(exist_ok=True)
    (twin,) = calibrate(file_of(folder / name, rows, HEAD), [f"{name}=rpi_4b"]).twins
    return twin


def figure(twin: Twin, key: str) -> Figure:
    """One of its figures."""
    (found,) = (one for one in twin.figures if one.key.endswith(key))
    return found


def test_boards_of_two_files_have_errors_of_their_own(tmp_path: Path) -> None:
    """Otherwise they would cancel when the boards are compared."""
    one, other = board(tmp_path, "kitchen"), board(tmp_path, "attic", 1.3)
    assert one.errors is not None and other.errors is not None

    pairs = [
        (one.errors, other.errors),
        *(
            (np.log(figure(one, key).draws), np.log(figure(other, key).draws))
            for key in ("power_active_w", "power_idle_w", "power_static_w", "convolution")
        ),
    ]
    for its, others in pairs:
        assert abs(np.corrcoef(its, others)[0, 1]) < 0.2


def test_a_board_measured_again_keeps_its_random_numbers(tmp_path: Path) -> None:
    """Its intervals change with its rows alone."""
    first, again = board(tmp_path, "kitchen"), board(tmp_path, "kitchen", 1.001)
    assert first.errors is not None and again.errors is not None

    assert np.corrcoef(first.errors, again.errors)[0, 1] > 0.8


def test_static_shares_of_boards_in_one_file_are_drawn_apart(tmp_path: Path) -> None:
    """Each by its own clocks."""
    head = "device,state,watts,clock_hz"
    rows = [f"{name},idle,2," for name in ("a", "b")] + [
        f"{name},train,{2 + 5 * (0.2 + 0.8 * (hz / 1.8e9) ** 3):.4g},{hz:g}"
        for name in ("a", "b")
        for hz in (0.9e9, 1.8e9)
    ]

    found = calibrate(file_of(tmp_path, rows, head), ["rpi_4b"]).twins

    one, other = (figure(twin, "power_static_w").draws for twin in found)
    assert abs(spearmanr(one, other).statistic) < 0.2


def seconds_of(folder: Path, times: list[float]) -> tuple[float, float, float]:
    """Of 100 steps of a model, from a profile for it alone: best value and 90 % interval."""
    rows = [f"mine,lenet,1x28x28,10,32,100,{one:g}," for one in times]
    found = calibrate(file_of(folder, rows, HEAD), ["rpi_4b"], for_model="lenet")
    (twin,), fit = found.twins, found.computing
    assert twin.errors is not None and fit is not None
    own = fit.of_model("lenet").fit
    drawn = np.exp(own.draws[:, 0]) @ fit.rows.amounts[0] * np.exp(twin.errors)
    low, high = np.quantile(drawn, (0.05, 0.95))
    return own.predicted(0, fit.rows.amounts[0]), float(low), float(high)


def test_one_bad_row_does_not_move_a_model_measured_for_itself(tmp_path: Path) -> None:
    """Eight times as long as two others: an outlier; with it the interval only becomes wider."""
    best, low, high = seconds_of(tmp_path, [1.0, 1.05, 8.0])
    without = seconds_of(tmp_path, [1.0, 1.05])

    assert best == pytest.approx(1.03, rel=0.1)
    assert low < 1.0 and high > 1.05
    assert without[1] == pytest.approx(1.03 / 1.13, rel=0.03)
    assert without[2] == pytest.approx(1.03 * 1.15, rel=0.03)


def test_other_models_rows_do_not_move_a_model_measured_for_itself(tmp_path: Path) -> None:
    """However slow they were."""
    found = []
    for other in (3.0, 12.0):
        rows = [f"mine,lenet,1x28x28,10,32,100,{one:g}," for one in (1.0, 1.05)]
        rows.append(f"mine,cnn,1x28x28,10,32,100,{other:g},")
        (twin,) = calibrate(file_of(tmp_path, rows, HEAD), ["rpi_4b"], for_model="lenet").twins
        found.append({one.key: one.value for one in twin.figures})

    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_rows_that_contradict_each_other_leave_a_model_open(tmp_path: Path) -> None:
    """One of them is an outlier, and only the base says which."""
    _, low, high = seconds_of(tmp_path, [0.3, 1.2])

    assert high / low > 4.0 and low < 0.5 and high > 1.2


@pytest.mark.parametrize("count", [8, 20])
def test_small_messages_do_not_blur_the_rate_of_large_ones(tmp_path: Path, count: int) -> None:
    """They tell the round trip: an interval as wide as without them, and not 70 times as wide."""

    def rate(small: int) -> float:
        rows = ["other,up,10000000,2.6"]
        rows += [f"mine,up,10000000,{seconds}" for seconds in (1.34, 1.31)]
        rows += [f"mine,up,2000,{0.01 * (1 + 0.02 * (place % 3)):g}" for place in range(small)]
        twin = calibrate(file_of(tmp_path, rows, LINK)).twins[1]
        low, high = figure(twin, "uplink_bps").interval
        assert low < 6e7 < high
        return high / low

    assert rate(count) < 1.1 * rate(0)
