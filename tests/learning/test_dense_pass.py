"""Hand-written passes under custom losses: equal to the reference, whatever the other jobs are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from simfl.learning.batched import BatchedTrainer
from simfl.learning.job import LocalTraining, Recipe
from simfl.learning.kernels.dense_pass import Factors
from simfl.learning.kernels.mean_loss import mean_cross_entropy
from simfl.learning.kernels.row_cache import RowCache
from simfl.learning.minibatch import Minibatch
from simfl.learning.parameters import Parameters, squared_distance
from simfl.learning.sequential import SequentialTrainer
from simfl.learning.trainer import Loss, Trainer
from tests.learning.training import SIZES, assert_close, assert_same_bits, network, shards, submit

RECIPE = Recipe(LocalTraining(epochs=3, batch_size=8, learning_rate=0.1))


def many_uses(parameters: Parameters, batch: Minibatch) -> Tensor:
    """Each weight in two passes and beside them; features of three models; a gradient inside."""
    outputs, z = batch.features(parameters, batch.inputs, "3")
    plain = batch.mean_loss(outputs)
    own = {name: tensor.detach().requires_grad_() for name, tensor in parameters.items()}
    steep = batch.mean_loss(batch.forward(own, batch.inputs))
    slopes = torch.autograd.grad(steep.sum(), list(own.values()))
    along = {n: t + 0.3 * s for (n, t), s in zip(parameters.items(), slopes, strict=True)}
    fixed = batch.features(batch.start, batch.inputs, "3")[1]
    others = batch.features(batch.own, batch.inputs, "3")[1]
    again = batch.mean_loss(batch.forward(parameters, 0.5 * batch.inputs))
    uphill = batch.mean_loss(batch.forward(along, batch.inputs))
    apart = (((z - fixed) * (z + others)).sum(2) * batch.shares).sum(1)
    return plain + again + uphill + 0.1 * apart + 0.2 * squared_distance(parameters, batch.start)


def in_turns(parameters: Parameters, batch: Minibatch) -> Tensor:
    """The last layer alone in two of three steps, then the layers before it."""
    last = batch.step % 3 < 2
    model = {n: t if n.startswith("4.") == last else t.detach() for n, t in parameters.items()}
    return batch.mean_loss(batch.forward(model, batch.inputs))


def moving_target(parameters: Parameters, batch: Minibatch) -> Tensor:
    """A second model that differs in every step, made of new tensors."""
    between = {n: (t.detach() + batch.start[n]) / 2 for n, t in parameters.items()}
    outputs = batch.forward(parameters, batch.inputs) + batch.forward(between, batch.inputs)
    return batch.mean_loss(outputs)


def towards_descended(parameters: Parameters, batch: Minibatch) -> Tensor:
    """pFedMe's: towards where three steps on the batch lead."""
    found = batch.descended(parameters, parameters.keys(), steps=3, rate=0.2, pull=0.7)
    return squared_distance(parameters, found)


LOSSES: list[Loss] = [many_uses, in_turns, moving_target, towards_descended]


def results(trainer: Trainer, recipe: Recipe) -> list[Callable[[], object]]:
    """The results of one job per client, each with its own second model."""
    own = [trainer.network.initial(20 + client) for client in range(len(SIZES))]
    jobs = [submit(trainer, client, recipe, own=own[client]) for client in range(len(SIZES))]
    return [job.result() for job in jobs]


@pytest.mark.parametrize(
    ("loss", "optimizer"), [*[(loss, {}) for loss in LOSSES], (many_uses, {"momentum": 0.9})]
)
def test_passes_by_hand_are_the_references(loss: Loss, optimizer: dict[str, float]) -> None:
    """In float64, to 1e-9, of clients with 2 to 40 examples; with and without a proximal term."""
    recipe = replace(RECIPE, local=replace(RECIPE.local, **optimizer), proximal=0.3)
    net, data = network("relu_mlp"), shards()

    expected = results(SequentialTrainer(net, data, loss), recipe)

    for found, one in zip(results(BatchedTrainer(net, data, loss), recipe), expected, strict=True):
        assert_close(found, one)


@pytest.mark.usefixtures("products")
@pytest.mark.parametrize("loss", LOSSES)
def test_company_changes_no_bit(loss: Loss) -> None:
    """In float32: one at a time, in threes, and all together."""
    net, data = network("relu_mlp", torch.float32), shards()
    together = results(BatchedTrainer(net, data, loss), RECIPE)
    for cap in (1, 3):
        apart = results(BatchedTrainer(net, data, loss, cohort_cap=cap), RECIPE)
        for one, other in zip(apart, together, strict=True):
            assert_same_bits(one, other)


def test_gradients_by_hand_have_gradients_themselves() -> None:
    """First and second derivatives of a mean loss and of a distance, against differences."""
    generator = torch.Generator().manual_seed(0)
    one, two = (torch.randn(2, 3, 4, generator=generator).double() for _ in range(2))
    targets = torch.randint(0, 4, (2, 3), generator=generator)
    shares = torch.rand(2, 3, generator=generator).double()

    def loss(outputs: Tensor) -> Tensor:
        return mean_cross_entropy(outputs, targets, shares)

    def distance(left: Tensor, right: Tensor) -> Tensor:
        return squared_distance({"a": left, "b": 2 * left}, {"a": right, "b": right})

    left, right = one.requires_grad_(), two.requires_grad_()
    assert gradcheck(loss, left) and gradgradcheck(loss, left)
    assert gradcheck(distance, (left, right)) and gradgradcheck(distance, (left, right))
    for value in (loss(left), distance(left, right)):  # the two forms of a slope are one
        once, again = (
            torch.autograd.grad(value.sum(), left, retain_graph=True, create_graph=further)[0]
            for further in (False, True)
        )
        torch.testing.assert_close(once, again.detach(), rtol=0, atol=1e-12)


def test_a_row_is_computed_once_while_its_tensors_stay_what_they_are() -> None:
    """And again after one has changed; each time where they are not known to stay."""
    weight, passing = torch.ones(2, 3, 3), torch.ones(2, 3, 3)
    row_cache, calls = RowCache([weight], 4), []
    places, valid = torch.tensor([[0, 1], [2, 2]]), torch.tensor([[1, 1], [1, 0]])

    def taken(tensor: Tensor, value: float) -> Tensor:
        def compute() -> Tensor:
            calls.append(value)
            return torch.full((2, 2, 1), value)

        return row_cache.values([tensor], places, valid, compute)

    assert taken(weight, 1.0).unique().tolist() == [1.0]
    assert taken(weight, 2.0).unique().tolist() == [1.0]
    assert taken(weight.detach(), 3.0).unique().tolist() == [1.0]
    assert taken(weight.transpose(1, 2), 4.0).unique().tolist() == [4.0]
    assert taken(passing, 5.0).unique().tolist() == [5.0]
    weight.mul_(1.0)
    assert taken(weight, 6.0).unique().tolist() == [6.0]
    assert calls == [1.0, 4.0, 5.0, 6.0]


def test_factors_are_kept_for_whoever_asks_alone() -> None:
    """For exactly these tensors, and only while they are requested."""
    weight, slope = torch.ones(1, 2, 2), torch.ones(1, 3, 2)
    factors = Factors({"w": weight})

    assert factors.name(weight) == "w" and factors.name(weight.clone()) is None
    assert not factors.takes("w", slope, slope)
    with factors.kept():
        assert factors.takes("w", slope, slope) and not factors.takes(None, slope, slope)
    assert len(factors.found) == 1
