"""The folder that an app works in: where it goes (`os.chdir`) simfl does not follow.

A run's own paths may be relative, to where it was begun.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Relative paths go from there; after the block from where they went before."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
