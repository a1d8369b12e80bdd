"""Checks that a class's own defaults are accepted by its keys."""

from __future__ import annotations

import typing
from collections.abc import Collection, Iterator
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from simfl.scenario.accepted import accepted_at
from simfl.scenario.validation.keys import checked_type, json_schema, parameters


def refused_defaults(target: type, given: Collection[str]) -> Iterator[tuple[str, Any, str]]:
    """Keys that are not `given` and whose defaults `target` would refuse: key, default, accepted.

    Only annotations with bounds or a description are checked; others were not written for simfl.
    None, and values that YAML cannot hold, are always valid defaults.
    """
    for one in parameters(target)[0]:
        annotated = typing.get_origin(one.annotation) is Annotated
        if not annotated or one.name in given or not isinstance(one.default, _WRITABLE):
            continue
        checker: TypeAdapter[Any] = TypeAdapter(checked_type(one.annotation))
        try:
            checker.validate_python(one.default)
        except ValidationError:
            yield one.name, one.default, accepted_at(json_schema(checker), ())


_WRITABLE = (bool, int, float, str, tuple, list)
