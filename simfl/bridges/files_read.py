"""Files that an app's clients read anew after they have changed: memory beside `context.state`.

An answer's key says nothing of such a file, so that neither resuming nor reusing answers brings it
back, and a run begins with what the last one left.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

_OWN = Path(__file__).resolve().parents[1]
"""simfl's own source, which may be under work during a run."""

Signature = tuple[int, int]
"""Of a file's content: when it was written, and how many bytes it has."""


class FilesRead:
    """What was read so far, and which of it had changed since it was read before."""

    def __init__(self) -> None:
        self._read: dict[Path, Signature] = {}
        self.changed: set[Path] = set()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """What is opened in this block counts."""
        _listen()
        _listeners.append(self)
        try:
            yield
        finally:
            _listeners.remove(self)

    def opened(self, file: Any, mode: Any) -> None:
        """A file was opened: by Python's `open`, or by number or with flags, which is left out."""
        if not isinstance(mode, str) or set("wax+") & set(mode) or isinstance(file, int):
            return
        with suppress(OSError, TypeError, ValueError):
            path = Path(os.fsdecode(file)).absolute()
            if path.is_relative_to(_OWN):
                return
            about = path.stat()
            signature = about.st_mtime_ns, about.st_size
            if self._read.setdefault(path, signature) != signature:
                self.changed.add(path)


_listeners: list[FilesRead] = []


@cache
def _listen() -> None:
    """Hear of each file that is opened in this process; Python lets nobody stop that again."""

    def hear(event: str, about: tuple[Any, ...]) -> None:
        if _listeners and event == "open":
            for one in _listeners:
                one.opened(about[0], about[1])

    sys.addaudithook(hear)
