"""Models that get worse, stay unchanged or only guess: just beyond each limit, and within."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simfl
from simfl.assembly.simulation import Simulation
from simfl.common.notices import Notice
from simfl.protocols.run import Run
from simfl.runs.warning_rules import found
from tests.small import simulated, small

KINDS = ("loss_above_start", "constant_accuracy", "only_guesses")


@pytest.fixture(scope="module")
def short() -> tuple[Simulation, Run]:
    """A run of one version, whose row tests change."""
    return simulated(small(stop={"versions": 1}))


def told(simulation: Simulation, run: Run, **last: float | None) -> list[Notice]:
    """The warnings of a model that does not learn, of a run whose last row is changed."""
    rounds = run.publications.rounds
    rounds[-1] = {**rounds[-1], **last}
    return [one for one in found(simulation, run) if one.kind in KINDS]


@pytest.mark.parametrize(("times", "kinds"), [(1.0499, []), (1.0501, ["loss_above_start"])])
def test_a_loss_is_above_its_start_from_a_twentieth_more_on(
    short: tuple[Simulation, Run], times: float, kinds: list[str]
) -> None:
    """What is less may be noise."""
    simulation, run = short
    start = run.values.loss_at_start(run.all_clients.tolist())

    notices = told(simulation, run, accuracy=0.5, loss=times * start)

    assert [one.kind for one in notices] == kinds


@pytest.mark.parametrize(
    ("right_more", "times", "warned"),
    [(0, 1.0001, True), (0, 0.9999, False), (1, 1.0001, False), (-1, 1.0001, True)],
)
def test_a_model_only_guesses_up_to_what_a_guess_is_worth(
    short: tuple[Simulation, Run], right_more: int, times: float, warned: bool
) -> None:
    """One test example more than the most frequent class has, or a loss below the entropy, is
    more."""
    simulation, run = short
    counts = Counter(simulation.partitioned.data.test.targets.tolist())
    examples, most = sum(counts.values()), max(counts.values())
    shares = np.array(list(counts.values())) / examples
    entropy = float(-np.sum(shares * np.log(shares)))

    accuracy, loss = (most + right_more) / examples, times * entropy
    notices = told(simulation, run, accuracy=accuracy, loss=loss)

    assert [one.kind for one in notices] == ["only_guesses"] * warned
    for one in notices:
        assert f"its test accuracy {accuracy:.4g} is not above" in one.message
        assert f"class, {most / examples:.4g}, and its loss {loss:.4g} is not below" in one.message
        assert one.message.endswith(f"{entropy:.4g}")


@pytest.mark.parametrize("unknown", ["accuracy", "loss"])
def test_a_version_of_which_not_both_are_known_is_not_judged(
    short: tuple[Simulation, Run], unknown: str
) -> None:
    """An evaluation has both, or is none."""
    simulation, run = short

    assert not told(simulation, run, **{"accuracy": 0.0, "loss": 2.31, unknown: None})


@pytest.mark.parametrize(
    ("learning_rate", "kinds"),
    [(1.0, []), (5.0, ["only_guesses"]), (1000.0, ["loss_above_start"])],
)
def test_a_learning_rate_that_throws_the_model_away_is_told_once(
    learning_rate: float, kinds: list[str], tmp_path: Path
) -> None:
    """Between one that learns and one whose loss explodes the loss stays near that of guessing."""
    local: dict[str, Any] = {"local": {"learning_rate": learning_rate}}
    run = simfl.run(small(algorithm=local), tmp_path / "run")

    assert run.manifest["status"] == "completed"
    assert [one.kind for one in run.warnings if one.kind in KINDS] == kinds


def test_a_model_that_stays_as_it_was_is_told_once(tmp_path: Path) -> None:
    """It guesses, too."""
    still = {"local": {"learning_rate": 1e-12}}
    run = simfl.run(small(algorithm=still, stop={"versions": 5}), tmp_path / "run")

    assert [one.kind for one in run.warnings if one.kind in KINDS] == ["constant_accuracy"]


@pytest.mark.parametrize("changes", [{"task": "regression", "outputs": 1}, None])
def test_what_classifies_nothing_guesses_nothing(changes: dict[str, Any] | None) -> None:
    """A regression, and runs that learn nothing."""
    data = {"name": "synthetic", "partition": "iid", **(changes or {})}
    nothing = {"name": "none", "local": {"epochs": 1}}
    algorithm = {} if changes else {"algorithm": nothing}
    simulation, run = simulated(small(data=data, **algorithm, stop={"versions": 1}))

    assert not told(simulation, run, accuracy=0.0, loss=2.31)
