"""What every test stands on: one thread, no display, no folder of the user's, markers that skip."""

from __future__ import annotations

import math
import os
import shutil
from pathlib import Path

import matplotlib
import pytest
import torch
from hypothesis import settings

# Results are fixed per thread count, and two test runs side by side must not fight for cores.
torch.set_num_threads(1)
matplotlib.use("Agg")

# The same examples in every run, and no verdict that depends on how busy the machine is.
settings.register_profile("simfl", derandomize=True, deadline=None)
settings.load_profile("simfl")

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test marked `grid(keep)`, all but so many of its cases are slow.

    Steps of the golden section go through a grid of cases evenly along each of its axes.
    """
    grids: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        if (mark := item.get_closest_marker("grid")) is not None:
            name = item.nodeid.partition("[")[0]
            grids.setdefault((name, mark.args[0]), []).append(item)
    for (_, keep), cases in grids.items():
        count = len(cases)
        step = next(n for n in range(round(0.618 * count), count + 2) if math.gcd(n, count) == 1)
        kept = {step * number % count for number in range(keep)}
        for number, item in enumerate(cases):
            if number not in kept:
                item.add_marker(pytest.mark.slow)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, with the reason, what this machine cannot run."""
    if item.get_closest_marker("cuda") and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    if item.get_closest_marker("data") and not os.environ.get("SIMFL_DATA"):
        pytest.skip("SIMFL_DATA names no folder with data sets")
    if item.get_closest_marker("browser") and not any(map(shutil.which, _BROWSERS)):
        pytest.skip(f"none of {', '.join(_BROWSERS)} is installed")


@pytest.fixture(scope="session")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_environment(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, _cache: Path
) -> None:
    """Caches go to a temporary folder; only tests marked `data` see the user's data sets."""
    monkeypatch.setenv("SIMFL_CACHE", str(_cache))
    if request.node.get_closest_marker("data") is None:
        monkeypatch.delenv("SIMFL_DATA", raising=False)
