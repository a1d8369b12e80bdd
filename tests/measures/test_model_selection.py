"""The measure `model_selection`: settings and versions are chosen without the test set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import simfl
from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.measures.model_selection import ModelSelection
from simfl.provenance.results import FolderStore
from simfl.runs.execution import federation_of
from simfl.scenario.yaml_source.error import ScenarioError
from tests.measures.test_games import made, scores
from tests.small import small

HELD = {"name": "digits", "partition": "iid", "validation_share": 0.2}


def selecting(**changes: Any) -> simfl.Scenario:
    """A short run with the measure."""
    given: dict[str, Any] = {"data": HELD, "evaluate": {"measures": ["model_selection"]}}
    return small(**(given | changes))


def test_the_version_is_chosen_by_validation_and_judged_by_the_test_set() -> None:
    """The first of equally good ones; not the one with the best test accuracy."""
    held = scores("validation", [0.4, 0.8, 0.6, 0.8]).assign(loss=[4.0, 3.0, 1.0, 2.0])
    seen = pd.concat([scores("test", [0.5, 0.6, 0.9, 0.7]), held])

    assert ModelSelection().compute(made(evaluations=seen)) == {
        "validation_accuracy": 0.8,
        "validation_loss": 2.0,
        "best_validation_accuracy": 0.8,
        "test_accuracy_at_best": 0.6,
        "version_at_best": 2.0,
    }
    assert ModelSelection().compute(made(evaluations=scores("test", [0.5]))) == {}


@pytest.mark.parametrize(
    "changes",
    [{}, {"algorithm": "ditto"}, {"protocol": "asynchronous"}],
    ids=["synchronous", "models of their own", "asynchronous"],
)
def test_every_version_is_scored_on_the_examples_that_the_server_keeps(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    """As often as on the test set, and nothing else of the run changes."""
    run = simfl.run(selecting(**changes), tmp_path / "run")
    plain = simfl.run(selecting(**changes, evaluate={}), tmp_path / "plain")

    on = run.evaluations[run.evaluations["client"].isna()].groupby("on")["version"].apply(list)
    assert on["validation"] == on["test"]
    assert "validation" not in set(plain.evaluations["on"])
    pd.testing.assert_frame_equal(run.rounds, plain.rounds)
    found = run.manifest["measures"]["model_selection"]
    test = run.rounds.set_index("version")["accuracy"]
    assert found["test_accuracy_at_best"] == test[found["version_at_best"]]


def test_the_figure_is_the_models_accuracy_on_the_held_examples(tmp_path: Path) -> None:
    """Computed anew from the model that the run left and its own split of the data."""
    run = simfl.run(selecting(), tmp_path / "run")
    held = assemble(selecting()).partitioned.validation
    assert held is not None
    one = federation_of(run.path)
    outputs = one.network.call(one.weights, held.inputs, training=False)[0]

    right = float((outputs.argmax(dim=1) == held.targets).double().mean())
    assert run.manifest["measures"]["model_selection"]["validation_accuracy"] == right


def test_without_examples_of_the_server_it_is_refused() -> None:
    """With the key that makes them."""
    with pytest.raises(ScenarioError, match=r"data\.validation_share: found 0.*model_selection"):
        assemble(selecting(data={**HELD, "validation_share": 0.0}))


def test_a_store_filled_without_the_measure_serves_a_run_with_it(tmp_path: Path) -> None:
    """Trained updates are reused; scores on validation examples are computed."""
    shared = Options(store=FolderStore(tmp_path / "store"))
    plain = simfl.run(selecting(evaluate={}), tmp_path / "plain", shared)
    run = simfl.run(selecting(), tmp_path / "run", shared)

    assert np.array_equal(plain.rounds["accuracy"], run.rounds["accuracy"])
    assert run.manifest["counts"]["jobs_trained"] == 0
    assert (run.evaluations["on"] == "validation").sum() == len(run.rounds)
