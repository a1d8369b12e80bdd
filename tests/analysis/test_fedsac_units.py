"""What is read off the log about FedSAC's hidden units."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from fedsac_experiments import SCENARIOS
from fedsac_units import allotment, concentration, last_importance, lorenz_curve

import simfl
from simfl.runs.runfolder import LoadedRun
from simfl.scenario.scenario import Scenario


@dataclass
class Logged:
    """A run with nothing but reports."""

    reports: dict[str, list[Any]]

    def details(self, kind: str) -> pd.DataFrame:
        """The reports, one row per round."""
        assert kind == "report"
        return pd.DataFrame(self.reports)


def logged(**reports: list[Any]) -> LoadedRun:
    """A run with these reports."""
    return cast(LoadedRun, Logged(reports))


def test_units_assigned_equally_often_satisfy_assumption_5() -> None:
    """Two clients, each unit with one of them per round, the other way round in the next."""
    run = logged(unit_holders=[[2, 1, 1, 1], [1, 2, 2, 2]], kept_parameters=[[10, 4], [10, 6]])

    found = allotment(run)

    assert found["assigned_cov"] == 0.0
    assert found["assigned_mean"] == found["assigned_least"] == 0.75
    assert (found["p_least"], found["p_most"]) == (0.5, 1.0)


def test_a_unit_that_only_the_best_client_has_breaks_assumption_5() -> None:
    """Shares 1, 1, 1/2, 1/2: mean 3/4, standard deviation 1/4."""
    run = logged(unit_holders=[[2, 2, 1, 1]] * 3, kept_parameters=[[10, 4]] * 3)

    found = allotment(run)

    assert found["assigned_cov"] == pytest.approx(1 / 3)
    assert found["always_assigned"] == 0.5
    assert (found["assigned_least"], found["assigned_most"]) == (0.5, 1.0)


def test_importance_of_the_last_computation_is_concentrated_or_not() -> None:
    """One of ten units has three quarters of the importance, and a negative one has none."""
    raw = [-3.0, *[1.0] * 2, *[0.0] * 4, 6.0, 0.0, 0.0]
    run = logged(importance=[[1.0] * 10, raw, []])

    found = concentration(run)

    assert last_importance(run) == pytest.approx([0, 12.5, 12.5, 0, 0, 0, 0, 75, 0, 0])
    assert found["top_tenth"] == pytest.approx(0.75)
    assert found["half_held_by"] == pytest.approx(0.1)
    assert found["without_importance"] == pytest.approx(0.7)


def test_where_no_unit_is_important_all_are_without_importance() -> None:
    """Submodels are cut as if all were equal; that units have importance is not said."""
    found = concentration(logged(importance=[[-1.0, 0.0, 0.0, -2.0]]))

    assert found["without_importance"] == 1.0
    assert (found["importance_gini"], found["top_tenth"]) == (0.0, 0.25)


def test_a_lorenz_curve_of_equal_units_is_the_diagonal() -> None:
    """And one of a single important unit lies on the axis until the end."""
    units, held = lorenz_curve(np.full(4, 25.0))
    assert held.tolist() == units.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert lorenz_curve(np.array([100.0, 0.0]))[1].tolist() == [0.0, 0.0, 1.0]


def test_a_run_says_who_holds_which_unit(tmp_path: Path) -> None:
    """Holders add up to what clients keep, and importance is in the log whenever it is new."""
    scenario = Scenario.from_yaml(
        SCENARIOS / "digits.yaml",
        [
            "stop.versions=3",
            "algorithm.importance_every=4",
            "evaluate.measures=[]",
            f"algorithm.contributions={{accuracy: {[0.1 * client for client in range(10)]}}}",
        ],
    )

    result = simfl.run(scenario, tmp_path / "run")

    report = result.details("report")
    for holders, kept in zip(report["unit_holders"], report["kept_units"], strict=True):
        assert sum(holders) == sum(map(sum, kept))
        assert max(holders) == len(kept) == 10
    # Two epochs a version: after four of them, that is at version 2.
    assert [len(one) for one in report["importance"]] == [80, 0, 80]
