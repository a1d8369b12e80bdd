"""Repeated rows of the same training: what is held out, and what counts as one."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfl.calibration.calibrate import calibrate
from simfl.calibration.computing import ComputingFit
from tests.calibration.planted import file_of

WORK = "device,batch_size,batches,seconds,convolution_flops,dense_flops,traffic_bytes"
WORKS = ("218,3.6e9,1e6,6e7", "652,8.2e9,4e6,2.6e8", "700,2.3e8,4.2e10,2.6e8")
"""Seconds, and the work that they were measured with."""


def fit_of(path: Path) -> ComputingFit:
    """The fit to a file's rows."""
    found = calibrate(path, ["rpi_3b_plus"]).computing
    assert found is not None
    return found


def test_work_that_was_measured_again_is_left_out_with_its_repeats(tmp_path: Path) -> None:
    """Three rows of each work are one subject each; held-out work is as uncertain as with one
    row.
    """
    once, often = (
        fit_of(
            file_of(tmp_path, [f"pi,16,20,{row}" for row in WORKS for _ in range(repeats)], WORK)
        )
        for repeats in (1, 3)
    )

    assert often.subjects == ["work of line 2", "work of line 5", "work of line 8"]
    dense = [one for one in often.held_out if one.line >= 8]
    assert [list(one.missing) for one in dense] == [["dense"]] * 3
    assert dense[0].predicted == pytest.approx(once.held_out[-1].predicted, rel=0.05)
    # and the figures are hardly surer of it
    low, high = often.figures(0, 1.0)[2].interval
    its_low, its_high = once.figures(0, 1.0)[2].interval
    assert high / low > 0.8 * its_high / its_low


def test_two_spellings_of_a_model_are_one_model(tmp_path: Path) -> None:
    """As torchvision's name and as a part; parameters in another order."""
    head = "device,model,input_shape,outputs,batch_size,batches,seconds"
    rows = [
        "pi,squeezenet1_1,3x64x64,10,16,20,60",
        'pi,"{name: torchvision, architecture: squeezenet1_1}",3x64x64,10,16,20,61',
        'pi,"{name: lstm, tokens: 80, hidden: 64}",20,80,16,20,9',
        'pi,"{name: lstm, hidden: 64, tokens: 80}",20,80,16,20,9',
        'pi,"{name: lstm, hidden: 65, tokens: 80}",20,80,16,20,9',
    ]

    fit = fit_of(file_of(tmp_path, rows, head))

    assert fit.rows.subject.tolist() == [0, 0, 1, 1, 2]
    assert fit.subjects[0] == "squeezenet1_1"
