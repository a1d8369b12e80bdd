"""The code that a user adds: parts of scenarios, machines of profiles, and what these import."""

from __future__ import annotations

import inspect
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

_INSTALLED = {Path(sysconfig.get_path(one)) for one in ("stdlib", "purelib", "platlib")}
_VERSIONED = ("simfl", "torch", "torchvision", "builtins", "abc", "typing", "collections")


def source_of(part: Any) -> str:
    """The source text of a user's own part: its classes, and everything they import.

    Empty for a part of simfl. Shipped and installed modules count by version, except those of the
    part's base classes, and what these import of their own package.
    """
    return "\n".join(_text(module) for module in _modules_of(part))


def own_files_of(part: Any) -> list[Path]:
    """The user's own Python files, not installed, of a part's classes and of all they import."""
    return [Path(str(_file(module))) for module in _modules_of(part) if _is_own(module)]


def own_files() -> list[Path]:
    """The Python files that this process has imported, neither shipped nor installed."""
    modules = [one for one in list(sys.modules.values()) if _is_own(one)]
    return sorted({Path(str(_file(one))).absolute() for one in modules})


def _modules_of(part: Any) -> list[ModuleType]:
    """Those of the part's classes first, each followed by what it imports."""
    owner = part if inspect.isclass(part) else getattr(part, "func", type(part))
    waiting = [inspect.getmodule(one) for one in owner.__mro__ if not _is_versioned(one.__module__)]
    packages = {_package(one.__name__) for one in waiting if one is not None}
    found: dict[str, ModuleType] = {}
    while waiting:
        module = waiting.pop(0)
        if module is not None and module.__name__ not in found:
            found[module.__name__] = module
            waiting.extend(
                one
                for one in _imported(module)
                if _is_own(one) or (_package(one.__name__) in packages and _file(one) is not None)
            )
    return list(found.values())


def _imported(module: ModuleType) -> list[ModuleType]:
    """The modules of a module's names, or those that these come from, in their order."""
    found = []
    for value in vars(module).values():
        origin = value if inspect.ismodule(value) else sys.modules.get(_module_name(value))
        if origin is not None and origin is not module:
            found.append(origin)
    return found


def _module_name(value: Any) -> str:
    name = getattr(value, "__module__", None)
    return name if isinstance(name, str) else ""


def _package(name: str) -> str:
    return name.partition(".")[0]


def _is_versioned(name: str) -> bool:
    return _package(name) in _VERSIONED


def _file(module: ModuleType) -> str | None:
    """The file of a module of Python text; None for any other."""
    file = getattr(module, "__file__", None)
    return file if isinstance(file, str) and file.endswith(".py") else None


def _text(module: ModuleType) -> str:
    """The text of a module; of a compiled one its bytes, and without a file its name."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return module.__name__
    return Path(file).read_bytes().decode("utf-8", "backslashreplace")


def _is_own(module: ModuleType) -> bool:
    """Whether a module is a user's Python file, neither shipped nor installed."""
    file = _file(module)
    if file is None or _is_versioned(module.__name__):
        return False
    return not any(Path(file).is_relative_to(folder) for folder in _INSTALLED)
