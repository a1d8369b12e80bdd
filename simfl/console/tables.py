"""Tables that fit a terminal: split into several parts instead of breaking numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.table import Table

LONGEST_WORD = 20
"""Longer words, in columns of a terminal, may be folded if they are not figures."""

_FIGURE = re.compile(r"[-+±>]? ?\d|-$")
_BORDERS = 3
"""The width of a column beside its text; the table itself takes one more."""


class FigureTable:
    """`left` columns hold words, `right` ones figures; lines separate rows by their first cells.

    A table that is too wide is printed in parts, one below another: each has the `left` columns and
    as many of the `right` ones as fit, at least one even if it is wider than the terminal (print
    with `crop=False`). Words and headings are folded, headings after "_" or "."; figures never are.
    """

    def __init__(
        self, title: str, left: Sequence[str], right: Sequence[str], rows: Sequence[Sequence[str]]
    ) -> None:
        self._title, self._rows, self._words = title, rows, len(left)
        columns = [[row[place] for row in rows] for place in range(len(left) + len(right))]
        least = [max(map(_least, cells), default=0) for cells in columns]
        self._heads = [
            _broken(name, width) for name, width in zip([*left, *right], least, strict=True)
        ]
        self._least = [
            max(width, min(_widest(head), LONGEST_WORD))
            for head, width in zip(self._heads, least, strict=True)
        ]
        self._most = [
            max(map(_widest, [head, *cells]))
            for head, cells in zip(self._heads, columns, strict=True)
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        for place, columns in enumerate(self._parts(options.max_width)):
            yield self._part(columns, options.max_width, None if place else self._title)

    def _parts(self, width: int) -> list[list[int]]:
        """The columns of each part, by index."""
        left = list(range(self._words))
        # Names are folded if then all fit into one table, or if they would fill half of the width.
        folded = _total(self._least) <= width or _total(self._most[: self._words]) > width // 2
        widths = (self._least if folded else self._most)[: self._words]
        widths += self._least[self._words :]
        parts = [list(left)]
        for column in range(self._words, len(widths)):
            if parts[-1] != left and _total(widths[one] for one in [*parts[-1], column]) > width:
                parts.append(list(left))
            parts[-1].append(column)
        return parts

    def _part(self, columns: list[int], width: int, title: str | None) -> Table:
        rest = max(width - _total(self._least[one] for one in columns), 0)
        table = Table(title=title, title_justify="left")
        for one in columns:
            more = min(rest, self._most[one] - self._least[one])
            rest -= more
            table.add_column(
                self._heads[one],
                justify="left" if one < self._words else "right",
                overflow="fold",
                width=self._least[one] + more,
            )
        table.width = _total(column.width or 0 for column in table.columns)
        firsts = [row[0] for row in self._rows]
        for row, following in zip(self._rows, [*firsts, None][1:], strict=True):
            ends = len(set(firsts)) < len(firsts) and row[0] != following
            table.add_row(*(row[one] for one in columns), end_section=ends)
        return table


def _total(widths: Iterable[int]) -> int:
    return 1 + sum(width + _BORDERS for width in widths)


def _widest(text: str) -> int:
    return max(map(cell_len, text.split("\n")))


def _least(cell: str) -> int:
    """The minimum width of a cell: all of a figure, the longest word of a text."""
    if _FIGURE.match(cell):
        return _widest(cell)
    return min(max(map(cell_len, cell.split()), default=0), LONGEST_WORD)


def _broken(name: str, width: int) -> str:
    """A heading in lines of `width`, at least 12 for a name and 6 for words; numbers stay whole."""
    lines = [""]
    for piece in re.split(r"(?<=[_ ])|(?<=\.)(?!\d)", name):
        most = max(width, 6 if " " in name else 12)
        if lines[-1] and len((lines[-1] + piece).rstrip()) > most:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)
