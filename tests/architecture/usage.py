"""Rules on what stands where: clock, randomness, what is asked by name or type, length of files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from tests.architecture.source import Module, imports_of, last_name, report

MAX_LINES = 600
MAX_ARGUMENTS, MAX_FIELDS = 10, 12
"""Of the constructor of a class, and of the class, where the engine is."""

LARGE = {
    "Cpu": "its fields are the keys of a device's YAML",
    "Group": "its fields are the keys of a group in `population:`",
    "Link": "its fields are the keys of a link's YAML",
    "Population": "its fields are the keys of `population:`",
    "Paper": "its fields are the keys of `population:`",
    "World": "users' populations replace single columns by name (docs/plugins.md)",
}
"""Classes that may have more, and why."""


def timeout_violations(modules: Iterable[Module]) -> list[str]:
    """Uses of `env.timeout`, called or not, outside protocols and system."""
    found = []
    for module in modules:
        if module.room in {"protocols", "system"}:
            continue
        called = {id(node.func) for node in ast.walk(module.tree) if isinstance(node, ast.Call)}
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Attribute) or node.attr != "timeout":
                continue
            if id(node) in called or last_name(node.value) == "env":
                found.append(report(module, node.lineno, "timeout outside protocols and system"))
    return found


def random_violations(modules: Iterable[Module]) -> list[str]:
    """Uses of numpy.random outside streams.py, and imports of the standard library's random.

    Annotations may name anything; elsewhere only the type `Generator` may stand, uncalled.
    """
    found = []
    for module in modules:
        if module.room == "streams" or "random" not in module.text:
            continue
        found += [
            report(module, one.line, "randomness comes from simfl.streams, not from random")
            for one in imports_of(module)
            if not one.relative and one.target.split(".")[0] == "random"
        ]
        found += [
            report(module, line, f"{name} outside streams.py")
            for line, name in _numpy_random_uses(module)
        ]
    return found


def _numpy_random_uses(module: Module) -> Iterator[tuple[int, str]]:
    aliases = _aliases(module.tree)
    annotated = _annotation_nodes(module.tree)
    qualified = {
        id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Attribute)
    }
    called = {id(node.func) for node in ast.walk(module.tree) if isinstance(node, ast.Call)}
    for node in ast.walk(module.tree):
        if id(node) in annotated or not isinstance(node, ast.Name | ast.Attribute):
            continue
        name = _dotted(node, aliases)
        if name == "numpy.random" and id(node) not in qualified:
            yield node.lineno, name
        elif re.fullmatch(r"numpy\.random\.\w+", name or "") and not (
            name == "numpy.random.Generator" and id(node) not in called
        ):
            yield node.lineno, str(name)


def _aliases(tree: ast.Module) -> dict[str, str]:
    aliases = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                aliases[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return aliases


def _annotation_nodes(tree: ast.Module) -> set[int]:
    annotations: list[ast.AST | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign):
            annotations.append(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            annotations.append(node.returns)
    return {id(inner) for one in annotations if one is not None for inner in ast.walk(one)}


def _dotted(node: ast.AST, aliases: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return aliases.get(node.id)
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value, aliases)
        return f"{base}.{node.attr}" if base else None
    return None


def named_part_violations(modules: Iterable[Module]) -> list[str]:
    """Comparisons of an algorithm or a protocol, or of its name, with a string literal."""
    found = []
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                hit = any(map(_is_named_part, sides)) and any(map(_has_text, sides))
            elif isinstance(node, ast.Match):
                hit = _is_named_part(node.subject) and any(_has_text(one) for one in node.cases)
            else:
                continue
            if hit:
                found.append(report(module, node.lineno, "algorithm or protocol asked by name"))
    return found


_NAMED_PARTS = {"algorithm", "protocol"}


def _is_named_part(node: ast.AST) -> bool:
    """`algorithm`, `x.algorithm`, `x["algorithm"]`, their name or type name; so of a protocol."""
    if isinstance(node, ast.Attribute) and node.attr in {"name", "__name__", "__class__"}:
        return _is_named_part(node.value)
    if isinstance(node, ast.Call) and last_name(node.func) == "type" and node.args:
        return _is_named_part(node.args[0])
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        key = node.slice.value
        return key in _NAMED_PARTS or (key == "name" and _is_named_part(node.value))
    return last_name(node) in _NAMED_PARTS


def _has_text(node: ast.AST) -> bool:
    """A string literal, a display of some, or a match case with one."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(_has_text, node.elts))
    if isinstance(node, ast.match_case):
        return any(_has_text(one) for one in ast.walk(node.pattern) if isinstance(one, ast.expr))
    return False


def learned_values_violations(modules: Iterable[Module]) -> list[str]:
    """`isinstance` of what stands behind the interface `LearnedValues`: nobody asks which it is."""
    return [
        report(module, node.lineno, "isinstance of learned values")
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and last_name(node.func) == "isinstance"
        and any(last_name(one) in {"Values", "TimingOnly"} for one in ast.walk(node.args[-1]))
    ]


def length_violations(modules: Iterable[Module]) -> list[str]:
    """Files of more than MAX_LINES lines."""
    return [
        f"{module.name}: {lines} lines, at most {MAX_LINES}"
        for module in modules
        if (lines := len(module.text.splitlines())) > MAX_LINES
    ]


def size_violations(modules: Iterable[Module]) -> list[str]:
    """Classes of protocols and system with too many constructor arguments, or fields."""
    found = []
    for module in modules:
        if module.room not in {"protocols", "system"}:
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and node.name not in LARGE:
                arguments, fields = _arguments(node), len(_fields(node))
                if arguments > MAX_ARGUMENTS or fields > MAX_FIELDS:
                    message = f"{node.name} has {arguments} arguments and {fields} fields"
                    found.append(report(module, node.lineno, message))
    return found


def _declared(node: ast.ClassDef) -> set[str]:
    """The fields of a dataclass."""
    if not any("dataclass" in ast.unparse(one) for one in node.decorator_list):
        return set()
    return {
        one.target.id
        for one in node.body
        if isinstance(one, ast.AnnAssign)
        and isinstance(one.target, ast.Name)
        and "ClassVar" not in ast.unparse(one.annotation)
    }


def _arguments(node: ast.ClassDef) -> int:
    """What its constructor takes beside self; `*` and `**` count as too many."""
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and one.name == "__init__":
            given = one.args
            if given.vararg or given.kwarg:
                return MAX_ARGUMENTS + 1
            return len([*given.posonlyargs, *given.args, *given.kwonlyargs]) - 1
    return len(_declared(node))


def _fields(node: ast.ClassDef) -> set[str]:
    """What is declared, and all that its methods assign to `self`."""
    return _declared(node) | {
        one.attr
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute)
        and isinstance(one.ctx, ast.Store)
        and isinstance(one.value, ast.Name)
        and one.value.id == "self"
    }
