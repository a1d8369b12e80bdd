"""A Flower app's folder: its pyproject.toml and its source."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from traceback import walk_tb
from typing import Any

Values = Mapping[str, Any]
"""An app's run config, nested or with dotted keys."""


_INSTALLED = tuple(f"{sysconfig.get_path(one)}{os.sep}" for one in ("stdlib", "purelib", "platlib"))


_PLACE = ("tool", "flwr", "app")
"""The section with an app's settings in its pyproject.toml."""


class BadApp(ValueError):
    """A folder without a runnable app; the message says which key of its pyproject.toml is
    wrong.
    """


def read_settings(folder: Path) -> dict[str, Any]:
    """`[tool.flwr.app]` of an app's pyproject.toml; raises `BadApp`."""
    file = folder / "pyproject.toml"
    try:
        settings: Any = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadApp(f"{file}: {error.strerror}; accepted: the folder of a Flower app") from None
    except ValueError as error:
        raise BadApp(f"{file}: no TOML ({error})") from None
    for depth, key in enumerate(_PLACE, 1):
        settings = _table(file, settings, key, _PLACE[:depth])
    components = _table(file, settings, "components", (*_PLACE, "components"))
    for half in ("serverapp", "clientapp"):
        module, _, attribute = str(components.get(half, "")).partition(":")
        if not (module and attribute):
            raise BadApp(f"{file}: [tool.flwr.app.components] names no {half} (module:attribute)")
    config = _table(file, settings, "config", (*_PLACE, "config"))
    for key, value in _flat(config).items():
        if not isinstance(value, str | int | float):
            kind = type(value).__name__
            accepted = "a text, a number, or true or false"
            raise BadApp(f"{file}: [tool.flwr.app.config] {key} is a {kind}, accepted: {accepted}")
    return dict(settings)


def _table(file: Path, above: Mapping[str, Any], key: str, named: tuple[str, ...]) -> Any:
    """A table of a TOML file; empty if there is none."""
    found = above.get(key, {})
    if not isinstance(found, Mapping):
        raise BadApp(f"{file}: {'.'.join(named)} is {found!r}, accepted: a table")
    return found


def fused(settings: Mapping[str, Any], run_config: Values) -> dict[str, Any]:
    """The app's own configuration with some values replaced; raises `BadApp` for unknown keys."""
    own = _flat(settings.get("config", {}))
    given = _flat(run_config)
    unknown = sorted(set(given) - set(own))
    if unknown:
        accepted = ", ".join(sorted(own)) or "none: the app has no [tool.flwr.app.config]"
        raise BadApp(f"unknown key {unknown[0]!r}; accepted: {accepted}")
    return {**own, **given}


def place_in(folder: Path, error: BaseException) -> str:
    """Where in an app's folder an error came from, and the error."""
    steps = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    text = str(error)
    if isinstance(error, SyntaxError):
        steps.append((str(error.filename), error.lineno or 0))
        text = error.msg
    own = [one for one in steps if is_own(one[0], folder)]
    where = f"{Path(own[-1][0]).name}:{own[-1][1]}" if own else str(folder)
    return f"{where}: {type(error).__name__}" + (f": {text}" if text else "")


def written_for(folder: Path, error: BaseException) -> str:
    """For an import error of Flower's names, which versions are installed and wanted; else ""."""
    if not isinstance(error, ImportError) or (error.name or "").partition(".")[0] != "flwr":
        return ""
    wanted = read_settings(folder).get("flwr-version-target", "not said")
    return f" (installed: flwr {version('flwr')}; the app's flwr-version-target: {wanted})"


def forget_modules(folder: Path) -> None:
    """Unload the modules that were loaded from a folder."""
    for name, module in list(sys.modules.items()):
        if is_own(str(getattr(module, "__file__", None)), folder):
            del sys.modules[name]


def digest_of_sources(folder: Path, before: set[str]) -> str:
    """A digest of the app's files and of loaded modules that are not installed packages.

    The folder may lie anywhere: the app's files are named by their paths within it, others by their
    file names.
    """
    below = folder.absolute()
    files = {one.relative_to(below).as_posix(): one for one in _sources(below)}
    named = [*files.items(), ("pyproject.toml", below / "pyproject.toml")]
    for name in set(sys.modules) - before:
        if name.partition(".")[0] == "simfl":
            continue
        file = getattr(sys.modules[name], "__file__", None)
        if file is None or not file.endswith(".py") or is_own(file, folder) or _installed(file):
            continue
        if Path(file).is_file():  # some modules only claim to have a file
            named.append((Path(file).name, Path(file)))
    digest = hashlib.sha256()
    for name, content in sorted((name, one.read_bytes()) for name, one in named):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _sources(folder: Path) -> Iterator[Path]:
    """Python files in and below a folder, except those of virtual environments in it."""
    for above, folders, files in os.walk(folder):
        folders[:] = [
            one
            for one in folders
            if not one.startswith(".") and not Path(above, one, "pyvenv.cfg").exists()
        ]
        yield from (Path(above, one) for one in files if one.endswith(".py"))


def is_own(file: str, folder: Path) -> bool:
    """Whether a file is the app's: in its folder, and not in an environment there."""
    return file.startswith(f"{folder.absolute()}{os.sep}") and not _installed(file)


def _installed(file: str) -> bool:
    return file.startswith(_INSTALLED)


def _flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested keys as dotted ones."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found.update(_flat(value, f"{above}{key}."))
        else:
            found[f"{above}{key}"] = value
    return found
