"""One-line errors for parts that violate their contract.

A part is anything that a scenario names. Its results are checked where they enter the engine. An
error in a part of the user's own is reported with its file and line:

    own.py:6 in Bad.decide: no field 'clientz', did you mean 'clients'?
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from reprlib import Repr
from types import FrameType
from typing import Any

from simfl.common.suggestion import nearest

PLUGIN_PREFIX = "simfl_plugin_"
"""The prefix of the names of modules that are loaded from a user's file."""

_SHIPPED = ("simfl", "torch", "torchvision")

_REPR = Repr()
_REPR.maxother = _REPR.maxstring = 80


class PartMisbehaves(ValueError):
    """A part returned an invalid value or raised an error; the message is one line."""


def name_of(part: Any) -> str:
    """The name of a part's class."""
    return str(getattr(_class_of(part), "__name__", part))


def is_users_own(part: Any) -> bool:
    """Whether a part's class comes from the user, and not from simfl or torch."""
    return _top(_module_of(part)) not in _SHIPPED


def misbehaves(part: Any, method: str, found: object, accepted: str) -> PartMisbehaves:
    """The error to raise when a part's `method` returned `found`."""
    return PartMisbehaves(f"{named(part, method)} gave {short(found)}, accepted: {accepted}")


def named(part: Any, method: str) -> str:
    """A part's method, preceded by its file and line if the part is the user's own.

    `method` may be followed by more text, after a colon.
    """
    name = f"{name_of(part)}.{method}"
    place = _defined_at(part, method.partition(":")[0])
    return f"{place} in {name}" if place else name


@contextmanager
def at_work(part: Any, method: str) -> Iterator[None]:
    """Turns an error in a user's own part, raised within the block, into a `PartMisbehaves`.

    Errors of simfl's own classes pass unchanged: their messages are complete.
    """
    try:
        yield
    except (Exception, SystemExit) as error:  # user code may raise anything, or exit
        if type(error).__module__.startswith("simfl.") or not is_users_own(part):
            raise
        raise PartMisbehaves(told(part, method, error)) from error


def short(value: object) -> str:
    """A value in one line of moderate length."""
    if hasattr(value, "item") and not getattr(value, "ndim", 1):
        value = value.item()  # a Python number
    return " ".join(_REPR.repr(value).split())


def told(part: Any, method: str, error: BaseException) -> str:
    """What a user's part did instead of returning a value, with file and line.

    An empty `method` stands for the construction of the part.
    """
    return f"{placed(part, error, method)}: {deed(error)}"


def placed(part: Any, error: BaseException, method: str = "") -> str:
    """A part, or its method, with the line that raised the error, or that of its definition."""
    name = f"{name_of(part)}.{method}" if method else name_of(part)
    place = raised_at(error, _module_of(part)) or _defined_at(part, method)
    return f"{place} in {name}" if place else name


def deed(error: BaseException) -> str:
    """The error in one line of moderate length."""
    if isinstance(error, SystemExit):
        return f"called sys.exit({'' if error.code is None else short(error.code)})"
    if isinstance(error, AttributeError) and _module_of(error.obj).startswith("simfl"):
        known = [name for name in _names_in(error.obj) if not name.startswith("_")]
        return f"no field {error.name!r}{nearest(str(error.name), known)}"
    text = str(error.msg) if isinstance(error, SyntaxError) else " ".join(str(error).split())
    text = text if len(text) <= 300 else f"{text[:297]}..."
    return type(error).__name__ + (f": {text}" if text else "")


def raised_at(error: BaseException, module: str = PLUGIN_PREFIX) -> str:
    """The innermost line of the user's own code in the traceback, as "file:line".

    The user's own code is `module` and every file that a scenario names; "" if no line is in it.
    """
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{_shown(error.filename)}:{error.lineno}"
    lines = [
        f"{_shown(frame.f_code.co_filename)}:{number}" for frame, number in frames_of(error, module)
    ]
    return lines[-1] if lines else ""


def frames_of(error: BaseException, module: str = PLUGIN_PREFIX) -> list[tuple[FrameType, int]]:
    """The frames of the user's own code in the traceback, with their line numbers.

    Methods that dataclasses generate for a user's class are in no file, and are left out.
    """
    return [
        (frame, number)
        for frame, number in traceback.walk_tb(error.__traceback__)
        if (
            (name := str(frame.f_globals.get("__name__"))) == module
            or name.startswith(PLUGIN_PREFIX)
        )
        and not frame.f_code.co_filename.startswith("<")
    ]


def _defined_at(part: Any, method: str) -> str:
    """The line that defines a method of a user's own part; "" for a part that simfl ships.

    For a method inherited from simfl, this is the line of the class.
    """
    if not is_users_own(part):
        return ""
    owner = _class_of(part)
    function = getattr(owner, method, None)
    code = getattr(function, "__code__", None)
    if code is not None and _top(str(getattr(function, "__module__", ""))) not in _SHIPPED:
        return f"{_shown(code.co_filename)}:{code.co_firstlineno}"
    with suppress(OSError, TypeError):  # defined by code that is in no file
        file = inspect.getsourcefile(owner)
        if file is not None:
            return f"{_shown(file)}:{inspect.getsourcelines(owner)[1]}"
    return ""


def _shown(file: str) -> str:
    """A path relative to the current folder if it is inside, otherwise as it is."""
    with suppress(OSError, ValueError):  # the current folder may be gone
        return str(Path(file).relative_to(Path.cwd()))
    return file


def _names_in(value: Any) -> list[str]:
    return sorted({*dir(value), *getattr(value, "__dataclass_fields__", ())})


def _top(module: str) -> str:
    return module.partition(".")[0]


def _class_of(part: Any) -> Any:
    """The class of a part: of an object, a class itself, or a `partial` of a class."""
    if isinstance(part, partial):
        return part.func
    return part if isinstance(part, type) else type(part)


def _module_of(part: Any) -> str:
    return str(getattr(_class_of(part), "__module__", ""))
