"""Levels of a study's factors: their values, their texts, and their column of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simfl.scenario.classes import short_name


def is_labelled(value: Any) -> bool:
    """Whether an entry of a grid is a value with a label."""
    return isinstance(value, Mapping) and set(value) == {"label", "value"}


def value_of(entry: Any) -> Any:
    """The value that an entry of a grid gives its key."""
    return entry["value"] if is_labelled(entry) else entry


def level(value: Any) -> Any:
    """How a table shows a value: numbers and text as they are, a section as one line of text.

    A labelled entry of a grid is shown by its label.
    """
    if is_labelled(value):
        return value["label"]
    if isinstance(value, Mapping):
        inner = [f"{key}={as_text(level(item))}" for key, item in value.items() if key != "name"]
        return " ".join([*([short_name(str(value["name"]))] if "name" in value else []), *inner])
    if isinstance(value, list):
        return ", ".join(as_text(level(item)) for item in value)
    if isinstance(value, str):
        return short_name(value)
    return "null" if value is None else value


def in_one_column(levels: list[Any]) -> list[Any]:
    """Levels for a column: text if their types are mixed, floats for ints and floats."""
    kinds = set(map(type, levels))
    if len(kinds) < 2:
        return levels
    return list(map(float, levels)) if kinds <= {int, float} else list(map(as_text, levels))


def as_text(value: Any) -> str:
    """A level as text, for a factor whose other levels are text."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def short_names(keys: Sequence[str]) -> list[str]:
    """Keys shortened to their last components, as many as tell each from the others.

    A list's number stands behind the list's name: `groups.0.link`, not `0.link`.
    """
    return [_shortest(key, [one for one in keys if one != key]) for key in keys]


def short_among(key: str, keys: Sequence[str]) -> str:
    """One of `keys`, as `short_names` shortens it."""
    return short_names(keys)[list(keys).index(key)]


def _shortest(key: str, others: Sequence[str]) -> str:
    parts = key.split(".")
    for begin in reversed(range(1, len(parts))):
        ending = ".".join(parts[begin:])
        if not parts[begin].isdigit() and not any(
            f".{one}".endswith(f".{ending}") for one in others
        ):
            return ending
    return key
