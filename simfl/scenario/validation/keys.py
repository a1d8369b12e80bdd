"""Validates values from YAML: classes become pydantic adapters, errors become one line.

A class is its own configuration: the fields of a dataclass (or the arguments of a constructor) are
its YAML keys. Metadata strings in `Annotated` that begin with an operator are bounds; any other
string is the description. A bound on a list or tuple applies to each of its elements.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Required, Union

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationInfo,
)
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema
from typing_extensions import TypedDict

from simfl.common.files import DataMissing, DataPath, TracePath
from simfl.common.limits import refusal
from simfl.common.time_of_day import (
    EXAMPLE,
    PATTERN,
    TimeOfDay,
    seconds_after_midnight,
    tidy,
)

BOUNDS = {">=": "ge", "<=": "le", ">": "gt", "<": "lt"}
"""Operators in metadata strings, longer ones first, with pydantic's names for them."""

REQUIRED = inspect.Parameter.empty


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One YAML key of a class: its type, and its default (`REQUIRED` if it has none)."""

    name: str
    annotation: Any
    default: Any


def parameters(target: type) -> tuple[list[Parameter], bool]:
    """The keys of `target`, and whether it also accepts any other key."""
    owner = next(one for one in target.__mro__ if "__init__" in vars(one))
    if owner is object:
        return [], False
    if "__dataclass_fields__" in vars(owner):
        fields = [one for one in dataclasses.fields(owner) if one.init]
        return [_field_parameter(owner, one) for one in fields], False
    found, is_open = [], False
    initialiser = vars(owner)["__init__"]
    hints = typing.get_type_hints(initialiser, include_extras=True)
    for one in list(inspect.signature(initialiser).parameters.values())[1:]:
        if one.kind is one.VAR_KEYWORD:
            is_open = True
        elif one.kind is not one.VAR_POSITIONAL:
            found.append(Parameter(one.name, hints.get(one.name, Any), one.default))
    return found, is_open


@cache
def file_keys(target: type) -> tuple[str, ...]:
    """The keys of `target` that name a data file or folder."""
    return tuple(one.name for one in parameters(target)[0] if _names_a_file(one.annotation))


def _names_a_file(annotation: Any) -> bool:
    inner = typing.get_args(annotation)
    return annotation in (DataPath, TracePath) or any(_names_a_file(one) for one in inner)


def _field_parameter(owner: type, field: dataclasses.Field[Any]) -> Parameter:
    # A text annotation refers to names in the module of the class that wrote it, perhaps a base
    # class.
    writer = next(
        one for one in owner.__mro__ if field.name in vars(one).get("__annotations__", {})
    )
    holder = types.SimpleNamespace(__annotations__={field.name: field.type})
    names = vars(sys.modules[writer.__module__])
    hint = typing.get_type_hints(holder, names, include_extras=True)[field.name]
    if field.default is not dataclasses.MISSING:
        return Parameter(field.name, hint, field.default)
    if field.default_factory is not dataclasses.MISSING:
        return Parameter(field.name, hint, field.default_factory())
    return Parameter(field.name, hint, REQUIRED)


@cache
def adapter(
    target: type, construct: Callable[..., Any] | None = None, supplied: Collection[str] = ()
) -> TypeAdapter[Any]:
    """Checks a mapping against the keys of `target` and calls `construct` (default: `target`) with
    them.

    `supplied` names arguments that are given later, so they may be missing here.
    """
    checked: Any = Annotated[_shape(target, supplied), AfterValidator(_caller(construct or target))]
    return TypeAdapter(checked)


def _caller(construct: Callable[..., Any]) -> Callable[[dict[str, Any]], Any]:
    def call(values: dict[str, Any]) -> Any:
        return construct(**values)

    return call


def _shape(target: type, supplied: Collection[str]) -> Any:
    """A typed dictionary with the keys of `target`, which pydantic checks.

    A key that is not given is left out, so `target` itself fills in its default.
    """
    known, is_open = parameters(target)
    fields: dict[str, Any] = {}
    for one in known:
        extra = {} if one.default is REQUIRED else {"default": plain(one.default)}
        try:
            plainly = _checked(one.annotation, {})
        except TypeError as error:
            raise TypeError(f"{one.name}: {error}") from error
        checked: Any = Annotated[
            plainly,
            AfterValidator(partial(_within_limits, one.name)),
            Field(json_schema_extra=extra),
        ]
        if dataclasses.is_dataclass(one.default) and not isinstance(one.default, type):
            checked = Annotated[checked, BeforeValidator(partial(_completed, one.default))]
        is_needed = one.default is REQUIRED and one.name not in supplied
        fields[one.name] = Required[checked] if is_needed else NotRequired[checked]
    make: Any = TypedDict
    shape = make(target.__name__, fields)
    shape.__pydantic_config__ = ConfigDict(
        extra="allow" if is_open else "forbid", arbitrary_types_allowed=True
    )
    return shape


def checked_type(annotation: Any) -> Any:
    """The type that pydantic checks for a key with this annotation."""
    return _checked(annotation, {})


def _checked(annotation: Any, bounds: Mapping[str, Any]) -> Any:
    """`annotation` as pydantic checks it: strict scalars, bounds on numbers, nested classes."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        inner, *metadata = arguments
        text = [one for one in metadata if isinstance(one, str)]
        kept = [one for one in metadata if not isinstance(one, str)]
        limits = dict(limit for one in text for limit in _bound(one))
        description = " ".join(one for one in text if not list(_bound(one))) or None
        if limits and not _is_numeric(inner, limits.values()):
            told = ", ".join(one for one in text if list(_bound(one)))
            raise TypeError(f"the bound {told!r} does not fit its type, {inner}")
        value = _checked(inner, {**bounds, **limits})
        if any(isinstance(one, TimeOfDay) for one in kept):
            value = _or_time_of_day(inner, value)
        checked: Any = Annotated[value, Field(description=description)]
        for one in kept:
            checked = Annotated[checked, one]
        return checked
    if annotation is float:
        return Annotated[float, Field(strict=True, allow_inf_nan=False, **bounds)]
    if annotation is int:
        return Annotated[int, Field(strict=True, **bounds)]
    if annotation is Path:
        return Annotated[str, Field(strict=True), AfterValidator(_from_scenario)]
    if annotation is DataPath:
        return Annotated[str, Field(strict=True), AfterValidator(_beside_scenario)]
    if annotation is TracePath:
        return Annotated[str, Field(strict=True), AfterValidator(_beside_or_below_root)]
    if annotation in (bool, str):
        return Annotated[annotation, Field(strict=True)]
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return Annotated[_shape(annotation, ()), AfterValidator(_caller(annotation))]
    if origin in (Union, types.UnionType):
        return Union[tuple(_checked(one, bounds) for one in arguments)]  # noqa: UP007  # no | of a tuple
    if origin is None or origin is Literal or not isinstance(origin, type):
        return annotation
    if arguments and all(one is ... or not isinstance(one, list) for one in arguments):
        checked_arguments = tuple(one if one is ... else _checked(one, bounds) for one in arguments)
        return types.GenericAlias(origin, checked_arguments)
    return annotation


def _is_numeric(annotation: Any, limits: Iterable[float]) -> bool:
    """Whether a type has numbers that `limits` may bound: whole ones, if it has no others."""
    arguments = typing.get_args(annotation)
    if arguments:
        return any(_is_numeric(one, limits) for one in arguments)
    return annotation is float or (
        annotation is int and all(isinstance(one, int) for one in limits)
    )


def _or_time_of_day(annotation: Any, number: Any) -> Any:
    """A time of day: text for a text key; for a `number` of seconds, either a number or text."""
    schema: Any = {"examples": [EXAMPLE]}
    text = Annotated[str, Field(strict=True, pattern=PATTERN, json_schema_extra=schema)]
    if annotation is str:
        return Annotated[text, AfterValidator(tidy)]
    return Union[number, Annotated[text, AfterValidator(seconds_after_midnight)]]  # noqa: UP007


def _completed(default: Any, value: Any) -> Any:
    """A section with the keys that it lacks, from the section that is used if none is given.

    A key that another one replaces (`REPLACED_BY` of the section's class) stays away beside that.
    """
    if not isinstance(value, Mapping):
        return value
    replaced_by = getattr(default, "REPLACED_BY", {})
    others = {
        key: known
        for key, known in plain(default).items()
        if key not in value and not any(one in value for one in replaced_by.get(key, ()))
    }
    return {**value, **others}


def _within_limits(key: str, value: Any) -> Any:
    reason = refusal(key, value)
    if reason is not None:
        raise ValueError(reason)
    return value


def _from_scenario(text: str, info: ValidationInfo) -> Path:
    """A path, relative to the folder of the scenario that names it."""
    folder: Path = (info.context or {}).get("base_dir", Path())
    return folder / text


def _beside_scenario(text: str, info: ValidationInfo) -> str:
    """A path beside the scenario that names it, if it exists; otherwise unchanged."""
    beside = _from_scenario(text, info).absolute()
    return str(beside) if beside.exists() else text


def _beside_or_below_root(text: str, info: ValidationInfo) -> Path:
    """A path beside the scenario that names it, or else below the data root."""
    beside, root = _from_scenario(text, info), (info.context or {}).get("data_root")
    places = [beside] if root is None else [beside, Path(root) / text]
    found = next((place for place in places if place.exists()), None)
    if found is None:
        below = "no data root is set" if root is None else f"not below the data root {root}"
        raise DataMissing(
            f"no file {beside}, and {below}; put it there, or set the data root that has it with"
            " --data-root, SIMFL_DATA or data.root"
        )
    return found


def _bound(text: str) -> Iterator[tuple[str, int | float]]:
    """The bound that a text of an annotation is, if it is one; TypeError if it only begins so."""
    if not text.startswith((*BOUNDS, "=")):
        return
    for operator, name in BOUNDS.items():
        if text.startswith(operator):
            with suppress(ValueError):
                limit = float(text.removeprefix(operator))
                yield name, int(limit) if limit.is_integer() else limit
                return
    raise TypeError(
        f"{text!r} is no bound, such as '> 0' or '<= 1': each bound is a text of its own, and a"
        " description begins with another character"
    )


def plain(value: Any) -> Any:
    """`value` as YAML can hold it: nested classes as mappings, tuples and sets as lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [one.name for one in dataclasses.fields(value) if one.init]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(plain(item) for item in value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


class LenientJsonSchema(GenerateJsonSchema):
    """JSON Schema in which types unknown to JSON accept anything."""

    def handle_invalid_for_json_schema(
        self, schema: core_schema.CoreSchema, error_info: str
    ) -> JsonSchemaValue:
        return {}


def canonical(value: Any) -> Any:
    """Plain values with whole numbers as integers, so that equal values are written equally."""
    if isinstance(value, dict):
        return {key: canonical(item) for key, item in value.items()}
    if isinstance(value, list):
        return [canonical(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def json_schema(checker: TypeAdapter[Any]) -> dict[str, Any]:
    """The JSON Schema of the values that `checker` accepts, without references."""
    schema = checker.json_schema(schema_generator=LenientJsonSchema)
    result: dict[str, Any] = _inlined(schema, schema.pop("$defs", {}))
    return result


def _inlined(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inlined(one, definitions) for one in node]
    if not isinstance(node, dict):
        return node
    rest = {key: _inlined(one, definitions) for key, one in node.items() if key != "$ref"}
    if "$ref" not in node:
        return rest
    # What stands beside a reference (a description, a default) belongs to this use of it.
    target = definitions[node["$ref"].rpartition("/")[2]]
    return {**_inlined(target, definitions), **rest}
