"""The terminal consoles: names from files and folders are printed without interpretation."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from simfl.console.printable import printable

WIDTH_CHARACTERS = 80
"""The width if it is unknown."""


class Terminal(Console):
    """A console that prints text as it is: no markup in names, no control sequences.

    Line ends in the text are kept; a cell of a table may have several.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False)
        if self.width < 1:  # COLUMNS=0, in a terminal without a size
            self.width = WIDTH_CHARACTERS

    def render_str(self, text: str, **options: Any) -> Text:
        """Text for the screen; everything that is printed passes through here: lines, cells,
        titles.
        """
        shown = "\n".join(printable(line) for line in text.split("\n"))
        return super().render_str(shown, **options)
