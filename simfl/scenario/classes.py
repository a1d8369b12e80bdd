"""Python classes as parts of a scenario, written in a form that a file can hold.

A shipped class becomes its name, one of a module its import path. A class defined in a notebook
cell or a script is written to its own file, with the surrounding names that it needs: a later
reader of the scenario or another process finds it there, and the file's content is part of a run's
digest.
"""

from __future__ import annotations

import ast
import builtins
import copy
import hashlib
import importlib
import inspect
import linecache
import re
import symtable
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from numbers import Integral, Real
from pathlib import Path
from types import ModuleType
from typing import Any

from simfl.common.contract import PLUGIN_PREFIX
from simfl.common.part_name import part_name

FOLDER = Path("runs") / "parts"
"""The folder for these files, below the working folder (shipped scenarios may be read-only)."""

_WRITTEN = re.compile(rf".*\b{FOLDER.as_posix()}/\w+_[0-9a-f]{{12}}\.py:(\w+)")

_PUBLIC = ("simfl.plugins", "numpy.typing", "typing")
"""Where names are looked for that do not say where they come from, as those of types."""


class UnwritableClass(ValueError):
    """A class that cannot be written to a file."""


def plain_content(value: Any, base_dir: Path) -> Any:
    """A scenario's content as plain YAML values: classes by name, Python's own numbers.

    Raises `UnwritableClass`.
    """
    if isinstance(value, Mapping):
        return {key: plain_content(item, base_dir) for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain_content(item, base_dir) for item in value]
    if inspect.isclass(value):
        return named(value, base_dir)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def named(part_class: type, base_dir: Path) -> str:
    """What a scenario calls a class; raises `UnwritableClass`."""
    module_name, name = part_class.__module__, part_class.__qualname__
    if module_name.partition(".")[0] == "simfl":
        return part_name(part_class)
    module = sys.modules.get(module_name)
    if module_name.startswith(PLUGIN_PREFIX) and module is not None:
        return f"{module.__file__}:{name}"
    if _is_importable(module_name) and getattr(module, name, None) is part_class:
        return f"{module_name}:{name}"
    text = _file_of(part_class)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = (FOLDER / f"{part_name(part_class)}_{digest}.py").absolute()
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    file = path.relative_to(base_dir) if path.is_relative_to(base_dir) else path
    return f"{file.as_posix()}:{name}"


def short_name(name: str) -> str:
    """A part's name; of a class that was written to a file, its own."""
    written = _WRITTEN.fullmatch(name)
    return written[1] if written else name


def _is_importable(module: str) -> bool:
    """Whether another process finds the module by its name."""
    try:
        return module != "__main__" and find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _file_of(part_class: type) -> str:
    """The text of a module with this class, and what it uses of the names around it."""
    space = vars(sys.modules.get(part_class.__module__, ModuleType("")))
    imports: dict[str, None] = {}
    texts: list[str] = []
    begun: set[str] = set()

    def add(one: Any, name: str) -> None:
        """Write down `one`, which the code calls `name`: what it needs comes first."""
        if name in begun:
            return
        begun.add(name)
        found = _import_of(one, name)
        if found is not None:
            imports[found] = None
        elif inspect.isclass(one) or inspect.isfunction(one):
            definition = _source(one)
            for needed in _names(definition):
                if needed in space:
                    add(space[needed], needed)
                elif not hasattr(builtins, needed):
                    raise UnwritableClass(_told(part_class, f"the name {needed!r} is not defined"))
            texts.append(ast.unparse(definition))
            if name != one.__name__:
                texts.append(f"{name} = {one.__name__}")
        elif isinstance(one, str | int | float | bool | None | tuple) and _reads_back(one):
            texts.append(f"{name} = {one!r}")
        else:
            why = f"it uses {name!r}, a {type(one).__name__} that cannot be written as text"
            raise UnwritableClass(_told(part_class, why))

    add(part_class, part_class.__name__)
    head = ["from __future__ import annotations", *imports]
    about = f'"""{part_class.__name__}, as a notebook or a script defined it."""'
    return "\n\n".join([about, "\n".join(head), *texts]) + "\n"


def _source(one: Any) -> ast.stmt:
    """The statement that defines a class or a function; raises `UnwritableClass`."""
    if "." in one.__qualname__:
        raise UnwritableClass(_told(one, f"it is nested in another definition, {one.__qualname__}"))
    for text in _texts(one):
        try:
            statements = ast.parse(text).body
        except SyntaxError:  # a cell with a command of the notebook's
            continue
        for node in reversed(statements):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == one.__name__:
                return node
    raise UnwritableClass(_told(one, "its source is not available"))


def _texts(one: Any) -> Iterator[str]:
    """Where the definition may stand: in what its code names, its module's file, a cell."""
    # Of a class Python 3.11 and 3.12 do not know where it stands, but of its methods.
    methods = vars(one).values() if inspect.isclass(one) else [one]
    files = [method.__code__.co_filename for method in methods if inspect.isfunction(method)]
    module = sys.modules.get(one.__module__)
    for file in dict.fromkeys([*files, getattr(module, "__file__", None) or ""]):
        yield "".join(linecache.getlines(file))
    yield from reversed(getattr(module, "In", []))  # IPython's cells, the last one first


def _names(definition: ast.stmt) -> list[str]:
    """The names that a definition reads from the module around it.

    Annotations of arguments do not count: nobody reads them.
    """
    bare = _WithoutSignatures().visit(copy.deepcopy(definition))
    waiting = [symtable.symtable(ast.unparse(bare), "definition", "exec")]
    found: dict[str, None] = {}
    while waiting:
        table = waiting.pop()
        waiting += table.get_children()
        at_top = table.get_type() == "module"
        for symbol in table.get_symbols():
            if symbol.is_global() or (at_top and symbol.is_referenced()):
                found[symbol.get_name()] = None
    return sorted(found)


class _WithoutSignatures(ast.NodeTransformer):
    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns = None
        self.generic_visit(node)
        return node


def _import_of(one: Any, name: str) -> str | None:
    """The statement that imports `one` as `name` in any process; None where there is none."""
    if inspect.ismodule(one):
        said = f"import {one.__name__}" + (f" as {name}" if name != one.__name__ else "")
        return said if _is_importable(one.__name__) else None
    own = getattr(one, "__name__", None) or getattr(one, "_name", None) or name
    made_in = getattr(one, "__module__", None)
    own_first = not str(made_in).startswith("simfl.")  # of simfl's own, where it is public
    for home in (made_in, *_PUBLIC) if own_first else (*_PUBLIC, made_in):
        if not isinstance(home, str) or not _is_importable(home):
            continue
        module = importlib.import_module(home)
        for known in dict.fromkeys((own, name)):
            if isinstance(known, str) and getattr(module, known, _ABSENT) is one:
                return f"from {home} import {known}" + (f" as {name}" if name != known else "")
    return None


_ABSENT = object()


def _reads_back(value: Any) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False


def _told(one: Any, why: str) -> str:
    where = f"write it into its own file and use 'file.py:{one.__name__}'"
    return f"{one.__name__} cannot be found again from a scenario: {why}; {where}"
