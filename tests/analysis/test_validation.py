"""docs/validation.md: its scores by hand, its tables by the record, the record by the code."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import validation

from validated import families
from validated.page import PAGE, Results, filled, read_results, save_picture
from validated.scores import (
    Held,
    coverage,
    factor_needed,
    interval_score,
    plain_interval,
    rankings,
    relative_width,
    within,
)
from validated.ssd import ssd_mobilenet_v1

HELD = Held("f", "a", "x", 1.0, 1.0, (0.5, 2.0), (), np.zeros(4), None)


@pytest.fixture(scope="module")
def recorded() -> Results:
    """What lies in analysis/results/validation/."""
    return read_results()


def test_the_page_has_what_is_recorded(recorded: Results) -> None:
    """Every table between its marks; a changed result or profile changes the page."""
    page = PAGE.read_text(encoding="utf-8")

    assert filled(page, recorded) == page
    other = replace(recorded, one_rate=recorded.one_rate.assign(ratio=1.0))
    assert filled(page, other) != page


def test_what_is_recorded_is_what_the_code_predicts(recorded: Results) -> None:
    """The cheapest family anew: ten models of a core."""
    behind, asked = (families.core(families.KNOWN_ROWS, one) for one in ("this_cpu", "held_out"))

    found = validation.table_of(families.of_core(validation.KNOWN, behind, asked))

    own = recorded.predictions.query("family == @validation.KNOWN").reset_index(drop=True)
    figures = ["measured", "predicted", "low", "high", "plain", "plain_low", "plain_high"]
    pd.testing.assert_frame_equal(found[figures], own[figures], rtol=1e-3)
    assert found["subject"].tolist() == own["subject"].tolist()


def test_what_the_page_says_of_its_goals(recorded: Results) -> None:
    """Intervals hold on boards and phones, and on a core those of models that chose nothing.

    The baseline is worse everywhere, rankings hold, and FLASH's layers are within their limits.
    """
    whole = recorded.predictions.query("family != @validation.LAYERS")
    on_a_core = whole["family"].str.startswith("one core")

    assert (len(whole), on_a_core.sum()) == (105, 52)
    assert coverage(whole) == 100 / 105 and coverage(whole[on_a_core]) == 47 / 52
    for family in (validation.MORE, validation.NEW, validation.OTHER_MAKE, *validation.OTHERS):
        assert coverage(whole[whole["family"] == family]) >= 0.8
    assert 0.8 <= coverage(recorded.predictions.query("family == @validation.LAYERS")) < 0.99
    for _, own in whole.dropna(subset="plain").groupby("family"):
        assert interval_score(own) < interval_score(own, "plain_")
    sure = recorded.rankings.query("probability >= 0.9")
    assert sure["right"].astype(bool).mean() >= 0.8
    limits = np.where(recorded.layers["layer"] == "lstm", 0.25, 0.20)
    for fit in ("shipped", "calibrated"):
        assert (recorded.layers[fit] <= limits).all()
    ratios = recorded.by_profile.query("device == 'rpi_4b'")["ratio"]
    assert len(ratios) == 18 and ratios.between(0.8, 1.45).all()


@pytest.mark.slow
@pytest.mark.data
def test_everything_anew(recorded: Results, tmp_path: Path) -> None:
    """The whole command's results, and its picture."""
    found = validation.computed(Path(os.environ["SIMFL_DATA"]))
    found.write(tmp_path)

    for name, table in vars(read_results(tmp_path)).items():
        pd.testing.assert_frame_equal(table, getattr(recorded, name), rtol=1e-3)
    save_picture(recorded.predictions, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000


def test_the_baseline_is_one_lognormal_of_the_rows() -> None:
    """Two rows: mean 1 and standard deviation sqrt(2) of the logarithms, one degree of freedom."""
    ones = np.ones(2)

    found = plain_interval(ones, np.exp([0.0, 2.0]), 3.0)

    # 6.314 is the 95 % quantile of Student's t with one degree of freedom.
    half = 6.313752 * np.sqrt(2.0) * np.sqrt(1.5)
    assert found == pytest.approx(tuple(3.0 * np.exp([1.0, 1.0 - half, 1.0 + half])))
    assert plain_interval(np.ones(1), np.ones(1), 3.0) is None


def test_scores_of_three_intervals() -> None:
    """One holds, one is missed by a factor of e above, one by e^2 below."""
    table = pd.DataFrame(
        {
            "measured": np.exp([0.0, 2.0, -3.0]),
            "predicted": [1.0, 1.0, 2.0],
            "low": np.exp([-1.0, 0.0, -1.0]),
            "high": np.exp([1.0, 1.0, 0.0]),
        }
    )

    assert coverage(table) == pytest.approx(1 / 3)
    # Widths 2, 1 and 1; twenty times 0, 1 and 2.
    assert interval_score(table) == pytest.approx((2.0 + 1.0 + 20.0 + 1.0 + 40.0) / 3)
    assert relative_width(table) == pytest.approx(np.e - 1.0)


def test_rankings_are_of_pairs_with_one_thing_in_common() -> None:
    """Two models of a device and two devices of a model; equal measurements are no ranking."""
    slow = replace(HELD, subject="y", measured=2.0, logs=np.array([1.0, 1.0, 1.0, -1.0]))
    other = replace(HELD, device="b", measured=0.5, logs=np.full(4, 1.0))
    equal = replace(HELD, device="c", subject="z")

    found = rankings([HELD, slow, other, equal, replace(equal, subject="w")])

    assert found.to_dict("records") == [
        {"family": "f", "probability": 0.75, "right": True},
        {"family": "f", "probability": 1.0, "right": False},
    ]


def test_what_a_default_spread_would_hold() -> None:
    """Nine of ten ratios are within a factor of 5, in either direction."""
    ratios = np.array([1.0, 1.1, 0.5, 2.0, 0.4, 3.0, 0.25, 4.5, 0.2, 9.0])

    assert factor_needed(ratios) == pytest.approx(5.0)
    assert within(ratios, 5.0) == pytest.approx(0.9)
    assert within(ratios, 2.5) == pytest.approx(0.5)


@pytest.mark.slow
def test_the_single_shot_detector_has_its_boxes() -> None:
    """3000 boxes on maps of 19, 10, 5, 3, 2 and 1, of four coordinates and nine scores."""
    with torch.device("meta"):
        found = ssd_mobilenet_v1(9)(torch.zeros(1, 3, 300, 300))

    assert found.shape == (1, 6 * (361 + 100 + 25 + 9 + 4 + 1) * 13)
