"""Names from files and folders are shown in a terminal, never obeyed."""

from __future__ import annotations

import pytest
from rich.table import Table

from simfl.console.printable import printable
from simfl.console.terminal import Terminal

NAMES = {
    "\x1b]0;owned\x07\x1b[2J": r"\x1b]0;owned\x07\x1b[2J",
    "a\rb\nc\td": r"a\rb\nc\td",
    "\x9b31m\x7f": r"\x9b31m\x7f",
    "abc\u202egnp.exe\u2066": r"abc\u202egnp.exe\u2066",
    "half \udcff": r"half \udcff",
    "[red]x[/] [/] :smile: München": "[red]x[/] [/] :smile: München",
}


@pytest.mark.parametrize("name", NAMES)
def test_what_a_terminal_would_obey_is_written_out(name: str) -> None:
    """Escapes, bells, line ends, marks of direction; letters of any language stay."""
    assert printable(name) == NAMES[name]


@pytest.mark.parametrize("name", [one for one in NAMES if "\n" not in one])
def test_lines_titles_headings_and_cells(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are shown as they are everywhere, including markup."""
    monkeypatch.setenv("COLUMNS", "200")
    table = Table(title=name)
    table.add_column(name)
    table.add_row(name)

    Terminal().print(name)
    Terminal().print(table)

    assert capsys.readouterr().out.count(NAMES[name]) == 4


def test_a_terminal_without_a_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is swallowed."""
    monkeypatch.setenv("COLUMNS", "0")

    Terminal().print("the answer")

    assert capsys.readouterr().out == "the answer\n"
