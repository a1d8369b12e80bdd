"""The text of api.md: every public name, its signature and what its docstring says of it."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import ModuleType
from typing import Any

PUBLIC = ("simfl", "simfl.algorithms", "simfl.plugins", "simfl.flower")
"""The modules that users import from; `__all__` of each says what."""

INTRODUCTION = """\
# Public names

Version {version} of what is public: of these four modules, and of the names that they list, with
their signatures. A name or an argument that is to go stays for one version more, with a
`DeprecationWarning` that says what to use; the first number changes when it has gone. What lies
elsewhere below `simfl` is not public and may change at any time. [plugins.md](plugins.md) shows how
parts of your own use it.
"""

FOOTER = """\
---

Made by `docs/make_reference.py` from the code, which is where to change it.
"""


def api_page() -> str:
    """The text of api.md."""
    version = importlib.import_module("simfl.plugins").API_VERSION
    lines = [INTRODUCTION.format(version=version)]
    for name in PUBLIC:
        module = importlib.import_module(name)
        lines += [f"## {name}", "", _text(module), ""]
        for one in sorted(module.__all__, key=str.lower):
            lines += [f"### {one}", "", *_described(module, one)]
    return "\n".join([*lines, FOOTER])


def _described(module: ModuleType, name: str) -> Iterator[str]:
    value = getattr(module, name)
    if inspect.ismodule(value):  # a package that can be called, as simfl.study
        value = getattr(importlib.import_module(f"{value.__name__}.from_python"), name)
    if inspect.isclass(value):
        yield from _class(name, value)
    elif inspect.isfunction(value):
        yield from _block(f"{name}{_signature(value)}")
        yield from (_text(value), "")
    else:
        yield from _assigned(module, name)


def _assigned(module: ModuleType, name: str) -> Iterator[str]:
    """A constant or an alias of a type, as its module has it, with the text below it."""
    statements = ast.parse(inspect.getsource(module)).body
    for before, after in pairwise([*statements, ast.Pass()]):
        if isinstance(before, ast.ImportFrom) and name in [one.name for one in before.names]:
            yield from _assigned(importlib.import_module(str(before.module)), name)
        elif isinstance(before, ast.Assign) and name in map(ast.unparse, before.targets):
            yield from _block(ast.unparse(before))
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                yield from (inspect.cleandoc(str(after.value.value)), "")


def _class(name: str, one: type) -> Iterator[str]:
    bases = [base.__name__ for base in one.__bases__ if base.__module__.startswith("simfl.")]
    head = f"class {name}({', '.join(bases)})" if bases else f"class {name}"
    fields = getattr(one, "__dataclass_fields__", {})
    own = [field for field in fields if field in inspect.get_annotations(one)]
    lines = [head]
    for field in own:
        annotation = inspect.get_annotations(one)[field]
        default = _default_of(fields[field])
        if not str(annotation).startswith("ClassVar"):
            lines.append(f"    {field}: {annotation}{default}")
    if not fields and "__init__" in vars(one):
        lines[0] = f"class {name}{_signature(one)}"
    yield from _block("\n".join(lines))
    yield from (_text(one), "")
    members = [line for member, value in vars(one).items() for line in _member(member, value)]
    if members:
        yield from (*members, "")


def _member(name: str, value: Any) -> Iterator[str]:
    """A public method or property, in one line."""
    if name.startswith("_"):
        return
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    if inspect.isfunction(value):
        yield f"- `{name}{_signature(value)}`: {_first(value)}"
    elif isinstance(value, property):
        returned = inspect.get_annotations(value.fget).get("return", "") if value.fget else ""
        yield f"- `{name}: {returned}`: {_first(value)}"
    elif hasattr(value, "func") and hasattr(value, "attrname"):  # a cached property
        returned = inspect.get_annotations(value.func).get("return", "")
        yield f"- `{name}: {returned}`: {_first(value.func)}"


def _signature(function: Callable[..., Any]) -> str:
    """Arguments with their annotations as they are written, without the first one of a method."""
    signature = inspect.signature(function)
    kept = [one for one in signature.parameters.values() if one.name not in ("self", "cls")]
    shown, starred = [], False
    for one in kept:
        if one.kind is one.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        starred = starred or one.kind is one.VAR_POSITIONAL
        sign = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        annotation = "" if one.annotation is one.empty else f": {_annotation(one.annotation)}"
        default = "" if one.default is one.empty else f" = {_value(one.default)}"
        shown.append(f"{sign}{one.name}{annotation}{default}")
    returned = signature.return_annotation
    arrow = "" if returned in (signature.empty, None, "None") else f" -> {_annotation(returned)}"
    return f"({', '.join(shown)}){arrow}"


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default_of(field: Any) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return f" = {field.default_factory.__name__}()"
    return "" if field.default is dataclasses.MISSING else f" = {_value(field.default)}"


def _value(value: Any) -> str:
    if inspect.isfunction(value) or inspect.isclass(value):
        return value.__name__
    return repr(value)


def _block(code: str) -> Iterator[str]:
    yield from ("```text", code, "```", "")


def _text(one: Any) -> str:
    """A docstring, headings and indented code as they are."""
    return inspect.getdoc(one) or ""


def _first(one: Any) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((inspect.getdoc(one) or "").split("\n\n")[0].split())
