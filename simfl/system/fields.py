"""Checked construction of the frozen dataclasses in device and link files.

The registry validates a scenario's parts with pydantic, which this package does not import; device
files use the same annotations (`Annotated[float, "> 0", "what it is"]`) and get the same checks.
"""

from __future__ import annotations

import math
import operator
import types
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from simfl.common.limits import refusal
from simfl.common.suggestion import nearest

T = TypeVar("T")

_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


class FieldError(ValueError):
    """A key is unknown or missing, or its value is not accepted."""


def build(cls: type[T], values: Mapping[str, Any]) -> T:
    """An instance of the dataclass `cls` from `values`; FieldError begins with the key at fault.

    ValueErrors of the class's own checks pass unchanged.
    """
    return cls(**checked(cls, values))


def checked(
    cls: type[Any], values: Mapping[str, Any], without: Container[str] = ()
) -> dict[str, Any]:
    """The checked fields of `cls` given by `values`, except those in `without`, as for `build`.

    Raises FieldError for the first that is unknown, missing or not accepted.
    """
    known = {item.name: item for item in fields(cls) if item.init and item.name not in without}
    for key in values:
        if key not in known:
            raise FieldError(f"{key}: unknown key{suggestion(key, known)}")
    hints = get_type_hints(cls, include_extras=True)
    arguments: dict[str, Any] = {}
    for name, item in known.items():
        if name in values:
            arguments[name] = _checked(hints[name], values[name], name)
        elif item.default is MISSING and item.default_factory is MISSING:
            raise FieldError(f"{name}: missing, accepted: {_wanted(hints[name])}")
    return arguments


def check(cls: type[Any], path: Sequence[str], value: Any) -> None:
    """Raises FieldError if the field of `cls` at `path` does not accept `value`."""
    name, *below = path
    for section in reversed(below):
        value = {section: value}
    _checked(get_type_hints(cls, include_extras=True)[name], value, name)


def field_names(cls: type[Any]) -> list[str]:
    """The fields of the dataclass `cls` that can be given values."""
    return [item.name for item in fields(cls) if item.init]


def suggestion(found: str, known: Iterable[str]) -> str:
    """', did you mean ...?' with the nearest known name, and all known names."""
    names = sorted(known)
    return f"{nearest(str(found), names) or ';'} accepted: {', '.join(names)}"


def _checked(annotation: Any, value: Any, name: str) -> Any:
    """`value` converted (int to float, list to tuple), or FieldError."""
    beyond = refusal(name, value)
    if beyond is not None:
        raise FieldError(f"{name}: {beyond}")
    kind, constraints = _split(annotation)
    converted = _converted(kind, value, name)
    if converted is _REFUSED or not all(_holds(rule, converted) for rule in constraints):
        raise FieldError(f"{name}: found {shown(value)}, accepted: {_wanted(annotation)}")
    return converted


_REFUSED = object()


def _converted(kind: Any, value: Any, name: str) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        options = (_converted(option, value, name) for option in get_args(kind))
        return next((option for option in options if option is not _REFUSED), _REFUSED)
    if origin is tuple:
        return _converted_tuple(get_args(kind), value, name)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            return _REFUSED
        inner = get_args(kind)[1]
        return {key: _checked(inner, item, f"{name}.{key}") for key, item in value.items()}
    if is_dataclass(kind) and isinstance(kind, type):
        return _nested(kind, value, name)
    if kind is float:
        return _as_float(value)
    if kind is int and (isinstance(value, bool) or not _fits_int64(value)):
        return _REFUSED
    return value if isinstance(value, kind) else _REFUSED


def _as_float(value: Any) -> Any:
    """A finite number as a float; integers beyond a float's range are refused."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _REFUSED
    try:
        number = float(value)
    except OverflowError:
        return _REFUSED
    return number if math.isfinite(number) else _REFUSED


def _fits_int64(value: Any) -> bool:
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def _nested(kind: type[T], value: Any, name: str) -> T | object:
    """A dataclass within a field; its errors have the full path."""
    if not isinstance(value, Mapping):
        return _REFUSED
    try:
        return build(kind, value)
    except ValueError as error:
        raise FieldError(f"{name}.{error}") from error


def _converted_tuple(kinds: tuple[Any, ...], value: Any, name: str) -> Any:
    if not isinstance(value, list | tuple):
        return _REFUSED
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        return _REFUSED
    items = tuple(_converted(kind, item, name) for kind, item in zip(kinds, value, strict=True))
    return _REFUSED if any(item is _REFUSED for item in items) else items


def _split(annotation: Any) -> tuple[Any, list[str]]:
    """Type and constraints of an annotation; other strings in it are descriptions."""
    if get_origin(annotation) is not Annotated:
        return annotation, []
    kind, *metadata = get_args(annotation)
    return kind, [text for text in metadata if text[:1] in "<>"]


def _holds(rule: str, value: Any) -> bool:
    if value is None:
        return True
    symbol, bound = rule.split()
    return _OPERATORS[symbol](value, float(bound))


def shown(value: Any) -> str:
    """`value` as a short piece of one-line text, for an error message."""
    # Python refuses to convert integers of more than 4,300 digits to text.
    is_huge = isinstance(value, int) and value.bit_length() > 14_000
    text = "an integer of thousands of digits" if is_huge else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _wanted(annotation: Any) -> str:
    """A description of accepted values: 'a number > 0 (per core)'."""
    kind, constraints = _split(annotation)
    metadata = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    about = [text for text in metadata if text not in constraints]
    return " ".join([_in_words(kind, constraints), *(f"({text})" for text in about)])


_WORDS = {float: "a number", int: "an integer", str: "text", bool: "true or false"}


def _in_words(kind: Any, constraints: Sequence[str] = ()) -> str:
    """A type as described by `scenario.accepted`, followed by its bounds."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        options = [_in_words(one, constraints) for one in inner if one is not types.NoneType]
        return " or ".join([*options, *(["null"] if types.NoneType in inner else [])])
    if origin is tuple:
        if inner[-1] is Ellipsis:
            return f"a list, each {_in_words(inner[0], constraints)}"
        return f"a list of {len(inner)} ({', '.join(map(_in_words, inner))})"
    if is_dataclass(kind) and isinstance(kind, type):
        return f"a section with the keys {', '.join(one.name for one in fields(kind))}"
    if origin is not None and issubclass(origin, Mapping):
        return "a section"
    return " ".join([_WORDS.get(kind, str(kind)), " and ".join(constraints)]).strip()
