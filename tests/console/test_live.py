"""What is redrawn while something goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rich.text import Text

from simfl.console.live import LiveDisplay
from simfl.console.run import Watcher
from simfl.protocols.publication import Progress
from tests.small import simulated, small


class Counted(LiveDisplay):
    """Shows how often it has been told."""

    count = 0

    def tell(self) -> None:
        """Once more."""
        self.count += 1
        self._print(f"a line of {self.count}")
        self._redraw()

    def _content(self) -> Text:
        return Text(f"told {self.count} times")


def told(capsys: pytest.CaptureFixture[str], *, quiet: bool) -> str:
    """What standard error has seen of three times."""
    with Counted(quiet=quiet, transient=False) as display:
        for _ in range(3):
            display.tell()
    return capsys.readouterr().err


def test_a_terminal_sees_the_last_state_and_no_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the first to the last; where it is no terminal it is lines; quiet, nothing."""
    lines = told(capsys, quiet=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    drawn, nothing = told(capsys, quiet=False), told(capsys, quiet=True)

    assert lines == "a line of 1\na line of 2\na line of 3\n"
    assert "told 3 times" in drawn and "a line" not in drawn
    assert nothing == ""


@pytest.mark.parametrize(
    ("task", "targets", "shown"),
    [
        ("classification", [0, 1] * 30, "  accuracy 0."),
        ("regression", [0.5, 1.5] * 30, "  R^2 "),
        ("regression", [0.5] * 60, None),
    ],
)
def test_the_line_of_a_run_says_what_its_figure_is(
    tmp_path: Path, task: str, targets: list[float], shown: str | None
) -> None:
    """A regression's is R^2; nothing where that is no number, as with equal test targets."""
    file = tmp_path / "rows.npz"
    y = np.array(targets, dtype=None if task == "classification" else np.float32)
    x = np.arange(120, dtype=np.float32).reshape(60, 2) / 120
    np.savez(file, x_train=x, y_train=y, x_test=x, y_test=y)
    told: list[Progress] = []

    scenario = small(data={"name": "npz", "path": str(file), "partition": "iid"})
    simulated(scenario, watch=told.append)
    watcher = Watcher(scenario, quiet=True)
    watcher.update(told[-1])

    line = watcher._line()
    named = [one for one in ("accuracy", "R^2", "nan") if one in line]
    assert shown in line and len(named) == 1 if shown else named == []
