"""Classes by import path: "module.path:Class" or "path/to/file.py:Class"."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from simfl.common.contract import PLUGIN_PREFIX, deed, frames_of, raised_at
from simfl.common.files import NO_HANDLES
from simfl.common.suggestion import nearest

MOST_NAMED = 20
"""The most classes of a module that an error lists."""


class PluginError(ValueError):
    """An import path without a class; `found` is the problem."""

    def __init__(self, found: str, accepted: str) -> None:
        super().__init__(found, accepted)
        self.found = found
        self.accepted = accepted


def is_import_path(name: str) -> bool:
    """Whether `name` is an import path and not the name of a shipped part."""
    return ":" in name


def plugin_file(name: str, base_dir: Path) -> Path | None:
    """The file that an import path names, if it names one; relative to `base_dir`."""
    module, _, _ = name.rpartition(":")
    return base_dir / module if module.endswith(".py") else None


def import_class(name: str, base_dir: Path) -> type:
    """The class that the import path `name` names; files are relative to `base_dir`.

    Raises PluginError if the module cannot be imported or has no such class.
    """
    module_name, _, class_name = name.rpartition(":")
    file = plugin_file(name, base_dir)
    try:
        module = load_file(file) if file else importlib.import_module(module_name)
    except FileNotFoundError:
        accepted = f"an existing file (looked for {file})"
        raise PluginError(f"{name!r}, which does not exist", accepted) from None
    except (Exception, SystemExit) as error:  # the user's module may do anything
        if isinstance(error, OSError) and error.errno in NO_HANDLES:
            raise
        place = raised_at(error)
        cause = f"{place}: {deed(error)}" if place else deed(error)
        accepted = f"a module that can be imported{_neighbour(error, file)}"
        raise PluginError(f"{name!r}, which cannot be imported ({cause})", accepted) from error
    found = getattr(module, class_name, None)
    if inspect.isclass(found):
        return found
    # A package offers classes that its modules define, a module those of its own.
    classes = [
        one
        for one, value in vars(module).items()
        if inspect.isclass(value)
        and f"{value.__module__}.".startswith(f"{module.__name__}.")
        and not one.startswith("_")
    ]
    message = f"{name!r}, a module without the class {class_name!r}{nearest(class_name, classes)}"
    few = ": " + ", ".join(classes) if 0 < len(classes) <= MOST_NAMED else ""
    raise PluginError(message, f"a class of that module{few}")


def _neighbour(error: BaseException, file: Path | None) -> str:
    """A hint if what could not be imported lies beside the part's file."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    top = (missing or "").partition(".")[0]
    if file is None or not top:
        return ""
    folder = file.absolute().parent
    beside = [one for one in (folder / f"{top}.py", folder / top) if one.exists()]
    if not beside:
        return ""
    return (
        f"; {beside[0].name} lies beside the file, but Python does not look there: begin the"
        f" command with PYTHONPATH={folder}"
    )


def users_code(error: BaseException) -> str | None:
    """The user's own code that caused `error`, with its place; None: none did."""
    while error.__cause__ is not None:  # what a SimPy process raised is raised anew, as a copy
        error = error.__cause__
    place = raised_at(error)
    if not place:
        return None
    frames = frames_of(error)
    if not frames:  # a file that is no Python has none
        return f"{place}: {deed(error)}"
    return f"{place} in {frames[-1][0].f_code.co_qualname.partition('.<locals>')[0]}: {deed(error)}"


class _Uncached(SourceFileLoader):
    """Leaves no bytecode beside the file, and takes none: that goes by dates of whole seconds."""

    def get_code(self, fullname: str) -> CodeType:
        """Of the file as it is now."""
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code


def load_file(file: Path) -> ModuleType:
    """The module in `file`: the same object as long as the file's content is the same.

    The module's name is made of its content, so that nothing computed from the name depends on
    where the file lies.
    """
    code = file.read_bytes()
    name = f"{PLUGIN_PREFIX}{file.stem}_{hashlib.sha256(code).hexdigest()[:12]}"
    known = sys.modules.get(name)
    if known is not None and known.__file__ == str(file):
        return known
    spec = importlib.util.spec_from_file_location(name, file, loader=_Uncached(name, str(file)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses and pickle look a class's module up by name, so it must be known while it runs
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
