"""A Flower app's folder: what its pyproject.toml says, and the source that is in it."""

from __future__ import annotations

import hashlib
import sys
import sysconfig
import tomllib
from collections.abc import Mapping
from pathlib import Path
from traceback import walk_tb
from typing import Any

Values = Mapping[str, Any]
"""An app's run-config, nested or with dotted keys."""


class BadApp(ValueError):
    """A folder that holds no app that can be run: `key` is to blame in its pyproject.toml."""


def read_settings(folder: Path) -> dict[str, Any]:
    """`[tool.flwr.app]` of an app's pyproject.toml; raises `BadApp`."""
    file = folder / "pyproject.toml"
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadApp(f"{file}: {error.strerror}; accepted: the folder of a Flower app") from None
    except tomllib.TOMLDecodeError as error:
        raise BadApp(f"{file}: no TOML ({error})") from None
    settings = content.get("tool", {}).get("flwr", {}).get("app", {})
    components = settings.get("components", {})
    for half in ("serverapp", "clientapp"):
        if ":" not in str(components.get(half, "")):
            raise BadApp(f"{file}: [tool.flwr.app.components] names no {half} (module:attribute)")
    return dict(settings)


def fused(settings: Mapping[str, Any], run_config: Values) -> dict[str, Any]:
    """The app's own configuration with other values; raises `BadApp` for keys that it lacks."""
    own = _flat(settings.get("config", {}))
    given = _flat(run_config)
    unknown = sorted(set(given) - set(own))
    if unknown:
        accepted = ", ".join(sorted(own)) or "none: the app has no [tool.flwr.app.config]"
        raise BadApp(f"unknown key {unknown[0]!r}; accepted: {accepted}")
    return {**own, **given}


def place_in(folder: Path, error: BaseException) -> str:
    """Where in an app's folder an error came from, and what it is."""
    steps = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    own = [one for one in steps if Path(one[0]).is_relative_to(folder.absolute())]
    where = f"{Path(own[-1][0]).name}:{own[-1][1]}" if own else str(folder)
    return f"{where}: {type(error).__name__}: {error}"


def forget_modules(folder: Path) -> None:
    """Unload what was loaded from a folder."""
    below = folder.absolute()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is not None and Path(file).is_relative_to(below):
            del sys.modules[name]


def digest_of_sources(folder: Path, before: set[str]) -> str:
    """Of the app's files, and of those modules loaded with it that are not installed."""
    files = {*folder.rglob("*.py"), folder / "pyproject.toml"}
    installed = [Path(sysconfig.get_path(one)) for one in ("stdlib", "purelib", "platlib")]
    for name in set(sys.modules) - before:
        if name.partition(".")[0] == "simfl":
            continue
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None and file.endswith(".py"):
            path = Path(file)
            own = path.is_file() and not any(path.is_relative_to(one) for one in installed)
            if own:  # some modules only pretend to lie in a file
                files.add(path)
    digest = hashlib.sha256()
    for name, content in sorted((one.name, one.read_bytes()) for one in files):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested keys as dotted ones."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found.update(_flat(value, f"{above}{key}."))
        else:
            found[f"{above}{key}"] = value
    return found
