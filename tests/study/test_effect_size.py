"""An effect size of few seeds is unsure, and says by how much."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from simfl.study import effect_size
from simfl.study.effect_size import effect_interval


@pytest.mark.parametrize("seeds", [3, 5, 10, 30])
@pytest.mark.parametrize("effect", [0.0, 0.5, 3.0])
def test_the_interval_holds_the_effect_as_often_as_it_says(seeds: int, effect: float) -> None:
    """Pairs with much and with little in common."""
    rng = np.random.default_rng(seeds)
    for common in (0.0, 0.9):
        held = []
        for _ in range(300):
            base, other = rng.normal(size=(2, seeds))
            own = common * base + math.sqrt(1.0 - common**2) * other + effect
            low, high = effect_interval(np.stack([base, own], axis=1), own - base, 0.95)
            held.append(low <= effect <= high)
        assert np.mean(held) >= 0.91


def test_of_opposite_pairs_it_is_that_of_noncentral_t() -> None:
    """Its ends are the effects under which so large a t has a probability of 2.5 %."""
    pairs = np.array([[0.0, 1.0], [1.0, 4.0], [2.0, 4.0]])
    differences = pairs[:, 1] - pairs[:, 0]

    ends = effect_interval(pairs, differences, 0.95)

    unit = differences.std(ddof=1) / math.sqrt(3.0)
    spread = math.sqrt(pairs.var(axis=0, ddof=1).mean())
    beyond = [stats.nct.cdf(differences.mean() / unit, 2, one * spread / unit) for one in ends]
    assert beyond == pytest.approx([0.975, 0.025], abs=1e-6)


def test_large_effects_have_the_same_interval_by_a_shorter_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The noncentral distribution of a t of millions would take minutes."""
    base = np.array([0.0, 1.0, 2.0, 3.0])
    own = base + np.array([40.0, 41.0, 42.0, 40.0])
    pairs = np.stack([base, own], axis=1)

    whole = effect_interval(pairs, own - base, 0.95)
    monkeypatch.setattr(effect_size, "LARGE", 10.0)

    assert effect_interval(pairs, own - base, 0.95) == pytest.approx(whole, rel=0.01)
    opposite = effect_interval(-pairs, base - own, 0.95)
    assert opposite == pytest.approx((-whole[1], -whole[0]), rel=0.01)
