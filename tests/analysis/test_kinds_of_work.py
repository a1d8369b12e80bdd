"""The fit of rates by kind of work finds what was planted, and the shipped profiles are its own."""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    """The script's functions."""
    return runpy.run_path(str(ROOT / "analysis" / "kinds_of_work.py"))


def test_planted_figures_are_found_and_an_outlier_does_not_move_them(
    script: dict[str, Any],
) -> None:
    """Fixed times, rates and bandwidth of 600 steps of three layers, and one step tenfold."""
    planted = np.array([0.05, 0.03, 0, 0, 1 / 4e9, 1 / 2e9, 1 / 1e8, 1 / 3e8, 0, 1 / 5e7])
    rng = np.random.default_rng(0)
    sizes = np.stack([rng.integers(50, 1000, 200), rng.integers(50, 1000, 200)], axis=1)
    sizes = np.concatenate([sizes, rng.integers(2, 50, (200, 2))], axis=1)
    rows = np.concatenate([script["layer_rows"](layer, sizes) for layer in script["LAYERS"]])
    seconds = rows @ planted
    seconds[7] *= 10

    found = script["fitted"](rows, seconds, np.ones(len(rows)))

    np.testing.assert_allclose(found, planted, rtol=1e-3)


@pytest.mark.data
def test_the_shipped_profiles_are_what_the_script_finds(script: dict[str, Any]) -> None:
    """Four digits of each figure, and the docs' tables."""
    root = Path(os.environ["SIMFL_DATA"])
    on_boards, board_table = script["boards"](root / "measured" / "raspberry_pi_training.csv")
    on_phones, phone_table = script["phones"](root / "device_traces")
    documented = (ROOT / "docs" / "hardware.md").read_text(encoding="utf-8")

    for device, figures in {**on_boards, **on_phones}.items():
        shipped = script["named"](script["shipped_terms"](device))
        for term, found in figures.items():
            if np.isfinite(found):
                assert shipped[term] == pytest.approx(found, rel=1e-3), (device, term)
    for section, table in (("boards", board_table), ("phones", phone_table)):
        block = f"<!-- kinds {section} -->\n{script['markdown'](table)}\n"
        assert block in documented
