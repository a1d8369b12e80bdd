"""Names in classes of the user's own that simfl would never look at."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator

from simfl.common.contract import is_users_own

ALIKE = 0.85
"""From this ratio on (`difflib.SequenceMatcher`), a name is perhaps another one, misspelt."""


def annotated_without_fields(part_class: type) -> list[str]:
    """Names annotated in a class that is no dataclass: they look like keys, and are none."""
    if "__dataclass_fields__" in vars(part_class):
        return []
    return [
        name
        for name, annotation in vars(part_class).get("__annotations__", {}).items()
        if not name.startswith("_") and "ClassVar" not in str(annotation)
    ]


def perhaps_misspelt(part_class: type) -> Iterator[tuple[str, str, str]]:
    """Public names of a user's class that nothing calls: each with its base and what is meant."""
    shipped = next((one for one in part_class.__mro__ if not is_users_own(one)), object)
    known = {name for name in dir(shipped) if not name.startswith("_")}
    if dataclasses.is_dataclass(part_class):
        known |= {one.name for one in dataclasses.fields(part_class)}
    for one in part_class.__mro__[: part_class.__mro__.index(shipped)]:
        for name in vars(one):
            if name.startswith("_") or name in known:
                continue
            for meant in difflib.get_close_matches(name, known, n=1, cutoff=ALIKE):
                yield f"{one.__name__}.{name}", shipped.__name__, meant
