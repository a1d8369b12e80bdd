"""Measures of runs that have nothing to measure: nobody is served, nothing is spent."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import simfl
from tests.small import small

SERVED = [{"name": "equity", "of": "loss"}, {"name": "equity", "of": "accuracy"}]


@pytest.mark.parametrize(
    "changes",
    [{"algorithm": "none"}, {"stop": {"versions": None, "time_s": 1e-4}}],
    ids=["nothing is learned", "no version was made"],
)
@pytest.mark.parametrize("measure", ["accuracy_spread", *SERVED], ids=str)
def test_where_nobody_is_served_there_are_no_figures(changes, measure, tmp_path: Path) -> None:
    """The run ends normally, without figures of what clients were served."""
    run = simfl.run(small(evaluate={"measures": [measure]}, **changes), tmp_path / "run")

    assert run.manifest["status"] == "completed"
    assert list(run.manifest["measures"].values()) == [{}]


def test_of_no_energy_there_are_no_shares(tmp_path: Path) -> None:
    """Clients whose messages, computations and idling cost nothing: time has a share alone."""
    free = {
        "name": "paper",
        "clients": 4,
        "kappa": 0.0,
        "power_transmit_w": 0.0,
        "power_receive_w": 0.0,
    }
    scenario = small(population=free, algorithm="none", evaluate={"measures": ["waiting"]})

    figures = simfl.run(scenario, tmp_path / "run").manifest["measures"]["waiting"]

    assert 0.0 < figures["idle_time_share"] < 1.0
    assert math.isnan(figures["idle_energy_share"])


@pytest.mark.parametrize("length", [{"epochs": 2}, {"steps": 3}, {"share": 0.5}], ids=str)
def test_rewards_are_one_more_epoch_however_long_clients_train(length, tmp_path: Path) -> None:
    """Contributions and rewards of FedAvg's clients, for every way to say how much they train."""
    scenario = small(
        algorithm={"name": "fedavg", "local": {**length, "batch_size": 16}},
        stop={"versions": 1},
        evaluate={"measures": ["collaborative_fairness"]},
    )

    run = simfl.run(scenario, tmp_path / "run")

    assert run.clients["reward_accuracy"].between(0.0, 1.0).all()
    assert "reward_max" in run.manifest["measures"]["collaborative_fairness"]
