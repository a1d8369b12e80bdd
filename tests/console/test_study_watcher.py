"""What is seen of a study while it runs."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from rich.console import Console

from simfl.console.study import StudyWatcher, labels
from simfl.protocols.publication import Progress
from simfl.study.worker import Outcome
from tests.study.studies import session


def test_the_live_table(tmp_path: Path) -> None:
    """Counts, what runs and how far it is, what has ended and how, and the time that is left."""
    points = session(tmp_path).todo()
    called = labels(points)
    watcher = StudyWatcher("tiny", points, done=2)
    first, second, third = (point.folder_name for point in points[:3])

    watcher.progress(first, Progress(1500.0, 7, 0.25, 1.0, 3.0, 4, 5, {}))
    watcher.progress(second, Progress(1.0, 1, None, None, 3.0, 4, 5, {}))
    watcher.ended(Outcome(second, "completed"))
    watcher.ended(Outcome(third, "failed", "KeyError: 'oh'"))

    console = Console(width=160)
    with console.capture() as captured:
        console.print(watcher._content())
    text = captured.get()
    assert "tiny: 3 of 10 done, 1 failed" in text
    assert "s left" in text
    (running,) = (line for line in text.splitlines() if "running" in line)
    assert called[first] in running
    assert all(one in running for one in (" 7 ", "0.250", "1.5 ks"))
    assert "failed: KeyError: 'oh'" in text
    assert called[second] in text and "completed" in text


def test_the_live_table_of_a_regression(tmp_path: Path) -> None:
    """Its figure is R^2, and no figure where the test targets are equal."""
    first, second, *_ = points = session(tmp_path).todo()
    watcher = StudyWatcher("tiny", points, done=0)

    watcher.progress(first.folder_name, Progress(1.0, 7, -0.25, 1.0, 3.0, 4, 5, {}, "R^2"))
    watcher.progress(second.folder_name, Progress(1.0, 8, math.nan, 1.0, 3.0, 4, 5, {}, "R^2"))

    console = Console(width=160)
    with console.capture() as captured:
        console.print(watcher._content())
    text = captured.get()
    assert "R^2" in text and "-0.250" in text
    assert "accuracy" not in text and "nan" not in text


def test_settings_that_differ_in_the_fifth_digit_are_called_apart(tmp_path: Path) -> None:
    """As in tables; both were called 0.1001."""
    grid = {"algorithm.local.learning_rate": [0.1001, 0.10012], "algorithm.local.steps": [1]}

    called = labels(session(tmp_path, points={"grid": grid}, seeds=[1]).points)

    assert list(called.values()) == [
        "learning_rate=0.1001, steps=1, seed=1",
        "learning_rate=0.10012, steps=1, seed=1",
    ]


def test_a_plain_line_per_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where output is no terminal; nothing at all when quiet."""
    (point, *_) = points = session(tmp_path).todo()

    for quiet in (False, True):
        with StudyWatcher("tiny", points, 0, quiet=quiet) as watcher:
            watcher.ended(Outcome(point.folder_name, "diverged", "the loss is nan"))

    expected = f"1 of 8 done: {labels(points)[point.folder_name]}: diverged: the loss is nan\n"
    assert capsys.readouterr().err == expected


def test_a_search_says_how_it_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs of trials that are not known yet are among all; a batch begins with the best so far."""
    first, second, *_ = session(tmp_path).todo()

    with StudyWatcher("tiny", [first], 2, later=3) as watcher:
        watcher.ended(Outcome(first.folder_name, "completed"))
        watcher.more([second], 2, "1 of 4 trials ended, best so far: time_s 3")
        watcher.ended(Outcome(second.folder_name, "completed"))
        assert watcher._line().endswith("s left; 1 of 4 trials ended, best so far: time_s 3")

    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "3 of 6 done",
        "1 of 4 trials ended, best so far",
        "4 of 6 done",
    ]
