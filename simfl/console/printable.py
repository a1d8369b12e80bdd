"""Makes text safe to print: control sequences and markup in it have no effect."""

from __future__ import annotations

import re

# Control characters, marks that change the direction of text, and surrogates. They include line
# ends and tabs, so one line stays one.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""Text with control sequences shown as Python escapes, such as `\x1b`."""
    return _UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text)
