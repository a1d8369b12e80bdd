"""What is redrawn in the terminal while something goes on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from rich.console import RenderableType
from rich.live import Live

from simfl.console.terminal import Terminal


class LiveDisplay(ABC):
    """Shown from `with` to its end where standard error is a terminal; plain lines elsewhere.

    `transient`: nothing of it is left on the screen. `quiet`: neither display nor lines.
    """

    def __init__(self, *, quiet: bool, transient: bool) -> None:
        self._quiet = quiet
        self._console = Terminal(stderr=True)
        self._transient = transient
        self._live: Live | None = None

    @abstractmethod
    def _content(self) -> RenderableType:
        """What there is to see now."""

    def __enter__(self) -> Self:
        if not self._quiet and self._console.is_terminal:
            self._live = Live(self._content(), console=self._console, transient=self._transient)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._redraw()
            self._live.stop()

    def _redraw(self) -> None:
        if self._live is not None:
            self._live.update(self._content())

    def _print(self, line: str) -> None:
        """A line where there is no display."""
        if self._live is None and not self._quiet:
            self._console.print(line, highlight=False, soft_wrap=True)
