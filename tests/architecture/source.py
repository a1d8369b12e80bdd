"""Parsed source of the package: what the rules of the house read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Import:
    """One import: absolute dotted target (with the imported name); whether it waits for a call."""

    target: str
    line: int
    relative: bool = False
    in_function: bool = False


@dataclass(frozen=True)
class Module:
    """One source file: its dotted name, text and syntax tree."""

    name: str
    text: str
    tree: ast.Module

    @classmethod
    def parse(cls, name: str, text: str) -> Module:
        """A module from source text."""
        return cls(name, text, ast.parse(text))

    @property
    def room(self) -> str:
        """The first part of the name below simfl."""
        return room_of(self.name)


def room_of(dotted: str) -> str:
    """The room that a dotted name below simfl lies in; `__init__` for simfl itself."""
    parts = dotted.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def package_modules(package: Path) -> list[Module]:
    """Every module of the package in a folder, in order of its path."""
    modules = []
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules.append(Module.parse(name, path.read_text(encoding="utf-8")))
    return modules


def report(module: Module, line: int, message: str) -> str:
    """One violation in words, with its place."""
    return f"{module.name}:{line}: {message}"


def imports_of(module: Module) -> list[Import]:
    """All imports of a module, those by `import_module("...")` included."""
    return list(_imports(module.tree, in_function=False))


def _imports(node: ast.AST, *, in_function: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, node.lineno, False, in_function)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        for alias in node.names:
            target = f"{base}.{alias.name}"
            yield Import(target, node.lineno, node.level > 0, in_function)
    elif isinstance(node, ast.Call) and last_name(node.func) in {"import_module", "__import__"}:
        name = node.args[0] if node.args else None
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            relative = name.value.startswith(".")
            yield Import(name.value, node.lineno, relative, in_function)
    in_function = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    for child in ast.iter_child_nodes(node):
        yield from _imports(child, in_function=in_function)


def last_name(node: ast.AST) -> str | None:
    """The name itself or the attribute's: `timeout` of `run.env.timeout`."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None
