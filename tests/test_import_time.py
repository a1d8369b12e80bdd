"""The command line answers at once: importing it loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# torch takes about a second; each of the others breaks the 0.3 s of `simfl --help` or half of it.
HEAVY = ("torch", "torchvision", "sklearn", "pandas", "scipy", "matplotlib", "pyarrow")


@pytest.fixture(scope="module")
def loaded_modules() -> set[str]:
    """Top-level modules loaded by a fresh interpreter that imports the command line."""
    code = "import sys, simfl, simfl.cli; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("library", HEAVY)
def test_importing_the_command_line_leaves_out(library: str, loaded_modules: set[str]) -> None:
    """`import simfl, simfl.cli` must not load the library."""
    assert "simfl" in loaded_modules
    assert library not in loaded_modules
