"""Detects state that users' own parts keep between calls.

Such state is not reproducible: the next run of the process begins with it, and a resumed run
without it.
"""

from __future__ import annotations

import inspect
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, partial
from itertools import islice
from typing import Any

import numpy as np

from simfl.common.contract import PLUGIN_PREFIX, is_users_own, name_of

MOST_LOOKED_AT = 1000
"""The most entries of a container whose values are compared; beyond that, only its length is."""

DEEPEST = 3
"""The most nested containers that are examined."""

_CONTAINERS = (list, tuple, set, frozenset, deque)


class KeptState:
    """A snapshot of the parts' state, to be compared with later."""

    def __init__(self, parts: Iterable[Any]) -> None:
        self._parts = [one for one in parts if is_users_own(one)]
        self._before = [dict(_held(one)) for one in self._parts]

    def changed(self) -> list[str]:
        """The names with changed values, such as `Mine.seen` or `mine.calls`."""
        found: dict[str, None] = {}
        for part, before in zip(self._parts, self._before, strict=True):
            now = dict(_held(part))
            names = dict.fromkeys([*before, *now])
            found |= {name: None for name in names if before.get(name) != now.get(name)}
        return list(found)


def _held(part: Any) -> Iterator[tuple[str, Any]]:
    """What a part, its class and its module hold, by name."""
    owner = part.func if isinstance(part, partial) else part
    owner = owner if isinstance(owner, type) else type(owner)
    library = sys.stdlib_module_names - {"__main__"}
    classes = [
        one
        for one in owner.__mro__
        if is_users_own(one) and one.__module__.partition(".")[0] not in library
    ]
    spaces = [(name_of(part), getattr(part, "__dict__", {}))]
    spaces += [(one.__name__, vars(one)) for one in classes]
    for module in dict.fromkeys(one.__module__ for one in classes):
        own = {**vars(sys.modules[module])} if module in sys.modules else {}
        spaces.append((_told(module), own))
    for space, held in spaces:
        for name, value in list(held.items()):
            made_once = isinstance(inspect.getattr_static(owner, name, None), cached_property)
            if not name.startswith("__") and not made_once and _is_data(value):
                yield f"{space}.{name}", _shown(value)


def _told(module: str) -> str:
    """A module's name; for a user's file, without its digest."""
    if module.startswith(PLUGIN_PREFIX):
        return module.removeprefix(PLUGIN_PREFIX).rpartition("_")[0]
    return module


def _is_data(value: Any) -> bool:
    plain = (bool, int, float, str, np.ndarray, Mapping, *_CONTAINERS)
    return value is None or isinstance(value, plain)


def _shown(value: Any, depth: int = 0) -> Any:
    """A value that is equal as long as the given one is unchanged."""
    if isinstance(value, np.ndarray):
        few = value.reshape(-1)[:MOST_LOOKED_AT]
        return value.shape, few.tolist() if value.dtype == object else few.tobytes()
    if depth < DEEPEST and isinstance(value, Mapping):
        return len(value), [
            (repr(key), _shown(one, depth + 1))
            for key, one in islice(value.items(), MOST_LOOKED_AT)
        ]
    if depth < DEEPEST and isinstance(value, _CONTAINERS):
        return len(value), [_shown(one, depth + 1) for one in islice(value, MOST_LOOKED_AT)]
    return value if value is None or isinstance(value, bool | int | str) else repr(value)[:80]
