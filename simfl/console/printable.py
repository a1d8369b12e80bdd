"""Makes text safe to print: control sequences and markup in it have no effect."""

from __future__ import annotations

import re

# Control characters, marks that turn the direction of text, halves of characters. A line's end
# and a tab are among them: what is one line stays one.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""Text with what a terminal would obey shown as it is written in Python: `\x1b`."""
    return _UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text)
