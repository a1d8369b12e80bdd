"""The version of simfl, installed or from a checkout."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


@cache
def own_version() -> str:
    """As installed; of a checkout that is not, as its project file has it."""
    try:
        return version("simfl")
    except PackageNotFoundError:
        return str(tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["version"])
