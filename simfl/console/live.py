"""Live display of progress, in a terminal or in a notebook."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any, Self

from rich.console import RenderableType
from rich.live import Live

from simfl.console.printable import printable
from simfl.console.terminal import Terminal
from simfl.console.watched import in_notebook

NOTEBOOK_SECONDS = 0.2
"""The minimum time between two updates of a notebook's line."""


class LiveDisplay(ABC):
    """A display that is shown within `with` if a person watches; plain lines otherwise.

    In a terminal it is on standard error; with `transient` it is removed at the end. In a notebook
    it is one line, `_line`, that is updated in place and remains at the end. `quiet`: neither
    display nor lines.
    """

    def __init__(self, *, quiet: bool, transient: bool) -> None:
        self._quiet = quiet
        self._console = Terminal(stderr=True)
        self._transient = transient
        self._live: Live | None = None
        self._cell = _CellLine() if in_notebook() and not quiet else None

    @abstractmethod
    def _content(self) -> RenderableType:
        """The current content of the display."""

    def _line(self) -> str:
        """The same in one line."""
        return str(self._content())

    def __enter__(self) -> Self:
        if not self._quiet and self._cell is None and self._console.is_terminal:
            self._live = Live(self._content(), console=self._console, transient=self._transient)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._cell is not None:
            self._cell.end(self._line())
        if self._live is not None:
            self._redraw()
            self._live.stop()

    def _redraw(self) -> None:
        if self._cell is not None:
            self._cell.show(self._line())
        if self._live is not None:
            self._live.update(self._content())

    def _print(self, line: str) -> None:
        """Print a line if there is no display."""
        if self._live is None and self._cell is None and not self._quiet:
            self._console.print(line, highlight=False, soft_wrap=True)


class _CellLine:
    """A line below a notebook's cell that replaces the previous one, also in a saved notebook."""

    def __init__(self) -> None:
        self._shown_at = float("-inf")
        self._display: Any = None

    def show(self, line: str) -> None:
        now = time.monotonic()
        if now - self._shown_at >= NOTEBOOK_SECONDS:
            self._shown_at = now
            self._write(line)

    def end(self, line: str) -> None:
        """The last state, if any was shown."""
        if self._display is not None:
            self._write(line)

    def _write(self, line: str) -> None:
        from IPython.display import display  # it is there: this is a notebook

        shown = {"text/plain": printable(line)}
        if self._display is None:
            self._display = display(shown, raw=True, display_id=True)
        else:
            self._display.update(shown, raw=True)
