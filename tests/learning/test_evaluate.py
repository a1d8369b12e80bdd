"""Losses and accuracies on the server's sets."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from simfl.learning import evaluate
from simfl.learning.datasets.base import Examples
from simfl.learning.evaluate import Evaluator, Metrics, mean_loss, outputs_of
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.learning.parameters import Parameters
from tests.learning.training import MODELS, network, shards


def moved(model: Parameters) -> Parameters:
    """The model with running statistics of its own, as after training."""
    return {
        name: tensor + 0.1 * tensor.numel() if "running" in name else tensor
        for name, tensor in model.items()
    }


def identity(task: str) -> Network:
    """A linear layer whose weights the test sets."""
    return Network(lambda: nn.Linear(2, 2, bias=False), (2,), Objective(task), torch.float64)  # type: ignore[arg-type] # one of the two tasks


def test_classification_metrics_by_hand() -> None:
    """Logits 0 for every class: loss ln 2; three of four labels are the first class."""
    examples = Examples(torch.ones(4, 2), torch.tensor([0, 0, 0, 1]))
    evaluator = Evaluator(identity("classification"), {"test": examples})

    metrics = evaluator.metrics([{"weight": torch.zeros(2, 2, dtype=torch.float64)}])

    assert metrics.accuracy == 0.75
    assert metrics.loss == pytest.approx(0.6931471805599453, abs=1e-12)


def test_regression_metrics_by_hand() -> None:
    """Predicting the inputs themselves is right; predicting the mean has R^2 of 0."""
    inputs = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
    evaluator = Evaluator(identity("regression"), {"test": Examples(inputs, inputs.clone())})

    right = evaluator.metrics([{"weight": torch.eye(2, dtype=torch.float64)}])
    mean = evaluator.metrics([{"weight": torch.zeros(2, 2, dtype=torch.float64)}])

    assert right == Metrics(loss=0.0, accuracy=1.0)
    assert mean == Metrics(loss=2.0, accuracy=0.0)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_regression_of_targets_that_are_all_the_same_has_no_r2(rows: int) -> None:
    """It was -inf, or of the last bits of their mean, and so was any mean over clients."""
    targets = torch.full((rows, 2), 0.1, dtype=torch.float64)
    evaluator = Evaluator(identity("regression"), {"test": Examples(torch.ones(rows, 2), targets)})

    metrics = evaluator.metrics([{"weight": torch.zeros(2, 2, dtype=torch.float64)}])

    assert metrics.loss == pytest.approx(0.02)
    assert math.isnan(metrics.accuracy)


@pytest.mark.usefixtures("products")
@pytest.mark.parametrize("model", MODELS)
def test_outputs_are_the_module_s_own(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float64 to 1e-12, whichever library multiplies, and however the rows are divided."""
    monkeypatch.setattr(evaluate, "ROWS_PER_PASS", 5)
    net = network(model)
    weights, inputs = moved(net.initial(3)), torch.cat([one.inputs for one in shards()])

    expected, _ = net.call(weights, inputs.to(net.dtype), training=False)

    found = outputs_of(net, weights, inputs)
    assert torch.allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_members_are_averaged_before_they_are_scored() -> None:
    """Several models are scored on the mean of their outputs, not on the mean of their scores."""
    inputs = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
    evaluator = Evaluator(identity("regression"), {"test": Examples(inputs, inputs.clone())})
    zero, double = (scale * torch.eye(2, dtype=torch.float64) for scale in (0.0, 2.0))

    metrics = evaluator.metrics([{"weight": zero}, {"weight": double}])

    assert metrics == Metrics(loss=0.0, accuracy=1.0)


def test_evaluation_uses_running_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    """In evaluation rows do not meet: passes of three rows give what one pass gives."""
    net = network("bn_cnn")
    data = shards((10,))[0].cast(torch.float64)
    whole = mean_loss(net, net.initial(5), data)
    monkeypatch.setattr(evaluate, "ROWS_PER_PASS", 3)

    assert mean_loss(net, net.initial(5), data) == pytest.approx(whole, abs=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_models_evaluated_together_are_those_evaluated_alone(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float64 to 1e-12, in whatever passes, with and without a batched form."""
    net = network(model)
    monkeypatch.setattr(net.stacked, "convolves", True)
    evaluator = Evaluator(net, {"test": shards((37,))[0]})
    models = [moved(net.initial(seed)) for seed in range(11)]
    served = [[one] for one in models] + [models[2:5], models[3:4], models]

    found = evaluator.metrics_of_each(served)

    assert len(found) == len(served)
    for metrics, members in zip(found, served, strict=True):
        expected = evaluator.metrics(members)
        assert metrics.loss == pytest.approx(expected.loss, rel=1e-12)
        assert metrics.accuracy == expected.accuracy


@pytest.mark.parametrize("model", ["cnn", "bn_cnn", "residual", "mlp"])
def test_company_changes_no_bit_of_an_evaluation(model: str) -> None:
    """In float32 a model's figures are the same whatever else is evaluated with it."""
    net = network(model, torch.float32)
    evaluator = Evaluator(net, {"test": shards((37,))[0]})
    models = [moved(net.initial(seed)) for seed in range(11)]

    together = evaluator.metrics_of_each([[one] for one in models])

    for some in (models[:1], models[3:5], models[4:]):
        first = next(place for place, one in enumerate(models) if one is some[0])
        found = evaluator.metrics_of_each([[one] for one in some])
        assert found == together[first : first + len(some)]


def test_a_model_served_to_many_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Players' models, all of which every client is served, are not run once per client."""
    net, runs = network("mlp"), []

    def counted(*arguments: Any) -> torch.Tensor:
        runs.append(arguments)
        return outputs_of(*arguments)

    monkeypatch.setattr(evaluate, "outputs_of", counted)
    models = [net.initial(seed) for seed in range(3)]

    found = Evaluator(net, {"test": shards()[0]}).metrics_of_each(
        [dict(model) for model in models] for _ in range(8)
    )

    assert len(runs) == 3
    assert len(set(found)) == 1


def test_what_members_have_in_common_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A representation once per chunk, a predictor that stood in the call before not at all."""
    net, examples, layers = network("relu_mlp"), shards()[0], []

    def counted(inputs: torch.Tensor, weight: torch.Tensor, *bias: Any) -> torch.Tensor:
        layers.append(tuple(weight.shape))
        return torch.addmm(*bias, inputs, weight.T) if bias[0] is not None else inputs @ weight.T

    monkeypatch.setattr(evaluate, "by_numpy", lambda device: False)
    phi = {name: one for name, one in net.initial(9).items() if name.startswith("1.")}
    members = [{**net.initial(seed), **phi} for seed in range(3)]
    alone = torch.stack([outputs_of(net, one, examples.inputs) for one in members])
    evaluator, calls = Evaluator(net, {"test": examples}), []
    together = torch.stack(list(evaluate.outputs_of_each(net, members, examples.inputs)))
    monkeypatch.setattr(torch.nn.functional, "linear", counted)
    for models in (members, [members[0], {**members[1], "4.weight": net.initial(5)["4.weight"]}]):
        evaluator.metrics(models)
        calls.append(layers.copy())
        layers.clear()

    assert torch.equal(together, alone)
    assert [one.count((13, 64)) for one in calls] == [1, 1]
    assert [one.count((8, 13)) for one in calls] == [3, 1]


def test_an_absent_set_is_named() -> None:
    """Asking for a set that the server does not hold says which it holds, and how to get one."""
    evaluator = Evaluator(network("linear"), {"test": shards()[0]})

    assert evaluator.num_examples() == 3
    with pytest.raises(ValueError, match=r"no validation set.*validation_share.*held: test"):
        evaluator.loss([network("linear").initial(0)], on="validation")


def test_bytes_are_cast_for_models_that_are_evaluated_together() -> None:
    """Small images whose convolutions are stacked, as those that are not."""

    def build() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 64, 3)
        )

    network = Network(build, (1, 8, 8), Objective("classification"))
    targets = torch.arange(20) % 3
    inputs = torch.arange(20 * 64, dtype=torch.uint8).reshape(20, 1, 8, 8)
    models = [[network.initial(seed)] for seed in range(2)]

    assert network.stacked is not None and network.stacked.convolves
    found, expected = (
        Evaluator(network, {"test": Examples(one, targets)}).metrics_of_each(models, "test")
        for one in (inputs, inputs.float())
    )
    assert found == expected
