"""Pictures of docs that are drawn from recorded rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

DPI = 90


@dataclass(frozen=True)
class PagePicture:
    """A picture at `path`: `draw` makes it of what `content` reads from the rows.

    It bears a digest of that content (its `Description`), which tells whether it is out of date.
    """

    path: Path
    content: Callable[[], Any]
    draw: Callable[[Any], Figure]

    def is_current(self) -> bool:
        """Whether the picture shows what is recorded now."""
        if not self.path.exists():
            return False
        with Image.open(self.path) as picture:
            return bool(picture.info.get("Description") == _digest(self.content()))

    def save(self) -> None:
        """Draw what is recorded now."""
        content = self.content()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.draw(content).savefig(self.path, dpi=DPI, metadata={"Description": _digest(content)})


def _digest(content: Any) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()
