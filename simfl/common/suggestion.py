"""The nearest known name to a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """ ", did you mean 'x'?" for the known name that is nearest to `name`, or an empty text."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f", did you mean {close[0]!r}?" if close else ""
