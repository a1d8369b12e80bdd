"""The twin of a CPU: other models than it was calibrated with, recorded in one_core.csv."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from simfl.calibration.computing import base_of
from simfl.calibration.machines import amounts, prior_of
from simfl.calibration.measurements import read_measurements
from simfl.calibration.posterior import posterior
from simfl.calibration.terms import Rows
from simfl.calibration.works import works
from simfl.system.catalogue import Catalogue

ROWS = Path(__file__).parent / "one_core.csv"


@pytest.fixture(scope="module")
def factors() -> dict[str, tuple[float, bool]]:
    """By model: predicted over measured seconds, and whether the 90 % interval held it."""
    lines = ROWS.read_text(encoding="utf-8").splitlines()
    recorded = read_measurements(ROWS)
    each = [
        (one, np.array(amounts(work, one.examples, one.batches)))
        for one, work in zip(recorded.computations, works(recorded), strict=True)
    ]
    known = [(one, asked) for one, asked in each if one.device == "this_cpu"]
    numbers = np.arange(len(known))
    rows = Rows(
        numbers,
        np.zeros_like(numbers),
        numbers,
        np.array([asked for _, asked in known]),
        np.array([one.seconds for one, _ in known]),
    )
    base = base_of(Catalogue().device("minipc_n100"), recorded)
    fit = posterior(rows, prior_of([base]), np.random.default_rng(0))
    found = {}
    for one, asked in each:
        if one.device == "held_out":
            low, high = fit.interval(0, asked)
            model = lines[one.line - 1].rpartition(",")[2]
            found[model] = fit.predicted(0, asked) / one.seconds, low <= one.seconds <= high
    return found


def test_other_models_of_the_measured_families_are_predicted(
    factors: dict[str, tuple[float, bool]],
) -> None:
    """A deeper ResNet, a transformer and an LSTM of other sizes, within 15 %."""
    wanted = ("resnet34", "{name: transformer", "{name: lstm")
    chosen = {model: one for model, (one, _) in factors.items() if model.startswith(wanted)}

    assert len(chosen) == 3
    assert all(0.85 < factor < 1.15 for factor in chosen.values()), chosen


def test_the_page_has_these_figures(factors: dict[str, tuple[float, bool]]) -> None:
    """Every model with its ratio, and whether its interval held it."""
    page = (ROWS.parents[2] / "docs" / "calibrate.md").read_text(encoding="utf-8")
    for model, (factor, inside) in factors.items():
        shown = model.replace(";", ",")
        assert re.search(
            rf"^\| `{re.escape(shown)}` \|.* {factor:.2f} \| {'yes' if inside else 'no'} \|$",
            page,
            re.MULTILINE,
        ), f"| `{shown}` | ... | {factor:.2f} | {'yes' if inside else 'no'} |"


def test_intervals_hold_the_others_too(factors: dict[str, tuple[float, bool]]) -> None:
    """Nine of ten models, some of families without a row, are in their 90 % interval."""
    assert len(factors) == 10
    assert sum(inside for _, inside in factors.values()) >= 8
    assert sum(0.85 < factor < 1.15 for factor, _ in factors.values()) >= 6
