"""Errors in a scenario, in one line."""

from __future__ import annotations

from collections.abc import Mapping


class ScenarioError(ValueError):
    """One thing that is wrong with a scenario; its text is one line.

    `file` is the scenario file (or `--set`, `--seed`), `line` counts from 1 (None: unknown), `key`
    is the dotted path, `found` what stands there and `accepted` what may stand there. `message`
    takes the place of "found ..., accepted: ..." where that would read badly.
    """

    def __init__(
        self,
        file: str,
        line: int | None,
        key: str,
        found: str,
        accepted: str,
        message: str | None = None,
    ) -> None:
        super().__init__(file, line, key, found, accepted, message)  # args make it picklable
        self.file = file
        self.line = line
        self.key = key
        self.found = found
        self.accepted = accepted
        comma = "" if found.endswith("?") else ","
        self.message = message or f"found {found}{comma} accepted: {accepted}"

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return " ".join(": ".join(filter(None, (place, self.key, self.message))).split())


def show(value: object) -> str:
    """`value` as a short piece of one-line text, for an error message."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            text = repr(value)
        case Mapping():
            text = "{" + ", ".join(f"{key}: {show(item)}" for key, item in value.items()) + "}"
        case list() | tuple():
            text = "[" + ", ".join(show(item) for item in value) + "]"
        case _:
            text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."
