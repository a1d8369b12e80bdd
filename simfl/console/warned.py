"""Warnings in the terminal: of one run with advice, of many runs by kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.text import Text

from simfl.common.notices import Notice
from simfl.console.printable import printable
from simfl.console.terminal import Terminal

if TYPE_CHECKING:
    from simfl.study.warned import FoundKind


def print_warnings(console: Terminal, notices: Iterable[Notice]) -> None:
    """Warnings, each with advice; nothing if there are none."""
    for one in notices:
        first = "" if one.first_s is None else f" (first at {one.first_s:.4g} s)"
        console.print(Text(printable(f"warning: {one.message}{first}"), style="yellow"))
        console.print(Padding(Text(printable(one.advice)), (0, 0, 0, 9)))


def print_kinds(console: Terminal, kinds: Iterable[FoundKind]) -> None:
    """Each kind of warning in several runs: in how many of them, an example, and advice."""
    for one in kinds:
        console.print(Text(f"warning: {one.kind.replace('_', ' ')}: {one.runs}", style="yellow"))
        if one.example:
            console.print(Padding(Text(printable(f"as: {one.example}")), (0, 0, 0, 9)))
        console.print(Padding(Text(one.advice), (0, 0, 0, 9)))
