"""Memory that was freed is used again."""

from __future__ import annotations

import subprocess
import sys

import pytest

PAGE_FAULTS = """
import resource, sys
import numpy as np
from simfl.learning.allocation import keep_freed_memory
if sys.argv[1] == "keep" and not keep_freed_memory():
    sys.exit("not here")
np.ones(4 << 20, np.uint8)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    np.ones(4 << 20, np.uint8)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

RESIDENT = """
import sys
from pathlib import Path
import numpy as np
from simfl.learning.allocation import keep_freed_memory, return_freed_memory

def resident_bytes():
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])

if not keep_freed_memory():
    sys.exit("not here")
before = resident_bytes()
np.ones(30 << 20, np.uint8)
kept = resident_bytes()
assert return_freed_memory()
print(kept - before, resident_bytes() - before)
"""


def said(script: str, *arguments: str) -> list[int]:
    """The numbers that a script prints in a process of its own."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.stderr.strip() == "not here":
        pytest.skip("this C library has no mallopt")
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


def test_freed_memory_is_not_asked_for_again() -> None:
    """Of 20 arrays of 4 MB, all after the first reuse its memory."""
    (kept,), (left,) = said(PAGE_FAULTS, "keep"), said(PAGE_FAULTS, "leave")
    assert kept < left / 4


def test_freed_memory_goes_back_when_it_is_asked_to() -> None:
    """After an array of 30 MB was freed, hardly any of it is kept."""
    kept, left = said(RESIDENT)
    assert kept > 25 << 20
    assert left < 5 << 20
