"""Whether the output goes to an interactive terminal or notebook."""

from __future__ import annotations

import sys


def in_notebook() -> bool:
    """Whether this process is a notebook's kernel."""
    known = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return known is not None and getattr(known(), "kernel", None) is not None


def watched() -> bool:
    """Whether a person watches a live display."""
    return in_notebook() or sys.stderr.isatty()
