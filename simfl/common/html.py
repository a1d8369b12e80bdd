"""HTML tables for notebooks, with all names escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

LEFT = "text-align: left; vertical-align: top"


def html_table(rows: Iterable[Sequence[str]], heads: Sequence[str] = ()) -> str:
    """A table of cells that already are HTML, below plain-text `heads`, if any."""
    head = "".join(f'<th style="{LEFT}">{escape(one)}</th>' for one in heads)
    body = "".join(
        "<tr>" + "".join(f'<td style="{LEFT}">{cell}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    return (
        f"<table>{f'<thead><tr>{head}</tr></thead>' if heads else ''}<tbody>{body}</tbody></table>"
    )


def html_of(value: Any) -> str:
    """Plain values as HTML: a mapping is a table of keys, a list of mappings one of columns."""
    if isinstance(value, Mapping):
        if set(value) == {"name"}:  # a part without keys
            return html_of(value["name"])
        return html_table([(escape(str(key)), html_of(item)) for key, item in value.items()])
    if isinstance(value, list | tuple) and value and all(isinstance(one, Mapping) for one in value):
        heads = list(dict.fromkeys(str(key) for one in value for key in one))
        rows = [[html_of(one[key]) if key in one else "" for key in heads] for one in value]
        return html_table(rows, heads)
    if isinstance(value, list | tuple):
        return ", ".join(html_of(one) for one in value)
    return escape("null" if value is None else str(value))


def titled(title: str, body: str, *lines: str) -> str:
    """A body of HTML below a title and above lines of plain text."""
    under = "".join(f"<div>{escape(line)}</div>" for line in lines)
    return f"<div><b>{escape(title)}</b>{body}{under}</div>"
