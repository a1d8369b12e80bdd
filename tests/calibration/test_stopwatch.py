"""`simfl measure`: rows that `simfl calibrate` reads."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from simfl.calibration import stopwatch
from simfl.calibration.measurements import read_measurements
from simfl.calibration.meters import Meter
from simfl.calibration.stopwatch import Stopwatch, trained_of
from simfl.cli.app import app


class Growing(Meter):
    """A meter that counts so many joules per look."""

    name = "test"

    def __init__(self, joules: float) -> None:
        self._each, self._total = joules, 0.0

    def joules(self) -> float:
        """Grows by a fixed amount per look."""
        self._total += self._each
        return self._total


def command(*arguments: object) -> Any:
    """What `simfl measure` does with these arguments, in this process."""
    return CliRunner().invoke(app, ["measure", *map(str, arguments)])


def test_measured_rows_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every model with every batch size three times; what there was no meter for is said."""
    monkeypatch.setattr("simfl.calibration.meters.find_meter", lambda of_gpu: None)
    threads = torch.get_num_threads()
    file = tmp_path / "m.csv"
    lstm = "{name: lstm, tokens: 9, hidden: 4}@5"

    result = command(
        "--model", "linear@4", "--model", lstm, "--batch", 2, "--batch", 3, "--seconds", 0,
        "--name", "my_pi", "--out", file,
    )  # fmt: skip

    assert result.exit_code == 0, result.output
    assert "12 rows on 1 thread; no joules: no meter that can be read" in result.stdout
    found = read_measurements(file)
    assert [one.model for one in found.computations[::6]] == ["linear", lstm.partition("@")[0]]
    assert [one.batch_size for one in found.computations] == [2, 2, 2, 3, 3, 3] * 2
    assert {(one.device, one.threads, one.outputs) for one in found.computations} == {
        ("my_pi", 1, 10)
    }
    assert all(one.batches >= stopwatch.FEWEST_STEPS for one in found.computations)
    assert torch.get_num_threads() == threads
    assert "there already" in command("--model", "linear@4", "--out", file).stderr


def test_a_shape_that_was_taken_is_said(tmp_path: Path) -> None:
    """A model without one is timed on images of CIFAR-10's size; each line names the shape."""
    said = {}
    for model in ("linear", "linear@3x32x32"):
        asked = ("--model", model, "--batch", 2, "--seconds", 0, "--out", tmp_path / f"{model}.csv")
        said[model] = command(*asked).stdout

    assert "linear: no shape was given, 3x32x32 is taken (MODEL@SHAPE)" in said["linear"]
    assert "no shape" not in said["linear@3x32x32"]
    assert all("linear on 3x32x32, 2 examples: " in one for one in said.values())


def test_joules_are_those_of_the_steps_and_of_doing_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that ticks a second per look, and a meter that counts 6 J per look."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    ticks = count()
    watch = Stopwatch(0.0, 1, "cpu", Growing(6.0), lambda: float(next(ticks)))

    rows = list(watch.rows("my_pi", [trained_of("linear@4")], 3, [2]))
    stopwatch.write_rows(tmp_path / "m.csv", rows, "a test")
    found = read_measurements(tmp_path / "m.csv")

    # Five steps of a tick each, of the twelve from the first look to the last.
    assert [(one.batches, one.seconds) for one in found.computations] == [(5, 5.0)] * 3
    within = 5 * 6.0 / 12.0
    assert [one.watts for one in found.draws[:3]] == pytest.approx([within] * 3, rel=1e-5)
    assert found.draws[3].state == "idle" and found.draws[3].meter == "test"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mpl@4", "mpl: unknown name 'mpl', did you mean 'mlp'"),
        ("cnn@4", "cnn: model cnn takes images"),
        ("linear@0", "found 'linear@0', accepted: a model, as resnet18@3x64x64"),
    ],
)
def test_a_model_that_there_is_not_is_refused(text: str, words: str, tmp_path: Path) -> None:
    """Nothing is measured then, and nothing written."""
    result = command("--model", text, "--out", tmp_path / "m.csv")

    assert result.exit_code == 2
    assert words in result.stderr
    assert not list(tmp_path.iterdir())
