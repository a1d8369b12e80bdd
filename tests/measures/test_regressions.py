"""Measures over clients of a regression, some of whom have no R^2."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import simfl
from simfl.assembly.assemble import assemble
from simfl.pictures.report.of_run import report_run
from simfl.runs.runfolder import LoadedRun
from simfl.runs.warning_rules import foreseen
from simfl.scenario.scenario import Scenario
from simfl.study.rows import row
from tests.small import small


def regression(folder: Path, owners: dict[str, list[float]], **changes: object) -> Scenario:
    """Each owner's targets, learnt of inputs that have nothing to do with them."""
    targets = np.array([one for own in owners.values() for one in own], dtype=np.float32)
    inputs = np.sin(np.arange(2 * len(targets), dtype=np.float32)).reshape(-1, 2)
    names = [name for name, own in owners.items() for _ in own]
    test = {"x_test": inputs, "y_test": targets}
    np.savez(folder / "rows.npz", x_train=inputs, y_train=targets, client_train=names, **test)
    data = {"name": "npz", "path": str(folder / "rows.npz"), "partition": "natural"}
    return small(data=data, population={"clients": len(owners)}, stop={"versions": 1}, **changes)


SPREAD = [0.0, 1.0, 2.0, 3.0]
SOME = {"a": SPREAD, "b": [5.0, 1.0], "c": [2.0], "d": [1.0, 1.0, 1.0]}
NONE = {"a": [1.0], "b": [2.0], "c": [3.0, 3.0]}
MEASURES = {"measures": ["accuracy_spread", {"name": "equity", "of": "accuracy"}]}


def page(run: LoadedRun) -> str:
    """The report of a run."""
    return report_run(run, run.path / "report.html").read_text()


def test_clients_without_an_r2_are_left_out_and_told_of(tmp_path: Path) -> None:
    """Whatever is over clients is of the two who have one, and a warning says so."""
    run = simfl.run(regression(tmp_path, SOME, evaluate=MEASURES), tmp_path / "run")

    r2 = run.clients["served_accuracy"].to_numpy()
    assert np.isnan(r2).tolist() == [False, False, True, True]
    figures = run.manifest["measures"]
    assert figures["accuracy_spread"]["accuracy_worst"] == min(r2[:2]) < 0.0
    assert figures["equity"]["worst"] == min(r2[:2])
    assert figures["equity"]["mean"] == pytest.approx(sum(r2[:2]) / 2)
    assert figures["equity"]["variance"] == pytest.approx(((r2[0] - r2[1]) / 2) ** 2)
    assert row(run, {})["worst_client_accuracy"] == min(run.clients["global_accuracy"][:2])
    said = {one.kind: one.message for one in run.warnings}
    assert said["equal_targets_of_clients"].startswith("2 of 4 clients have one example, or")
    assert math.isnan(figures["equity"]["jain_index"])
    assert said["undefined_indices"].endswith(f"the worst is {min(r2[:2]):.4g}")
    report = page(run)
    assert "of the 2 of 4 clients who have one" in report
    assert "none where some are negative" in report


def test_where_no_client_has_an_r2_there_are_no_figures_of_it(tmp_path: Path) -> None:
    """Runs and reports come to their end."""
    run = simfl.run(regression(tmp_path, NONE, evaluate=MEASURES), tmp_path / "run")

    assert run.manifest["measures"] == {"accuracy_spread": {}, "equity": {}}
    assert math.isnan(row(run, {})["worst_client_accuracy"])
    assert "no client has one" in page(run)


def test_clients_who_all_have_an_r2_are_not_warned_of(tmp_path: Path) -> None:
    """Nor those of a classification with one label each."""
    all_spread = {"a": SPREAD, "b": SPREAD[::-1]}
    one_label = small(data={"partition": {"name": "labels_per_client", "labels": 1}})

    for scenario in (regression(tmp_path, all_spread), one_label):
        kinds = {one.kind for one in foreseen(assemble(scenario))}
        assert "equal_targets_of_clients" not in kinds


def test_shares_of_losses_are_numbers(tmp_path: Path) -> None:
    """None is negative."""
    measures = {"measures": [{"name": "equity", "of": "loss"}]}
    run = simfl.run(regression(tmp_path, SOME, evaluate=measures), tmp_path / "run")

    assert 0.0 < run.manifest["measures"]["equity"]["jain_index"] <= 1.0
    assert "undefined_indices" not in {one.kind for one in run.warnings}
