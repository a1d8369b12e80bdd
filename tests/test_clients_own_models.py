"""Figures of what clients are served: of their test examples, and not mistaken for others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy
from typer.testing import CliRunner

import simfl
from simfl.assembly.assemble import assemble, partitioned_data
from simfl.cli.app import app
from simfl.runs.runfolder import LoadedRun
from simfl.scenario.scenario import Scenario
from simfl.study.comparisons import paired_differences
from simfl.study.reliability import reliability_sentences
from tests.small import small

SIZES = [1, 2, 5, 9, 40, 41, 80, 100]


def scenario(algorithm: str = "fedavg", share: float = 0.25, **changes: Any) -> Scenario:
    """Eight clients of known sizes, of whom one has a single example."""
    data = {"name": "digits", "partition": {"name": "exact_sizes", "sizes": SIZES}}
    local = {"epochs": 2, "batch_size": 16, "learning_rate": 0.1}
    return small(
        data={**data, "client_test_share": share},
        model="linear",
        algorithm={"name": algorithm, "local": local},
        evaluate={"measures": ["accuracy_spread"]},
        **changes,
    )


def kinds(run: LoadedRun) -> set[str]:
    """The kinds of a run's warnings."""
    return {one.kind for one in run.warnings}


def test_clients_keep_examples_that_they_do_not_train_with() -> None:
    """A share of each client's, at least one of two; without a share they have all."""
    kept, whole = partitioned_data(scenario()), partitioned_data(scenario(share=0.0))

    assert [len(one) for one in kept.client_tests] == [0, 1, 1, 2, 10, 10, 20, 25]
    assert kept.num_examples.tolist() == [1, 1, 4, 7, 30, 31, 60, 75]
    assert kept.label_counts.sum(axis=1).tolist() == kept.num_examples.tolist()
    assert whole.client_tests == [] and whole.num_examples.tolist() == SIZES
    for train, test, own in zip(kept.clients, kept.client_tests, whole.clients, strict=True):
        both, every = torch.cat([train.inputs, test.inputs]).flatten(1), own.inputs.flatten(1)
        assert sorted(both.tolist()) == sorted(every.tolist())
    assert kept.digest() != whole.digest()
    assert kept.digest() != replace(kept, client_tests=kept.client_tests[::-1]).digest()
    again = partitioned_data(scenario())
    assert again.digest() == kept.digest()


def test_the_share_is_of_every_client_to_the_end() -> None:
    """However large: a client always trains with something."""
    kept = partitioned_data(scenario(share=0.99))

    assert (kept.num_examples >= 1).all()
    assert [len(one) for one in kept.client_tests] == [size - 1 for size in SIZES]


def test_figures_at_clients_are_of_these_examples(tmp_path: Path) -> None:
    """By hand from the final model; a client without any has no figure."""
    run = simfl.run(scenario(), tmp_path / "run")

    weights = load_file(tmp_path / "run" / "model.safetensors")
    weight, bias = (weights[name] for name in sorted(weights, key=lambda one: -weights[one].dim()))
    tests = assemble(scenario()).partitioned.client_tests
    for client, own in enumerate(tests):
        accuracy, loss = run.clients.loc[client, ["served_accuracy", "served_loss"]]
        if not len(own):
            assert np.isnan(accuracy) and np.isnan(loss)
            continue
        outputs = own.inputs.flatten(1) @ weight.T + bias
        right = float((outputs.argmax(1) == own.targets).double().mean())
        assert accuracy == pytest.approx(right, abs=1e-9)
        assert loss == pytest.approx(float(cross_entropy(outputs, own.targets)), rel=1e-6)
    known = run.clients["served_accuracy"].dropna()
    assert run.manifest["measures"]["accuracy_spread"]["accuracy_worst"] == known.min()
    assert "tested_where_trained" not in kinds(run)


def test_training_examples_of_own_models_are_warned_of(tmp_path: Path) -> None:
    """Unless clients keep some for testing; and clients that never trained are told."""
    some = {"decisions": {"selection": {"name": "random", "count": 2}}}
    found = {
        (name, share): simfl.run(scenario(name, share, **some), tmp_path / f"{name}{share}")
        for name, share in (("standalone", 0.0), ("standalone", 0.25), ("fedavg", 0.0))
    }

    told = {key: kinds(run) for key, run in found.items()}
    assert {"tested_where_trained", "untrained_models"} <= told["standalone", 0.0]
    assert "tested_where_trained" not in told["standalone", 0.25]
    assert not {"tested_where_trained", "untrained_models"} & told["fedavg", 0.0]
    (untrained,) = (
        one for one in found["standalone", 0.25].warnings if one.kind == "untrained_models"
    )
    never = int((found["standalone", 0.25].clients["participations"] == 0).sum())
    assert never > 0 and untrained.message.startswith(f"{never} of 8 clients never trained")


def test_own_models_that_fit_their_clients_are_not_called_worse(tmp_path: Path) -> None:
    """On the whole test set, which is not theirs, their loss grows."""
    labels = {"name": "labels_per_client", "labels": 1}
    local = {"epochs": 20, "batch_size": 16, "learning_rate": 0.5}
    run = simfl.run(
        small(
            data={"name": "digits", "partition": labels, "client_test_share": 0.2},
            model="linear",
            algorithm={"name": "standalone", "local": local},
        ),
        tmp_path / "run",
    )

    assert run.rounds["loss"].iloc[-1] > 1.05 * np.log(10)
    assert not {"loss_above_start", "only_guesses", "constant_accuracy"} & kinds(run)


def test_rewards_are_parts_of_a_model_for_everybody() -> None:
    """CGSV's clients, and FedSAC's, are scored on the common task."""
    own = {"standalone", "ditto", "fedbn", "pfedme"}
    changes = ["data.validation_share=0.2", "data.partition=iid", "model={name: mlp, hidden: [8]}"]
    asked = {
        name: assemble(scenario(name).with_overrides(changes)).own_models
        for name in (*sorted(own), "cgsv", "fedsac", "fedavg")
    }

    assert {name for name, is_own in asked.items() if is_own} == own


def test_the_worst_client_is_one_that_is_served(tmp_path: Path) -> None:
    """Not by the server's model, which no client has."""
    study = {
        "name": "own",
        "scenario": scenario("standalone", 0.0),
        "points": {"grid": {"algorithm.name": ["standalone", "fedavg"]}},
        "seeds": [1, 2],
        "questions": {
            "metrics": ["accuracy", "worst_client_accuracy"],
            "compare": [{"factor": "algorithm.name", "baseline": "fedavg"}],
        },
    }
    table = simfl.study(study, tmp_path / "out", workers=1).table

    for _, one in table.iterrows():
        run = simfl.load_run(tmp_path / "out" / one["folder"])
        assert one["worst_client_accuracy"] == run.clients["served_accuracy"].min()
        spread = run.manifest["measures"]["accuracy_spread"]
        assert spread["accuracy_worst"] == one["worst_client_accuracy"]
    verdicts = {
        metric: paired_differences(table, metric, "algorithm.name", "fedavg")["verdict"].tolist()
        for metric in ("accuracy", "worst_client_accuracy", "time_s")
    }
    assert verdicts["accuracy"] == ["other models"]
    assert "other models" not in verdicts["worst_client_accuracy"] + verdicts["time_s"]


def test_compare_says_that_models_are_others(tmp_path: Path) -> None:
    """No difference of accuracies, and why; the summary has no interval of a mean of models."""
    for name in ("fedavg", "ditto"):
        run = simfl.run(scenario(name), tmp_path / name)
        sentences = " ".join(reliability_sentences(run))
        assert ("On other examples" in sentences) == (name == "fedavg")
        assert ("mean of clients' own models" in sentences) == (name == "ditto")

    said = CliRunner().invoke(app, ["compare", str(tmp_path / "fedavg"), str(tmp_path / "ditto")])

    text = " ".join(said.output.split())
    assert text.count("(other models)") == 3
    assert "other models: their accuracy is the mean over models" in text
