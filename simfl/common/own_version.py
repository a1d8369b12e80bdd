"""The version of simfl, installed or from a checkout."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


@cache
def own_version() -> str:
    """The installed version, or that in the project file of a checkout that is not installed."""
    try:
        return version("simfl")
    except PackageNotFoundError:
        return str(tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["version"])
