"""What parts are called: in scenarios, and in sentences for those who write them."""

from __future__ import annotations

import re
from typing import Any

from simfl.common.contract import is_users_own, name_of


def part_name(part_class: type) -> str:
    """The name of a part in a scenario: its own class attribute `name`, else in snake case."""
    # An inherited name is the parent's: a part that extends another one has a name of its own.
    own = vars(part_class).get("name")
    if isinstance(own, str):
        return own
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", part_class.__name__)
    return words.lower()


def called(part: Any) -> str:
    """A part in a sentence: by its name in scenarios, one of the user's own by its class."""
    return name_of(part) if is_users_own(part) else part_name(type(part))
