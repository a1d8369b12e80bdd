"""Figures of measures that are not what they seem are warned of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import simfl
from simfl.measures.privacy import Privacy
from tests.algorithms.loops import scenario
from tests.small import SEMI_ASYNCHRONOUS, small


@pytest.mark.parametrize(("delta", "warned"), [(0.5, True), (0.25, True), (0.2, False)])
def test_a_delta_of_one_over_the_clients_means_nothing(
    delta: float, warned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four clients 0.25 is the first that is too large."""
    monkeypatch.setattr(Privacy, "__post_init__", lambda self: None)
    monkeypatch.setattr(Privacy, "released", lambda *given: 2.0)
    monkeypatch.setattr(Privacy, "sampled", lambda *given: 1.0)
    measures = [{"name": "privacy", "delta": delta}]
    part = {"name": "dp_fedavg", "clip": 1e-3}
    changes = {"stop": {"versions": 1}, "evaluate": {"measures": measures}}

    run = simfl.run(scenario(part, **changes), tmp_path / "run")

    found = [one.message for one in run.warnings if one.kind == "meaningless_delta"]
    said = f"epsilon is at delta {delta:g}, which is not below one over the 4 clients (0.25)"
    assert [one.partition(":")[0] for one in found] == [said] * warned


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
