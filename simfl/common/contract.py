"""What becomes of a part that does not keep to its contract: one line that says which one.

A part is anything that a scenario names. What it gives is looked at where it enters the engine; an
error that a part of the user's own raises is told with the part's name and the line of its file.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from reprlib import Repr
from typing import Any

_REPR = Repr()
_REPR.maxother = _REPR.maxstring = 80


class PartMisbehaves(ValueError):
    """A part gave what its kind may not give, or raised an error; its text is one line."""


def name_of(part: Any) -> str:
    """The name of a part's class."""
    return str(getattr(_class_of(part), "__name__", part))


def is_users_own(part: Any) -> bool:
    """Whether a part's class is none of those that simfl, or torch, ships."""
    return _module_of(part).partition(".")[0] not in ("simfl", "torch", "torchvision")


def misbehaves(part: Any, method: str, found: object, accepted: str) -> PartMisbehaves:
    """The error to raise where a part's `method` gave `found`."""
    return PartMisbehaves(f"{name_of(part)}.{method} gave {short(found)}, accepted: {accepted}")


@contextmanager
def at_work(part: Any, method: str) -> Iterator[None]:
    """While a part is asked: an error in a user's own part becomes a `PartMisbehaves`.

    Errors of simfl's own kinds pass: they say what there is to say.
    """
    try:
        yield
    except (Exception, SystemExit) as error:  # a user's part may raise anything, or leave
        if type(error).__module__.startswith("simfl.") or not is_users_own(part):
            raise
        raise PartMisbehaves(f"{name_of(part)}.{method} {did(part, error)}") from error


def short(value: object) -> str:
    """A value in one line of moderate length."""
    if hasattr(value, "item") and not getattr(value, "ndim", 1):
        value = value.item()  # as Python's own number
    return " ".join(_REPR.repr(value).split())


def did(part: Any, error: BaseException) -> str:
    """What a part did in place of giving something, and where in its file."""
    if isinstance(error, SystemExit):
        deed = f"called sys.exit({'' if error.code is None else short(error.code)})"
    else:
        text = " ".join(str(error).split())
        text = text if len(text) <= 300 else f"{text[:297]}..."
        deed = f"raised {type(error).__name__}" + (f": {text}" if text else "")
    lines = [
        number
        for frame, number in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__") == _module_of(part)
    ]
    return f"{deed} (line {lines[-1]} of its file)" if lines else deed


def _class_of(part: Any) -> Any:
    """A part is an object, or a class whose constructor's arguments are bound."""
    if isinstance(part, partial):
        return part.func
    return part if isinstance(part, type) else type(part)


def _module_of(part: Any) -> str:
    return str(getattr(_class_of(part), "__module__", ""))
