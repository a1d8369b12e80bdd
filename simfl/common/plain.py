"""Parts' answers as JSON, including numbers and arrays of numpy and torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def to_json(value: Any, indent: int | None = None) -> str:
    """`value` as JSON: numbers, strings, lists, arrays and mappings; TypeError for anything else.

    Keys that are numbers become text.
    """
    try:
        return json.dumps(value, default=_plain, indent=indent)
    except TypeError:
        return json.dumps(_with_plain_keys(value), default=_plain, indent=indent)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"found {value!r}, accepted: numbers, strings, lists and arrays")


def _with_plain_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        plain = {}
        for key, one in value.items():
            name = key.item() if hasattr(key, "item") else key
            plain[name if isinstance(name, str) else to_json(name)] = _with_plain_keys(one)
        return plain
    return [_with_plain_keys(one) for one in value] if isinstance(value, list | tuple) else value
