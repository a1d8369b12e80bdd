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

from validated import families, power
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


def test_power_is_recorded_as_the_code_predicts_it(recorded: Results) -> None:
    """The profile's steps, one network left out on one card, and a network's other batches."""
    rows = [one for one in power.published_rows() if one.gpu == "v100"]
    own = [one for one in rows if one.model == "shufflenetv2"]

    steps = power.by_profile()
    left_out = power.networks(["p100"], ["ncf"])
    held = pd.DataFrame(power.predicted(power.OTHER_BATCHES, own[::2], own[1::2]))

    pd.testing.assert_frame_equal(steps, recorded.power_by_profile, rtol=1e-3, check_dtype=False)
    its = recorded.power_networks.query("gpu == 'p100' and model == 'ncf'").reset_index(drop=True)
    pd.testing.assert_frame_equal(left_out, its, rtol=1e-3, check_dtype=False)
    chosen = "behind == @power.OTHER_BATCHES and gpu == 'v100' and model == 'shufflenetv2'"
    its = recorded.power_held_out.query(chosen).reset_index(drop=True)
    pd.testing.assert_frame_equal(held, its, rtol=1e-3, check_dtype=False)


def test_what_the_page_says_of_power(recorded: Results) -> None:
    """Its figures in words, one by one."""
    steps = recorded.power_by_profile.assign(
        watts=lambda its: its["limit_w"] / its["measured_w"],
        shipped=lambda its: its["shipped_w"] / its["measured_w"],
        seconds=lambda its: its["predicted_s"] / its["measured_s"],
        joules=lambda its: its["shipped_j"] / its["measured_j"],
    )
    large, small = steps.query("model == 'resnet50'"), steps.query("model == 'shufflenetv2'")
    assert large.query("batch >= 64")["seconds"].between(0.92, 1.0).all()
    assert small.query("batch <= 128")["measured_s"].between(0.038, 0.044).all()
    assert small["seconds"].max() < 0.5
    assert (1.0 / large["watts"]).round(2).agg(["min", "max"]).tolist() == [0.87, 0.91]
    assert (1.0 / small["watts"]).round(2).agg(["min", "max"]).tolist() == [0.16, 0.78]
    assert steps["watts"].max() == pytest.approx(6.4, abs=0.05)
    assert steps["shipped"].max() == pytest.approx(7.7, abs=0.05)
    assert large["joules"].between(1 / 1.4, 1.4).all()
    assert small["joules"].max() < 1.0
    assert (small["measured_j"] / small["limit_j"]).max() == pytest.approx(10.0, abs=0.5)

    networks = recorded.power_networks
    assert len(power.published_rows()) == networks["rows"].sum() == networks["inside"].sum() == 208
    assert networks["inside_as_busy"].sum() == 145
    assert networks.query("model == 'ncf'")["inside_as_busy"].sum() == 0
    v100 = networks.query("gpu == 'v100'")
    assert v100["least_w"].min() / 250 == pytest.approx(1 / 7, abs=0.01)
    assert v100["most_w"].max() / 250 == pytest.approx(0.9, abs=0.02)

    held = recorded.power_held_out
    off = {
        name: np.exp(np.abs(np.log(held[name] / held[f"measured_{name[-1]}"])))
        for name in ("predicted_s", "one_w", "share_w", "one_j", "share_j")
    }
    again = (held["behind"] == power.OTHER_BATCHES) & (held["model"] == "shufflenetv2")
    assert off["share_j"][again].max() < 1.255 and off["one_j"][again].max() > 3.25
    another = held["behind"] == power.OTHER_MODEL
    for model in power.IMAGES:
        its = another & (held["model"] == model)
        assert off["share_w"][its].median() < off["one_w"][its].median()
        assert off["share_j"][its].median() > off["one_j"][its].median()
        assert off["predicted_s"][its].median() == pytest.approx(2.0, abs=0.3)
    worst = off["predicted_s"][again].idxmax()
    assert held.loc[worst, "batch"] == 256 and off["predicted_s"][worst] < 1.34
    assert held["predicted_s"][worst] > held["measured_s"][worst]
    assert held["measured_j"].between(held["low_j"], held["high_j"]).mean() > 0.95


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


def test_a_model_by_its_own_profile(recorded: Results) -> None:
    """Recorded as the code predicts it; narrower, and held by the network that does not wait."""
    found = power.for_one_model(["p100"])

    its = recorded.for_one_model.query("gpu == 'p100'").reset_index(drop=True)
    pd.testing.assert_frame_equal(found, its, rtol=1e-3, check_dtype=False)
    table = recorded.for_one_model
    assert (table["high"] / table["low"] < table["any_high"] / table["any_low"]).all()
    inside = table["measured"].between(table["low"], table["high"])
    shares = inside.groupby(table["model"]).mean()
    assert shares["resnet50"] > 0.9 and shares["shufflenetv2"] < 0.8
