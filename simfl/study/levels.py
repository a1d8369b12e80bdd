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
    """Keys shortened to their last component if that is unambiguous."""
    last = [key.rpartition(".")[2] for key in keys]
    return [one if last.count(one) == 1 else key for one, key in zip(last, keys, strict=True)]
