"""Lazy imports of a package's names."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy(package: str, homes: Mapping[str, str]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`__getattr__` and `__dir__` for a package that imports its names from `homes` when needed.

    A name whose home is the module package.name stands for that module.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        if home not in sys.modules:
            _load(home)
        module = importlib.import_module(home)
        return module if home == f"{package}.{name}" else getattr(module, name)

    def names() -> list[str]:
        own = [one for one in vars(sys.modules[package]) if one.startswith("__")]
        return sorted({*own, *homes})

    return find, names


def _load(module: str) -> None:
    """Import a module and its dependencies.

    The objects stay alive, and garbage collections during the import take a tenth of its time; so
    the collector is off meanwhile and the objects are moved to the oldest generation.
    """
    collecting, frozen = gc.isenabled(), gc.get_freeze_count()
    gc.disable()
    try:
        importlib.import_module(module)
    finally:
        gc.freeze()
        if not frozen:
            gc.unfreeze()
        if collecting:
            gc.enable()
