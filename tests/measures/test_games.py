"""Measures of games: equilibria, oscillations, shortcuts, gaps and masks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import simfl
from simfl.assembly.assemble import assemble
from simfl.learning.datasets.base import Examples
from simfl.learning.federation import Federation
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.learning.players import action_name, models_of, players_of
from simfl.learning.responses import class_probabilities
from simfl.measures.equilibrium_reached import EquilibriumReached, calibrated_threshold
from simfl.measures.lime_masks import LimeMasks, share_on
from simfl.measures.nash_gap import NashGap
from simfl.measures.oscillation import Oscillation, oscillation
from simfl.measures.spurious_reliance import SpuriousReliance
from simfl.runs.execution import federation_of
from simfl.scenario.yaml_source.error import ScenarioError
from tests.small import small


def made(**tables: Any) -> Any:
    """A run that consists of these tables."""
    return SimpleNamespace(**tables)


def scores(on: str, accuracy: list[float]) -> pd.DataFrame:
    """Rows of `evaluations` of versions 1, 2, ..."""
    versions = range(1, 1 + len(accuracy))
    rows = {"version": versions, "on": on, "client": None, "accuracy": accuracy, "loss": 0.0}
    return pd.DataFrame(rows)


def test_a_swing_between_two_values() -> None:
    """0.8 and 0.6 in turn: steps of 0.2, amplitude 0.1, half a crossing per round."""
    found = oscillation(np.array([0.8, 0.6] * 50))

    assert found["step_std"] == pytest.approx(0.2, rel=1e-3)
    assert found["amplitude"] == pytest.approx(0.1)
    assert found["frequency_per_round"] == pytest.approx(49 / 99)


def test_a_slow_swing_has_small_steps_and_a_low_frequency() -> None:
    """A sine of 20 rounds: as far, but ten times less often."""
    rounds = np.arange(400)
    found = oscillation(0.7 + 0.1 * np.sin(2 * np.pi * (rounds + 0.5) / 20))

    assert found["frequency_per_round"] == pytest.approx(1 / 20, rel=0.06)
    assert found["amplitude"] == pytest.approx(0.1, rel=0.03)
    assert found["step_std"] == pytest.approx(0.1 * 2 * np.pi / 20 / 2**0.5, rel=0.01)


def test_rounds_at_the_start_may_be_left_out_and_short_runs_say_nothing() -> None:
    """Also of runs that have no training accuracy."""
    run = made(evaluations=scores("train", [0.1, 0.9, 0.5, 0.5, 0.5]))

    assert Oscillation(skip=2).compute(run)["step_std"] == 0
    assert Oscillation().compute(run)["step_std"] > 0.3
    assert np.isnan(Oscillation(skip=3).compute(run)["amplitude"])
    assert Oscillation().compute(made(evaluations=scores("test", [0.5]))) == {}


def test_a_calibrated_threshold_is_a_little_above_the_low_side() -> None:
    """5th percentile after the warm start, plus 0.02."""
    run = made(evaluations=scores("train", [0.0] * 10 + list(np.linspace(0.5, 0.7, 101))))

    assert calibrated_threshold(run, warm_start=10) == pytest.approx(0.51 + 0.02)
    with pytest.raises(ValueError, match="warm_start: found 200"):
        calibrated_threshold(run, warm_start=200)


def test_reliance_is_the_distance_that_flipping_makes() -> None:
    """For the last version that was evaluated on both."""
    both = pd.concat([scores("test", [0.7, 0.1]), scores("flipped", [0.7, 0.9])])

    assert SpuriousReliance().compute(made(evaluations=both)) == pytest.approx(
        {"test_accuracy": 0.1, "flipped_accuracy": 0.9, "reliance": 0.8}
    )
    assert SpuriousReliance().compute(made(evaluations=scores("test", [0.5]))) == {}


def game(**changes: Any) -> simfl.Scenario:
    """A short game of two clients on colored digits."""
    return small(
        dtype="float32",
        data={"name": "colored_digits", "partition": "natural"},
        model={"name": "mlp", "hidden": [8]},
        population={"clients": 2},
        algorithm={"name": "fl_games", "equilibrium": {"threshold": 1.0, "warm_start": 3}},
        stop={"versions": 9},
        evaluate={
            "every": 2,
            "measures": ["equilibrium_reached", "spurious_reliance", "nash_gap", "oscillation"],
        },
        **changes,
    )


def test_a_run_says_what_its_equilibrium_took(tmp_path: Path) -> None:
    """Its last round's figures; the measures stand in the manifest."""
    run = simfl.run(game(), tmp_path / "run")
    found = run.manifest["measures"]
    last = run.rounds.iloc[-1]

    settled = found["equilibrium_reached"]
    assert (settled["reached"], settled["rounds"]) == (1.0, 4.0)
    assert settled["bytes"] == last["bytes"] and settled["time_s"] == last["time_s"]
    assert settled["test_accuracy"] == last["accuracy"]
    train = (run.clients["served_accuracy"] * run.clients["num_examples"]).sum()
    assert settled["train_accuracy"] == pytest.approx(train / run.clients["num_examples"].sum())
    assert 0 < found["nash_gap"]["nash_gap_mean"] <= found["nash_gap"]["nash_gap"]
    assert found["spurious_reliance"]["reliance"] >= 0
    assert EquilibriumReached().compute(made(evaluations=scores("test", [0.5]))) == {}


def scalars(*weights: float) -> Federation:
    """The game of two scalars with optima 1 and 2: loss ((w1 + w2)/2 - a_k/2)^2."""
    network = Network(
        lambda: nn.Linear(1, 1, bias=False), (1,), Objective("regression"), torch.float64
    )
    held = {
        action_name(player, "weight"): torch.tensor([[weight]], dtype=torch.float64)
        for player, weight in enumerate(weights)
    }
    agents = [
        Examples(torch.ones(1, 1), torch.tensor([[optimum / 2]], dtype=torch.float64))
        for optimum in (1.0, 2.0)
    ]
    return Federation(network, held, agents)


def test_the_gap_of_the_scalar_game_is_what_players_can_gain() -> None:
    """At (0, 0) 1/4 and 1; at the equilibrium (-4, 5) nothing inside the box."""
    measure = NashGap(steps=400, learning_rate=0.05, bound=5.0)
    rng = np.random.default_rng(0)

    assert measure.gains(scalars(0.0, 0.0), rng) == pytest.approx([0.25, 1.0], abs=1e-3)
    assert measure.gains(scalars(-4.0, 5.0), rng) == pytest.approx([0.0, 0.0], abs=1e-9)
    unbounded = NashGap(steps=400, learning_rate=0.05).gains(scalars(-4.0, 5.0), rng)
    assert unbounded == pytest.approx([0.0, 0.25], abs=1e-3)


def test_a_response_far_away_is_found_by_default() -> None:
    """1 and 2 from where the players stand: 50 steps of Adam move 0.05 and find a tenth of it."""
    gains = NashGap().gains(scalars(0.0, 0.0), np.random.default_rng(0))
    bounded = NashGap(bound=0.5).gains(scalars(0.0, 0.0), np.random.default_rng(0))

    assert gains == pytest.approx([0.25, 1.0], rel=1e-6)
    # At w = 1/2 the losses are 1/16 and 9/16, of 1/4 and 1.
    assert bounded == pytest.approx([0.25 - 1 / 16, 1.0 - 9 / 16], rel=1e-6)


def test_a_common_model_has_no_players() -> None:
    """It is its own ensemble, and no game."""
    weights = {"weight": torch.ones(1, 1)}

    assert players_of(weights) == [] and models_of(weights) == [weights]
    federation = Federation(scalars(0.0).network, weights, [])
    assert NashGap().assess(made(), federation, np.random.default_rng(0)) == {}


def test_the_share_on_the_stroke_is_of_absolute_weight() -> None:
    """Segments that the stroke crosses anywhere count whole."""
    segments = np.array([[0, 0, 1], [2, 2, 1]])
    stroke = np.array([[False, True, False], [False, False, False]])

    assert share_on(np.array([-3.0, 1.0, 0.0]), segments, stroke) == 0.75
    assert np.isnan(share_on(np.zeros(3), segments, stroke))


def test_lime_says_which_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An optional extra, which is asked for before anything runs."""
    monkeypatch.setitem(__import__("sys").modules, "lime", None)
    with pytest.raises(ScenarioError, match=r"pip install 'simfl\[lime\]'"):
        assemble(small(evaluate={"measures": ["lime_masks"]}))


def test_lime_sees_what_a_model_looks_at(tmp_path: Path) -> None:
    """A model of one corner's colour has its weight there; images of more colours are left out."""
    pytest.importorskip("lime")
    run = simfl.run(game(), tmp_path / "run")
    federation = federation_of(run.path)
    network = federation.network
    weights = {name: torch.zeros_like(one) for name, one in federation.weights.items()}
    for player in (0, 1):
        first = weights[action_name(player, "1.weight")]
        first[0, 0:4] = 5.0  # the first row's left half, in the first channel
        weights[action_name(player, "3.weight")][0, 0] = 5.0
    image = np.zeros((2, 8, 8))
    image[0, :4, :4] = 1.0
    rows = np.stack([image, np.zeros_like(image)])
    sure, unsure = class_probabilities(network, weights, rows)[:, 0]

    measure = LimeMasks(samples=200, segments=4, images=2)
    found = measure.explain(network, weights, image, np.random.default_rng(0))

    assert sure > 0.99 and unsure == 0.5
    assert share_on(*found) > 0.9
    figures = measure.assess(run, federation, np.random.default_rng(0))
    assert set(figures) == {"on_stroke", "stroke_share"}
    assert 0 <= figures["on_stroke"] <= 1
