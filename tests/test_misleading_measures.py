"""Figures of measures that are not what they seem are warned of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import simfl
from simfl.assembly.assemble import assemble
from simfl.cli.app import app
from simfl.measures.privacy import Privacy
from simfl.runs.warning_rules import foreseen
from tests.algorithms.loops import scenario
from tests.small import SEMI_ASYNCHRONOUS, small


@pytest.mark.parametrize(("delta", "warned"), [(0.5, True), (0.25, True), (0.2, False)])
def test_a_delta_of_one_over_the_clients_means_nothing(
    delta: float, warned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With four clients 0.25 is the first delta that is too large; it is known before the run."""
    monkeypatch.setattr(Privacy, "__post_init__", lambda self: None)
    monkeypatch.setattr(Privacy, "released", lambda *given: 2.0)
    monkeypatch.setattr(Privacy, "sampled", lambda *given: 1.0)
    measures = [{"name": "privacy", "delta": delta}]
    part = {"name": "dp_fedavg", "clip": 1e-3}
    changes = {"stop": {"versions": 1}, "evaluate": {"measures": measures}}

    file = tmp_path / "private.yaml"
    file.write_text(scenario(part, **changes).to_yaml())

    checked = CliRunner().invoke(app, ["validate", str(file)]).stdout.splitlines()
    run = simfl.run(file, tmp_path / "run")

    line = 1 + next(at for at, one in enumerate(file.read_text().splitlines()) if "delta:" in one)
    said = (
        f"{file}:{line}: evaluate.measures.0.delta: epsilon is at delta {delta:g}, which is not"
        " below one over the 4 clients (0.25): publishing all data of one of them would be"
        " equally private"
    )
    found = [one.message for one in run.warnings if one.kind == "meaningless_delta"]
    assert found == [said] * warned
    assert [one for one in checked if "epsilon is" in one] == [f"warning: {said}"] * warned


def test_a_delta_of_nothing_is_not_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """The measure has no figures of an algorithm without noise."""
    monkeypatch.setattr(Privacy, "__post_init__", lambda self: None)
    measures = [{"name": "privacy", "delta": 0.5}]

    found = foreseen(assemble(small(evaluate={"measures": measures})))

    assert "meaningless_delta" not in {one.kind for one in found}


@pytest.mark.parametrize(("association", "warned"), [("nearest", True), ("initial", False)])
def test_means_over_other_coalitions_are_warned_of(
    association: str, warned: bool, tmp_path: Path
) -> None:
    """The nearest edge servers of five clients are three of four."""
    run = simfl.run(
        small(
            seed=1,
            population={"edges": 4, "clients": 5},
            protocol=SEMI_ASYNCHRONOUS,
            decisions={"association": association},
            stop={"versions": 1},
            evaluate={"measures": ["coalition_stability"]},
        ),
        tmp_path / "run",
    )

    home = run.details("associate").iloc[0]["home_edges"]
    counts = [len(np.unique(edges)) for edges in (home, run.clients["edge"])]
    found = [one.message for one in run.warnings if one.kind == "other_coalitions"]
    assert counts == ([4, 3] if warned else [4, 4])
    said = "mean_js_before is over the pairs of 4 coalitions, mean_js_after over those of 3"
    assert [one.partition(":")[0] for one in found] == [said] * warned
