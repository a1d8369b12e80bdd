"""Accuracies of few test examples, in which all seeds agree, are no surer than that."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from simfl.study.comparable import caveat_sentences
from simfl.study.comparisons import paired_differences
from simfl.study.curves import mean_curve
from simfl.study.effects import main_effects
from simfl.study.few_test_examples import step_of
from simfl.study.figure_text import difference_in_cell, in_cell
from simfl.study.means import mean_interval, point_means


def _runs(base: list[float], own: list[float], examples: int = 10) -> pd.DataFrame:
    """Two settings with three seeds and more; every run has a loss of its own."""
    seeds = len(base)
    return pd.DataFrame(
        {
            "point": [0] * seeds + [1] * seeds,
            "seed": [*range(seeds)] * 2,
            "rule": ["base"] * seeds + ["own"] * seeds,
            "status": "completed",
            "reason": "versions reached",
            "accuracy": [*base, *own],
            "loss": np.linspace(0.1, 0.2, 2 * seeds),
            "test_examples": examples,
        }
    )


def test_three_times_ten_of_ten_is_not_always() -> None:
    """A deviation of half an example, Student's quantile of two degrees 4.303; it said 1 ±0."""
    (first, _) = point_means(_runs([1.0] * 3, [1.0] * 3), ["rule"], ["accuracy"]).to_dict("records")

    assert first["accuracy_low"] == pytest.approx(1.0 - 4.302653 * 0.05 / math.sqrt(3.0))
    assert in_cell(first, "accuracy") == "1.00 (0.88 to 1.00)"


def test_other_models_of_the_same_accuracy_are_not_equal() -> None:
    """Their losses differ. Models of the same losses are: a cap of the clock changes none."""
    runs = _runs([0.9] * 3, [0.9] * 3)
    (unsure,) = paired_differences(runs, "accuracy", "rule", "base").to_dict("records")
    twins = runs.assign(loss=[0.1, 0.2, 0.3] * 2)
    (sure,) = paired_differences(twins, "accuracy", "rule", "base").to_dict("records")

    half = 4.302653 * 0.1 / math.sqrt(2.0 * 3.0)
    assert (unsure["ci_low"], unsure["ci_high"]) == pytest.approx((-half, half))
    assert (unsure["verdict"], unsure["p_value"]) == ("undecided", 1.0)
    assert (sure["ci_low"], sure["ci_high"], sure["verdict"]) == (0.0, 0.0, "equal")


def test_one_example_more_with_every_seed_has_an_error_and_a_p() -> None:
    """Three seeds do not show it, five do; the p of differences without a spread was 0."""
    runs = _runs([0.8, 0.9, 0.7], [0.9, 1.0, 0.8])

    (one,) = paired_differences(runs, "accuracy", "rule", "base").to_dict("records")
    more = _runs([0.8, 0.9, 0.7, 0.8, 0.8], [0.9, 1.0, 0.8, 0.9, 0.9])
    (five,) = paired_differences(more, "accuracy", "rule", "base").to_dict("records")

    assert (difference_in_cell(one), one["verdict"]) == ("0.10 ±0.18", "undecided")
    assert one["p_value"] == pytest.approx(2.0 * stats.t.sf(math.sqrt(6.0), 2))
    assert math.isnan(one["relative_low"]) and five["verdict"] == "higher"


def test_effects_of_settings_that_agree_have_an_error() -> None:
    """Two settings with the same accuracy in every block: an effect of 0, with an error."""
    effects = main_effects(_runs([0.9] * 3, [0.9] * 3), "accuracy", ["rule"])

    assert effects["effect"].tolist() == [0.0, 0.0]
    assert effects["ci"].tolist() == pytest.approx([4.302653 * 0.05 / math.sqrt(3.0)] * 2)


def test_bands_of_curves_that_agree_have_a_width() -> None:
    """At every place that of three equal accuracies."""
    curve = np.array([0.0, 10.0]), np.array([0.5, 1.0])

    band = mean_curve([curve] * 3, "time_s", "accuracy", step=0.1)

    half = 4.302653 * 0.05 / math.sqrt(3.0)
    assert (band["accuracy_high"] - band["accuracy"]).tolist() == pytest.approx([half, 0.0])
    assert (band["accuracy"] - band["accuracy_low"]).tolist() == pytest.approx([half, half])


def test_one_model_has_one_accuracy() -> None:
    """Where no seed changes the loss nothing is left to chance; figures in no steps as before."""
    runs = _runs([0.9] * 3, [0.9] * 3).assign(loss=0.5)
    fine = _runs([0.91234] * 3, [0.91234] * 3)

    for one in (runs, fine):
        (first, _) = point_means(one, ["rule"], ["accuracy"]).to_dict("records")
        assert in_cell(first, "accuracy").endswith("±0")


@pytest.mark.parametrize(
    ("true", "seeds"), [(0.99, 3), (0.95, 3), (0.98, 2), (0.99, 10), (0.95, 5)]
)
def test_intervals_hold_the_share_as_often_as_they_say(true: float, seeds: int) -> None:
    """Ten test examples: Student's alone hold 0.99 with three seeds in 25 of 100 studies."""
    drawn = np.random.default_rng(0).binomial(10, true, (500, seeds)) / 10.0
    ends = np.array([mean_interval(one, "accuracy", step=0.1) for one in drawn])

    assert ((ends[:, 0] <= true) & (true <= ends[:, 1])).mean() >= 0.93


def test_answers_of_a_seeds_settings_that_agree_are_no_certainty() -> None:
    """Yes in one of two settings with every seed: a mean of 1/2 that had no width."""
    figure = "equilibrium_reached.reached"
    runs = pd.DataFrame(
        [
            (seed, rule, size, float(rule == "own" and size == 1))
            for seed in range(3)
            for rule in ("base", "own")
            for size in (1, 2)
        ],
        columns=["seed", "rule", "size", figure],
    )

    (one,) = paired_differences(runs, figure, "rule", "base", ["rule", "size"]).to_dict("records")

    assert (one["difference"], one["verdict"]) == (0.5, "undecided")


def _timed(figure: str, *settings: list[float]) -> pd.DataFrame:
    """Settings 0, 1, ... of runs that learn nothing, whose seconds differ."""
    rows = [
        (point, seed, value)
        for point, values in enumerate(settings)
        for seed, value in enumerate(values)
    ]
    table = pd.DataFrame(rows, columns=["point", "seed", figure])
    beside = {"time_s": np.linspace(10.0, 20.0, len(rows))} if figure != "time_s" else {}
    return table.assign(
        rule=table["point"], status="completed", reason="versions reached", loss=np.nan, **beside
    )


def test_counts_that_agree_may_be_one_more_with_other_seeds() -> None:
    """Highest staleness of three seeds each; it was "higher" by 1 ±0 with p = 0."""
    figure = "staleness_distribution.highest"
    runs = _timed(figure, [4.0] * 3, [5.0] * 3, [6.0, 6.0, 7.0])

    (first, *_) = point_means(runs, ["rule"], [figure]).to_dict("records")
    (second, third) = paired_differences(runs, figure, "rule", 0).to_dict("records")
    effects = main_effects(runs[runs["rule"] < 2], figure, ["rule"])
    of_three = main_effects(runs, figure, ["rule"]).set_index("level")["ci"]

    half = 4.302653 * 0.5 / math.sqrt(3.0)
    assert first[f"{figure}_ci"] == pytest.approx(half)
    assert (second["difference"], second["verdict"]) == (1.0, "undecided")
    assert second["ci_high"] == pytest.approx(1.0 + math.sqrt(2.0) * half)
    assert third["verdict"] == "higher" and third["p_value"] > 0.0
    assert effects["ci"].tolist() == [0.0, 0.0] and of_three[0] > 0.0


def test_counts_that_agree_in_one_setting_have_the_step_of_another() -> None:
    """No setting has both seeds that agree and seeds that differ."""
    figure = "staleness_distribution.highest"
    runs = _timed(figure, [4.0] * 3, [5.0, 6.0, 8.0])
    (first, _) = point_means(runs, ["rule"], [figure]).to_dict("records")
    assert first[f"{figure}_ci"] == pytest.approx(4.302653 * 0.5 / math.sqrt(3.0))


def test_seconds_without_noise_are_exact() -> None:
    """All seeds take as long in one setting, others with noise do not; nor do joules."""
    for figure in ("time_s", "waiting.idle_energy_j"):
        runs = _timed(figure, [5.0] * 3, [5.5, 6.5, 7.25])
        (first, second) = point_means(runs, ["rule"], [figure]).to_dict("records")
        assert first[f"{figure}_ci"] == 0.0 and second[f"{figure}_ci"] > 0.0

    ties = _timed("time_s", [5.0] * 3, [5.5, 5.5, 7.5])
    (first, _) = point_means(ties, ["rule"], ["time_s"]).to_dict("records")
    assert first["time_s_ci"] == pytest.approx(4.302653 * 1.0 / math.sqrt(3.0))


def test_a_difference_that_all_pairs_have_is_exact() -> None:
    """Seeds move a figure that never agrees, and a setting adds 2 to each."""
    runs = _timed("staleness", [1.5, 2.25, 3.0], [3.5, 4.25, 5.0])
    (one,) = paired_differences(runs, "staleness", "rule", 0).to_dict("records")
    assert (one["ci_low"], one["ci_high"], one["verdict"]) == (2.0, 2.0, "higher")


def test_counts_that_all_seeds_agree_in_are_named() -> None:
    """As no step is known; costs are not meant, nor runs that are alike."""
    asked = ["staleness", "bytes"]
    runs = _timed("staleness", [0.0] * 3, [1.5] * 3).assign(bytes=1000)

    assert caveat_sentences(runs, asked) == [
        "staleness: ±0 means that these seeds agree, not that others would: if 3 seeds agree, up"
        " to 63 % of all may differ (95 %)"
    ]
    assert caveat_sentences(runs.assign(time_s=10.0), asked) == []
    assert caveat_sentences(_timed("staleness", [0.0] * 3, [1.5, 1.5, 2.0]), asked) == []


def test_figures_that_all_seeds_agree_in_are_named() -> None:
    """A target that is met in the same version by three different models; seconds that no model
    decides are not meant, nor is one model."""
    target = "time_to_accuracy_0.9_s"
    runs = _runs([0.91, 0.92, 0.93], [0.94, 0.95, 0.96], 100).assign(
        **{target: 12.0, "time_s": 20.0}
    )
    asked = ["accuracy", "time_s", target]

    assert caveat_sentences(runs, asked) == [
        f"{target}: ±0 means that these seeds agree, not that others would: if 3 seeds agree, up"
        " to 63 % of all may differ (95 %)"
    ]
    assert caveat_sentences(runs.assign(loss=0.5), asked) == []
    lucky, ended = caveat_sentences(runs.assign(reason="accuracy reached 0.9"), asked)
    assert ended.startswith(f"time_s, {target}: ±0")
    assert lucky == (
        "accuracy: 6 of 6 runs stopped as soon as it was reached, so it is partly luck, and on"
        " other examples more likely lower"
    )


def test_versions_that_agree_get_the_interval_of_a_figure_in_steps() -> None:
    """Three seeds meet a target in the same version, others do not: no difference is certain."""
    target = "versions_to_accuracy_0.9"
    runs = _runs([0.91, 0.92, 0.93], [0.94, 0.95, 0.96], 100).assign(
        **{
            target: [12.0, 13.0, 14.0, 13.0, 14.0, 15.0],
            "versions": [12.0, 12.0, 12.0, 13.0, 15.0, 13.0],
        },
        reason="accuracy reached 0.9",
    )

    (one,) = paired_differences(runs, target, "rule", "base").to_dict("records")
    means = point_means(runs.assign(point=runs["rule"].eq("own")), ["rule"], ["versions"])
    alike = paired_differences(runs.assign(loss=0.5), target, "rule", "base")

    assert (one["difference"], one["verdict"]) == (1.0, "undecided")
    assert 0.0 < one["p_value"] < 1.0
    assert means["versions_ci"].iloc[0] == pytest.approx(4.303 * 0.5 / np.sqrt(3), rel=1e-3)
    assert (alike["verdict"].iloc[0], alike["p_value"].iloc[0]) == ("higher", 0.0)


@pytest.mark.parametrize(("seeds", "most"), [(2, 0.01), (3, 0.06), (5, 0.07)])
def test_of_equal_settings_in_steps_few_are_told_apart(seeds: int, most: float) -> None:
    """Whole numbers of versions: formerly one in ten with two seeds, each with a p-value of 0."""
    rng = np.random.default_rng(0)
    told = 0
    for _ in range(150):
        middle = rng.normal(20.0, 4.0, seeds)
        base, own = (np.round(middle + rng.normal(0.0, 1.0, seeds)) for _ in range(2))
        runs = _runs(list(base), list(own), 100).assign(
            versions=[*base, *own], reason="accuracy reached 0.9"
        )
        (one,) = paired_differences(runs, "versions", "rule", "base").to_dict("records")
        told += one["verdict"] in ("higher", "lower", "equal")

    assert told <= most * 150


def test_test_sets_of_different_sizes_keep_the_interval() -> None:
    """9 of 10, 10 of 11 and 9 of 10 are shares of examples, too: the step is that of the fewest."""
    examples = [10, 11, 10]
    runs = _runs([1.0] * 3, [1.0] * 3).assign(test_examples=examples * 2)
    mixed = _runs([0.9, 10 / 11, 0.9], [0.9, 10 / 11, 0.9]).assign(test_examples=examples * 2)

    assert step_of(runs, "accuracy") == step_of(mixed, "accuracy") == 0.1
