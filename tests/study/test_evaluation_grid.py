"""What a study says of evaluations that are far apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import simfl
from simfl.study.evaluation_grid import BETWEEN_S, between_evaluations_s, grid_sentences
from tests.small import small

TARGET = "time_to_accuracy_0.9_s"


def runs(apart_s: list[float], took_s: float = 10.0, **columns: Any) -> pd.DataFrame:
    """A run for each setting."""
    own = {"point": range(len(apart_s)), BETWEEN_S: apart_s, "time_s": 40.0, TARGET: took_s}
    return pd.DataFrame({**own, **columns})


@pytest.mark.parametrize(
    ("apart_s", "told"),
    [
        ([0.9, 0.9], False),
        ([1.1, 1.1], True),
        ([0.3, 0.6], True),
        ([0.2, 0.4], False),
        ([0.4, 0.55], False),
    ],
)
def test_a_coarse_or_unlike_grid_is_told(apart_s: list[float], *, told: bool) -> None:
    """From a tenth of the time on, or from a twentieth if settings are unlike."""
    found = grid_sentences(runs(apart_s), ["accuracy", TARGET])

    assert len(found) == told
    unlike = max(apart_s) > 1.5 * min(apart_s)
    assert all(("look slower" in one) == unlike for one in found)
    assert grid_sentences(runs(apart_s), ["accuracy"]) == []


@pytest.mark.parametrize(("apart_s", "told"), [([0.01, 0.05], True), ([0.02, 0.05], False)])
def test_many_more_evaluations_of_some_settings_are_told(
    apart_s: list[float], *, told: bool
) -> None:
    """However short they are: the best of five looks is higher than one. Accuracies are not."""
    found = grid_sentences(runs(apart_s), [TARGET])

    assert len(found) == told
    assert all("evaluated every 0.01 to 0.05 s" in one and "by chance" in one for one in found)
    assert grid_sentences(runs(apart_s), ["accuracy"]) == []


def test_a_run_without_the_target_counts_with_its_whole_time() -> None:
    """3 s are less than a tenth of its 40 s."""
    assert grid_sentences(runs([3.0], took_s=float("nan")), [TARGET]) == []
    assert grid_sentences(runs([5.0], took_s=float("nan")), [TARGET])


def test_the_seconds_between_evaluations(tmp_path: Path) -> None:
    """Of six versions every third is evaluated: half of the run apart."""
    run = simfl.run(small(stop={"versions": 6}, evaluate={"every": 3}), tmp_path / "run")

    assert between_evaluations_s(run) == pytest.approx(run.rounds["time_s"].iloc[-1] / 2)
