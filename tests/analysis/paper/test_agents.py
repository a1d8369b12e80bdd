"""Figures of agents from losses that are given: utilities, ratios, blocking margins, prices."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from paper.agents import Served, fairness, pair_margin
from paper.experiments import Trial
from paper.prices import prices

RUN: Any = SimpleNamespace(manifest={"status": "completed"})


def served(name: str, losses: list[float], seed: int = 0) -> Served:
    """A run with this loss for every example of each agent; a half of it on the test shares."""
    train = [np.full(4, loss) for loss in losses]
    return Served(Trial("made", name, seed, RUN), train, [one / 2 for one in train])


def figures(*runs: Served, offset: float = 3.0) -> pd.Series:
    """By (name, figure)."""
    values = fairness(runs, {"made": offset})
    return values.set_index(["name", "figure"])["value"]


def test_figures_of_two_agents() -> None:
    """M = 3: FedAvg's utilities (2, 1), CoreFed's (1.5, 1.5)."""
    found = figures(served("fedavg", [1.0, 2.0]), served("corefed", [1.5, 1.5]))

    assert found["fedavg", "product"] == 2.0 and found["corefed", "product"] == 2.25
    assert found["corefed", "ratio"] == pytest.approx(2 / 1.5 + 1 / 1.5)
    assert found["corefed", "ratio_low"] == pytest.approx(found["corefed", "ratio_high"])
    assert found["corefed", "worst_off_gain"] == 0.5
    assert found["corefed", "test_mean"] == 2.25
    # of CoreFed's two agents the first gains 4/3 alone, times 1/2; both gain at least 2/3
    assert found["corefed", "blocking_margin"] == pytest.approx(1 / 3)
    assert found["fedavg", "blocking_margin"] == pytest.approx(1 - 1.5 / 2)


def test_each_row_withstands_fedavgs_model_alone_and_fedavg_corefeds() -> None:
    """Whatever other rows there are: the control's model lets a coalition block CoreFed's."""
    found = figures(
        served("fedavg", [1.0, 2.0]), served("corefed", [1.5, 1.5]), served("normalized", [1, 1])
    )

    assert found["corefed", "blocking_margin"] == pytest.approx(1 - 2 / 1.5)
    assert found["corefed", "blocking_margin_fedavg"] == pytest.approx(1 / 3)
    assert found["fedavg", "blocking_margin_fedavg"] == pytest.approx(1 - 1.5 / 2)
    assert found["normalized", "blocking_margin_fedavg"] == pytest.approx(1 / 2)
    assert np.isnan(pair_margin(np.array([0.0, 1.0]), np.array([1.0, 1.0])))


def test_what_a_part_of_the_agents_cannot_fall_below() -> None:
    """M = 3: two of three agents gain at most 2/3 of M over the better off of the two lowest."""
    found = figures(served("corefed", [1.0, 0.5, 0.25]), served("fedavg", [3.5, 0.5, 0.25]))

    assert found["corefed", "least_margin_possible"] == pytest.approx(1 - 2 / 3 * 3 / 2.5)
    assert np.isnan(found["fedavg", "least_margin_possible"])


def test_seeds_are_compared_with_themselves() -> None:
    """The baseline of another seed is not taken."""
    runs = [served("fedavg", [1.0], 0), served("fedavg", [2.0], 1), served("corefed", [1.0], 1)]

    values = fairness(runs, {"made": 3.0})

    assert values.query("figure == 'ratio'")["value"].tolist() == [0.5]


def test_ratios_need_positive_utilities() -> None:
    """Otherwise the core is undefined: NaN, but the other figures are still given."""
    found = figures(served("fedavg", [0.5, 0.5]), served("corefed", [0.5, 1.5]), offset=1.0)

    assert np.isnan(found["corefed", "ratio"]) and np.isnan(found["corefed", "blocking_margin"])
    assert found["corefed", "worst"] == -0.5


def test_a_price_is_what_was_spent_until_the_baselines_end() -> None:
    """The baseline ends at 2 after 30 s; the other is there after 40 s, a third one never."""
    table = {"time_s": [10.0, 20.0, 30.0], "energy_j": [1.0, 2.0, 3.0]}
    base = pd.DataFrame({**table, "worst": [0.0, 1.0, 2.0]})
    slow = base.assign(worst=[0.0, 1.0, 2.5], time_s=[20.0, 30.0, 40.0])
    never = base.assign(worst=0.0)

    found = prices({"base": base, "slow": slow, "never": never}, "base", ["worst"])

    assert found["base"] == {
        "worst_s": 30.0,
        "worst_j": 3.0,
        "worst_s_end": 30.0,
        "worst_j_end": 3.0,
        "seconds_to_worst": 1.0,
        "seconds_to_worst_end": 1.0,
        "joules_to_worst": 1.0,
        "joules_to_worst_end": 1.0,
        "reached_worst": 1.0,
    }
    assert found["slow"]["seconds_to_worst"] == pytest.approx(4 / 3)
    assert found["slow"]["joules_to_worst"] == 1.0
    assert np.isnan(found["never"]["seconds_to_worst"])
    assert found["never"]["reached_worst"] == 0.0
