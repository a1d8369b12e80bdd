"""What is redrawn while something goes on."""

from __future__ import annotations

import pytest
from rich.text import Text

from simfl.console.live import LiveDisplay


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
