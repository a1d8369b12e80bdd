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


def page_faults(way: str) -> int:
    """Pages that 20 arrays of 4 MB, one after the other, are given by the operating system."""
    done = subprocess.run(
        [sys.executable, "-c", PAGE_FAULTS, way], capture_output=True, text=True, check=False
    )
    if done.stderr.strip() == "not here":
        pytest.skip("this C library has no mallopt")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_freed_memory_is_not_asked_for_again() -> None:
    """The second and all later arrays lie where the first one lay."""
    assert page_faults("keep") < page_faults("leave") / 4
