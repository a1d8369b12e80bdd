"""The names of parts, in scenarios and in messages."""

from __future__ import annotations

import re
from typing import Any

from simfl.common.contract import is_users_own, name_of


def part_name(part_class: type) -> str:
    """A part's name in a scenario: its class attribute `name`, or the class in snake case."""
    # An inherited `name` is the parent's: a part that extends another needs a name of its own.
    own = vars(part_class).get("name")
    if isinstance(own, str):
        return own
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", part_class.__name__)
    return words.lower()


def called(part: Any) -> str:
    """A part's name in messages: the scenario's name, or the class of a user's own part."""
    return name_of(part) if is_users_own(part) else part_name(type(part))
