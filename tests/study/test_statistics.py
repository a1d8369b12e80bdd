"""What is computed from a study's table: comparisons, fronts, effects and indices."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from simfl.study.comparisons import half_width, paired_differences, verdict
from simfl.study.effects import first_order_indices, main_effects
from simfl.study.levels import short_among, short_names
from simfl.study.means import factor_names, point_means
from simfl.study.pareto import pareto_front, study_front
from simfl.study.polynomial_chaos import explained_by_each


def table(**columns: object) -> pd.DataFrame:
    """A table of runs; `point` counts the settings where it is not given."""
    return pd.DataFrame(columns)


def test_a_comparison_by_hand() -> None:
    """Differences 1, 2, 3: mean 2, error 1/sqrt(3), t(0.975, 2) = 4.3027; the standard deviations
    are 1 and 2, so that the effect is 2 / sqrt(2.5), and 4/7 of it for three pairs."""
    runs = table(seed=[1, 2, 3] * 2, rule=["a"] * 3 + ["b"] * 3, y=[1.0, 2.0, 3.0, 2.0, 4.0, 6.0])

    one = paired_differences(runs, "y", "rule", "a").iloc[0]

    assert (one["rule"], one["pairs"], one["difference"]) == ("b", 3, 2.0)
    assert (one["baseline_mean"], one["mean"], one["relative"]) == (2.0, 4.0, 1.0)
    half = 4.302653 / math.sqrt(3)
    assert one[["ci_low", "ci_high"]].tolist() == pytest.approx([2 - half, 2 + half], rel=1e-6)
    assert one["effect_size"] == pytest.approx(2 / math.sqrt(2.5) * 4 / 7)
    expected = stats.ttest_rel([2.0, 4.0, 6.0], [1.0, 2.0, 3.0]).pvalue
    assert one["p_value"] == pytest.approx(expected)


def test_the_last_bits_of_sums_are_no_difference() -> None:
    """A steady one in 1e-15 is equal, one in 1e-9 is higher."""
    base = [1.0, 1.1, 1.2]
    for share, expected in ((1e-15, "equal"), (1e-9, "higher")):
        other = [value * (1 + share) for value in base]
        runs = table(seed=[1, 2, 3] * 2, rule=["a"] * 3 + ["b"] * 3, y=[*base, *other])
        one = paired_differences(runs, "y", "rule", "a").iloc[0]
        assert (one["verdict"], bool(one["difference"])) == (expected, expected == "higher")


def test_pairing_takes_out_what_pairs_share() -> None:
    """Under common random numbers the interval holds the spread of differences, not of runs; other
    factors pair as seeds do."""
    shared = np.linspace(0.0, 100.0, 10)
    runs = table(
        seed=[*range(5)] * 4,
        size=([1] * 5 + [2] * 5) * 2,
        rule=["a"] * 10 + ["b"] * 10,
        y=np.concatenate([shared, shared + 1.0 + 0.01 * np.cos(np.arange(10))]),
    )

    one = paired_differences(runs, "y", "rule", "a", ["size", "rule"]).iloc[0]

    assert (one["seeds"], one["pairs"]) == (5, 10)
    assert one["ci_high"] - one["ci_low"] < 0.02
    assert verdict(one["ci_low"], one["ci_high"]) == "higher"


def test_settings_of_a_seed_are_no_replications() -> None:
    """Three seeds with the differences 1, 2, 3 at each of two sizes say as much as at one size."""
    seeds = [1, 2, 3] * 2
    runs = table(
        seed=seeds * 2,
        size=([1] * 3 + [2] * 3) * 2,
        rule=["a"] * 6 + ["b"] * 6,
        y=[0.0, 0.0, 0.0, 5.0, 5.0, 5.0, 1.0, 2.0, 3.0, 6.0, 7.0, 8.0],
    )

    twice = paired_differences(runs, "y", "rule", "a", ["size", "rule"]).iloc[0]
    once = paired_differences(runs[runs["size"] == 1], "y", "rule", "a").iloc[0]

    same = ["seeds", "difference", "ci_low", "ci_high", "p_value"]
    assert twice[same].tolist() == once[same].tolist()
    assert (twice["pairs"], once["pairs"]) == (6, 3)
    effects = main_effects(runs, "y", ["size", "rule"]).set_index(["factor", "level"])
    assert effects.loc[("rule", "b"), "ci"] == pytest.approx(4.302653 / math.sqrt(3) / 2, rel=1e-6)


def test_the_spread_over_the_settings_of_a_seed_is_no_interval() -> None:
    """Differences 1 and 3 at two sizes of one seed: their mean, and not how sure it is."""
    runs = table(seed=[7] * 4, size=[1, 2] * 2, rule=["a", "a", "b", "b"], y=[0.0, 9.0, 1.0, 12.0])

    one = paired_differences(runs, "y", "rule", "a", ["size", "rule"]).iloc[0]

    assert (one["seeds"], one["pairs"], one["difference"]) == (1, 2, 2.0)
    assert one[["ci_low", "ci_high", "effect_size", "p_value"]].isna().all()
    assert one["verdict"] == "one seed"
    assert main_effects(runs, "y", ["size", "rule"])["ci"].isna().all()


def test_an_effect_size_takes_three_seeds() -> None:
    """Two have an interval and a verdict."""
    runs = table(seed=[1, 2] * 2, rule=["a", "a", "b", "b"], y=[1.0, 2.0, 3.0, 4.0])

    one = paired_differences(runs, "y", "rule", "a").iloc[0]

    assert (one["ci_low"], one["ci_high"], one["verdict"]) == (2.0, 2.0, "higher")
    assert math.isnan(one["effect_size"])


def test_pairs_with_a_missing_figure_are_left_out() -> None:
    """NaN on either side; a single pair has a difference and no interval."""
    runs = table(seed=[1, 2, 1, 2], rule=["a", "a", "b", "b"], y=[1.0, math.nan, 4.0, 5.0])

    one = paired_differences(runs, "y", "rule", "a").iloc[0]

    assert (one["pairs"], one["difference"]) == (1, 3.0)
    assert math.isnan(one["ci_low"]) and math.isnan(one["p_value"])
    assert verdict(one["ci_low"], one["ci_high"]) == "undecided"


def test_runs_that_cannot_be_paired_are_refused() -> None:
    """A factor that was forgotten, a column or a baseline that is not there."""
    runs = table(seed=[1, 1], rule=["a", "a"], y=[1.0, 2.0])

    with pytest.raises(ValueError, match="seed, rule do not tell the runs apart"):
        paired_differences(runs, "y", "rule", "a")
    with pytest.raises(ValueError, match="no column z"):
        paired_differences(runs, "z", "rule", "a")
    with pytest.raises(ValueError, match="no run has rule = c"):
        paired_differences(runs.iloc[:1], "y", "rule", "c")


def test_a_front_by_hand() -> None:
    """(3, 3) is bettered by (4, 2); equal points stay together; NaN is on no front."""
    points = table(accuracy=[5, 4, 3, 4, 1, math.nan], energy=[9, 2, 3, 2, 1, 0.0])

    front = pareto_front(points, {"accuracy": "max", "energy": "min"})

    assert front.tolist() == [True, True, False, True, True, False]


def test_a_front_of_three_objectives_by_force() -> None:
    """Against the definition, row by row."""
    values = stats.qmc.Sobol(3, rng=1).random(32)
    points = pd.DataFrame(values, columns=["a", "b", "c"])

    front = pareto_front(points, {"a": "max", "b": "min", "c": "max"})

    gains = values * [1, -1, 1]
    for row, is_on in zip(gains, front, strict=True):
        assert is_on == (not any((o >= row).all() and (o > row).any() for o in gains))


def test_a_studys_front_is_that_of_means() -> None:
    """A lucky seed puts nobody on the front."""
    runs = table(point=[0, 0, 1, 1], k=[1, 1, 2, 2], seed=[1, 2] * 2, y=[0.0, 10.0, 6.0, 6.0])

    assert study_front(runs, ["k"], {"y": "max"})["k"].tolist() == [2]


def test_means_and_their_intervals() -> None:
    """Mean over seeds and half of Student's interval; one run has none."""
    runs = table(point=[0, 0, 1], k=["x", "x", "y"], y=[1.0, 3.0, 7.0])

    means = point_means(runs, ["k"], ["y"])

    assert means[["k", "runs", "y"]].to_numpy().tolist() == [["x", 2, 2.0], ["y", 1, 7.0]]
    assert means["y_ci"][0] == pytest.approx(12.706205, rel=1e-6)
    assert math.isnan(means["y_ci"][1])


def additive() -> pd.DataFrame:
    """y = 10 a + 3 b + seed effect over a full factorial."""
    rows = [
        {"point": 3 * a + b, "a": a, "b": f"b{b}", "seed": seed, "y": 10 * a + 3 * b + 100 * seed}
        for a in (0, 1)
        for b in (0, 1, 2)
        for seed in (1, 2)
    ]
    return pd.DataFrame(rows)


def test_a_key_that_varies_alone_has_no_index() -> None:
    """It explains everything; in bins of several levels it explained nothing."""
    runs = pd.DataFrame(
        [
            (point, seed, rate, 1, (0.9 if rate < 1 else 0.1) + 0.01 * seed)
            for point, rate in enumerate([0.2, 100, 300, 1000, 3000, 10000])
            for seed in range(4)
        ],
        columns=["point", "seed", "rate", "other", "y"],
    )

    assert first_order_indices(runs, "y", ["rate", "other"]).empty
    assert len(first_order_indices(runs, "y", ["rate", "other"], sampled=["rate"])) == 1


def test_levels_of_a_grid_are_never_put_together() -> None:
    """Three levels by two, of which one setting is missing: the first key explains everything."""
    grid = [(a, b) for a in (1.0, 2.0, 3.0) for b in (0.0, 1.0)][:-1]
    runs = pd.DataFrame(
        [
            (point, seed, a, b, (a - 2.0) ** 2 + 0.001 * (seed - 1) * (-1) ** point)
            for point, (a, b) in enumerate(grid)
            for seed in range(3)
        ],
        columns=["point", "seed", "a", "b", "y"],
    )

    index = first_order_indices(runs, "y", ["a", "b"]).set_index("factor")["index"]

    assert index["a"] == pytest.approx(1.0, abs=0.01)


def test_main_effects_of_an_additive_model() -> None:
    """Exactly the model's, with intervals of width zero: seeds and other factors are blocked."""
    effects = main_effects(additive(), "y", ["a", "b"]).set_index(["factor", "level"])

    assert effects["effect"].tolist() == pytest.approx([-5.0, 5.0, -3.0, 0.0, 3.0])
    assert effects["ci"].tolist() == pytest.approx([0.0] * 5, abs=1e-9)
    assert effects["blocks"].tolist() == [6, 6, 4, 4, 4]


def test_main_effects_leave_out_incomplete_blocks() -> None:
    """A run that is missing takes its block with it, not the balance."""
    effects = main_effects(additive().iloc[1:], "y", ["a", "b"])

    assert effects["blocks"].tolist() == [5, 5, 3, 3, 3]
    assert effects["effect"].tolist() == pytest.approx([-5.0, 5.0, -3.0, 0.0, 3.0])


def test_indices_of_a_factorial() -> None:
    """For an additive model of independent factors they are shares of variance that sum to 1."""
    levels = np.array([(a, b) for a in range(8) for b in range(8)], dtype=float)
    runs = table(
        point=range(64), seed=[0] * 64, a=levels[:, 0], b=levels[:, 1], y=levels @ [2.0, 1.0]
    )

    found = first_order_indices(runs, "y", ["a", "b"]).set_index("factor")
    indices = found["index"]

    assert indices.tolist() == pytest.approx([0.8, 0.2])
    assert found[["low", "high"]].isna().all(axis=None)  # of one seed


def test_indices_of_a_small_factorial_with_noise() -> None:
    """Two levels of each of two factors: the mean over many studies is the share, 0 without."""
    rng = np.random.default_rng(0)
    grid = np.array([(a, b) for a in (0, 1) for b in (0, 1) for _ in range(4)], dtype=float)
    seeds = list(range(4)) * 4
    found = []
    for _ in range(100):
        noise = rng.normal(0.0, 3.0, 4)[seeds] + rng.normal(0.0, 0.2, 16)
        y = grid @ [1.0, 2.0] + noise
        runs = table(point=np.repeat(range(4), 4), seed=seeds, a=grid[:, 0], b=grid[:, 1], y=y)
        idle = runs.assign(y=2.0 * grid[:, 1] + noise)
        found.append([*first_order_indices(runs, "y", ["a", "b"])["index"]])
        found[-1] += first_order_indices(idle, "y", ["a", "b"])["index"].tolist()[:1]

    assert np.mean(found, axis=0) == pytest.approx([0.2, 0.8, 0.0], abs=0.01)


def test_the_index_of_a_key_without_influence_is_0_however_large_the_noise() -> None:
    """Two factors with two levels each, one of which matters as much as the seeds do."""
    rng = np.random.default_rng(0)
    grid = np.array([(a, b) for a in (0, 1) for b in (0, 1) for _ in range(4)], dtype=float)
    runs = table(point=np.repeat(range(4), 4), seed=[*range(4)] * 4, a=grid[:, 0], b=grid[:, 1])
    found = [
        first_order_indices(runs.assign(y=grid[:, 1] + rng.normal(size=16)), "y", ["a", "b"])
        for _ in range(100)
    ]

    idle = pd.DataFrame([one.iloc[0] for one in found])
    assert idle["index"].median() == pytest.approx(0.0, abs=0.1)
    assert (idle["low"] == 0.0).mean() >= 0.85
    # Where the seeds may be all that there is, nobody knows.
    unknown = idle[idle["index"].isna()]
    assert len(unknown) and (unknown["low"] == 0.0).all() and (unknown["high"] == 1.0).all()


@pytest.mark.parametrize(("sd", "seeds"), [(0.1, 3), (0.5, 3), (0.5, 10), (1.5, 5)])
def test_intervals_of_indices_hold_the_share_that_is_true(sd: float, seeds: int) -> None:
    """In a 4 x 4 grid: a key that explains four fifths, and one that explains everything but the
    seeds.

    The index of the latter was too low because of the variance between seeds, and its interval held
    in 10 to 60 %.
    """
    rng = np.random.default_rng(0)
    levels = np.repeat([(a, b) for a in range(4) for b in range(4)], seeds, axis=0) / 3.0
    runs = table(
        point=np.repeat(range(16), seeds), seed=[*range(seeds)] * 16, a=levels[:, 0], b=levels[:, 1]
    )
    for weights, true in (([2.0, 1.0], 0.8), ([2.0, 0.0], 1.0)):
        held = 0
        for _ in range(60):
            shared = np.tile(rng.normal(size=seeds), 16)
            y = levels @ weights + shared + rng.normal(0.0, sd, len(runs))
            one = first_order_indices(runs.assign(y=y), "y", ["a", "b"]).iloc[0]
            held += one["low"] - 1e-9 <= true <= one["high"] + 1e-9
        assert held >= 49  # of 60: 90 % less two standard errors


def test_indices_of_the_ishigami_function() -> None:
    """Closed form (Ishigami and Homma 1990, a = 7, b = 0.1): 0.314, 0.442, 0, each within its
    interval."""
    unit = stats.qmc.Sobol(3, rng=5).random(4096)
    x = math.pi * (2 * unit - 1)
    y = np.sin(x[:, 0]) + 7 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])
    once = table(point=range(4096), seed=[0] * 4096, x1=x[:, 0], x2=x[:, 1], x3=x[:, 2], y=y)
    runs = pd.concat([once, once.assign(seed=1)])
    factors = ["x1", "x2", "x3"]

    indices = first_order_indices(runs, "y", factors, sampled=factors)

    expected = np.array([0.3139, 0.4424, 0.0])
    assert indices["index"].to_numpy() == pytest.approx(expected, abs=0.03)
    assert (indices["low"] - 0.02 <= expected).all() and (expected <= indices["high"] + 0.02).all()
    assert (indices["low"] >= 0.0).all()


@pytest.mark.parametrize("sampler", [stats.qmc.Sobol, stats.qmc.LatinHypercube])
@pytest.mark.parametrize(
    ("settings", "figure", "shares"),
    [
        (16, lambda x: 3.0 * x[:, 0] + x[:, 1], (0.9, 0.1, 0.0)),
        (64, lambda x: 3.0 * x[:, 0] + x[:, 1], (0.9, 0.1, 0.0)),
        (16, lambda x: (x[:, 0] - 0.5) ** 2 + 0.21 * x[:, 1], (0.6, 0.4, 0.0)),
        (32, lambda x: (x[:, 0] - 0.5) ** 2 + 0.21 * x[:, 1], (0.6, 0.4, 0.0)),
        (64, lambda x: np.sin(2 * math.pi * x[:, 0]) + 0.5 * (x[:, 1] > 0.5), (0.89, 0.11, 0.0)),
    ],
    ids=["lines", "lines, 64", "U", "U, 32", "wave and jump"],
)
def test_indices_of_samples_are_those_of_the_figure(
    sampler: type[stats.qmc.QMCEngine],
    settings: int,
    figure: Callable[[np.ndarray], np.ndarray],
    shares: tuple[float, ...],
) -> None:
    """Also of minor keys, and of one in whose middle the figure is lowest; intervals hold them."""
    names, found, seeds = ["a", "b", "c"], [], 3
    for number in range(30):
        rng = np.random.default_rng(number)
        x = np.repeat(sampler(3, seed=number).random(settings), seeds, axis=0)
        y = figure(x)
        runs = table(
            point=np.repeat(range(settings), seeds),
            seed=[*range(seeds)] * settings,
            **dict(zip(names, x.T, strict=True)),
            y=y + 0.2 * y.std() * rng.standard_normal(y.size),
        )
        found.append(first_order_indices(runs, "y", names, sampled=names).set_index("factor"))

    mean = sum(one["index"] for one in found) / len(found)
    holds = [
        sum(one["low"][name] - 0.01 <= share <= one["high"][name] + 0.01 for one in found)
        for name, share in zip(names, shares, strict=True)
    ]
    assert mean.tolist() == pytest.approx(shares, abs=0.06)
    assert min(holds) >= 24  # of 30: 90 % less two standard errors


def test_levels_beside_sampled_keys_do_not_look_like_chance() -> None:
    """Each point of a sample with each of two methods, which differ far more than the keys."""
    x = np.repeat(stats.qmc.Sobol(2, rng=1).random(16), 4, axis=0)
    method = np.tile([0.0, 0.0, 1.0, 1.0], 16)
    noise = 0.01 * np.random.default_rng(0).standard_normal(64)
    runs = table(
        point=np.repeat(range(32), 2),
        seed=[0, 1] * 32,
        method=np.where(method > 0, "new", "old"),
        a=x[:, 0],
        b=x[:, 1],
        y=2.0 * x[:, 0] + x[:, 1] + 10.0 * method + noise,
    )

    index = first_order_indices(runs, "y", ["method", "a", "b"], ["a", "b"]).set_index("factor")

    total = 25.0 + 5.0 / 12.0
    assert index["index"].tolist() == pytest.approx([4 / 12 / total, 1 / 12 / total], abs=2e-3)
    assert (index["high"] - index["low"] < 0.01).all()


def test_seeds_are_no_part_of_a_sampled_keys_share() -> None:
    """One key explains all that seeds do not, half of the variance of means of two; of integers."""
    found = []
    for number in range(60):
        rng = np.random.default_rng(number)
        unit = stats.qmc.LatinHypercube(2, rng=rng).random(24)
        x = np.repeat(np.column_stack([np.floor(4 * unit[:, 0]), unit[:, 1]]), 2, axis=0)
        means = np.array([0.0, 3.0, -3.0, 2.0])[x[:, 0].astype(int)]
        y = means + math.sqrt(2.0) * means.std() * rng.standard_normal(48)
        runs = table(point=np.repeat(range(24), 2), seed=[0, 1] * 24, a=x[:, 0], b=x[:, 1], y=y)
        found.append(first_order_indices(runs, "y", ["a", "b"], ["a", "b"])["index"].to_numpy())

    assert np.nanmedian(found, axis=0) == pytest.approx([1.0, 0.0], abs=0.12)


def test_where_all_may_be_noise_no_key_has_a_share() -> None:
    """The seeds leave more variance than there is."""
    key, values = np.arange(8.0), np.array([1.0, 0, 1, 0, 1, 0, 1, 0])

    assert np.isnan(explained_by_each(values, [key], [], noise=0.3)).all()
    assert np.isfinite(explained_by_each(values, [key], [], noise=0.2)).all()


def test_fewer_settings_than_terms_tell_nothing() -> None:
    """Four settings of three keys: all of [0, 1]."""
    x = np.repeat(stats.qmc.Sobol(3, rng=1).random(4), 2, axis=0)
    names = ["a", "b", "c"]
    runs = table(
        point=np.repeat(range(4), 2),
        seed=[0, 1] * 4,
        **dict(zip(names, x.T, strict=True)),
        y=x[:, 0],
    )

    found = first_order_indices(runs, "y", names, sampled=names)

    assert found["index"].isna().all()
    assert (found["low"] == 0.0).all() and (found["high"] == 1.0).all()


def test_an_index_of_a_grid_is_as_sure_as_its_seeds_agree() -> None:
    """Seeds that say the same: an interval of width zero, however unlike the settings are."""
    runs = additive()
    runs["b"] = runs["b"].str[1:].astype(int)

    one = first_order_indices(runs, "y", ["a", "b"]).set_index("factor").loc["a"]

    assert one["low"] == one["high"] == pytest.approx(one["index"])


def test_indices_are_of_means_over_seeds() -> None:
    """Variance between seeds is not variance of the settings; text factors have no index."""
    runs = additive()
    runs["b_number"] = runs["b"].str[1:].astype(int)

    indices = first_order_indices(runs, "y", ["a", "b_number", "b"])

    assert indices["factor"].tolist() == ["a", "b_number"]
    assert indices["settings"].tolist() == [6, 6]


@pytest.mark.parametrize(
    ("keys", "short"),
    [
        (["a.rate", "b.size"], ["rate", "size"]),
        (["a.rate", "b.rate"], ["a.rate", "b.rate"]),
        (["p.groups.0.link", "p.groups.1.link"], ["groups.0.link", "groups.1.link"]),
        (["p.groups.0.link", "p.link", "a.size"], ["groups.0.link", "p.link", "size"]),
        (["p.levels.0", "p.levels.1"], ["levels.0", "levels.1"]),
        (["link", "p.link"], ["link", "p.link"]),
        (["a.my_rate", "b.rate"], ["my_rate", "rate"]),
    ],
)
def test_names_of_keys_are_as_short_as_tells_them_apart(keys: list[str], short: list[str]) -> None:
    """A list's number is no name; every label of a key is that among all keys of the study."""
    assert short_names(keys) == short
    assert [short_among(key, keys) for key in keys] == short


def test_factors_are_found_in_a_table() -> None:
    """They stand between folder and status."""
    runs = table(point=[0], folder=["f"], variant=["a"], k=[1], status=["completed"], y=[0.0])

    assert factor_names(runs) == ["variant", "k"]


def test_rounding_is_no_effect_and_no_spread() -> None:
    """Sums that were added up in another order: 0 with 0 around it, and an interval of nothing."""
    last_bit = 1.0 + 2.0**-52
    runs = table(
        seed=[1, 2, 3] * 2,
        rule=["a"] * 3 + ["b"] * 3,
        y=[5.0, 5.1, 5.2 * last_bit, 5.0 * last_bit, 5.1, 5.2],
    )

    found = main_effects(runs, "y", ["rule"])

    assert found["effect"].tolist() == found["ci"].tolist() == [0.0, 0.0]
    assert half_width(np.array([0.1, 0.1 * last_bit, 0.1])) == 0.0
    assert half_width(np.array([0.1, 0.1 + 1e-9, 0.1])) > 0.0


@pytest.mark.parametrize("seeds", [2, 4])
def test_levels_that_are_booleans_are_compared_as_others(seeds: int) -> None:
    """pandas takes a list of two booleans for a mask of rows."""
    found = []
    for levels in ((False, True), ("off", "on")):
        table = pd.DataFrame(
            {
                "seed": [*range(seeds)] * 2,
                "rule": [levels[0]] * seeds + [levels[1]] * seeds,
                "energy_j": [1.0 + seed for seed in range(seeds)]
                + [3.0 + 1.1 * seed for seed in range(seeds)],
                "status": "completed",
            }
        )
        found.append(paired_differences(table, "energy_j", "rule", levels[0]).drop(columns="rule"))

    pd.testing.assert_frame_equal(*found)
    assert found[0]["difference"].item() > 1.9
