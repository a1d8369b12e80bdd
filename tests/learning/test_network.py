"""A network: names, sizes, cost, initial weights, and which modules can be stacked."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor, nn

from simfl.learning.forms import trained_by
from simfl.learning.kernels import stacked_graph
from simfl.learning.kernels.stacked import StackedForward
from simfl.learning.kernels.stacked_graph import NotStackable
from simfl.learning.kernels.stacked_layers import Layer, linear
from simfl.learning.minibatch import plain_loss
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from tests.learning.training import IMAGE, MODELS, network


class RowMixing(nn.Module):
    """Centres a batch by hand: its rows meet."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs minus their mean over the rows."""
        return inputs - inputs.mean(0)


class Branching(nn.Module):
    """Chooses by value, which cannot be traced."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Doubles a batch with a positive sum."""
        return inputs * 2 if inputs.sum() > 0 else inputs


class NoisyWhenServed(nn.Module):
    """A linear model that adds noise in evaluation only."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits, with noise unless it trains."""
        outputs = self.map(inputs)
        return outputs if self.training else outputs + torch.randn_like(outputs)


class Tied(nn.Module):
    """One weight matrix under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6)
        self.second.weight = self.first.weight

    def forward(self, inputs: Tensor) -> Tensor:
        """Two layers, one matrix."""
        return self.second(self.first(inputs))


def test_names_and_size() -> None:
    """Parameters and persistent buffers are named; the step counter is not sent."""
    net = network("bn_mlp")

    assert net.parameter_names == (
        "1.weight", "1.bias", "2.weight", "2.bias", "4.weight", "4.bias",
    )  # fmt: skip
    assert net.buffer_names == ("2.running_mean", "2.running_var", "2.num_batches_tracked")
    assert net.size_bytes == 4 * (64 * 9 + 9 + 9 + 9 + 9 * 3 + 3 + 9 + 9)
    assert net.initial(0).keys() == {*net.parameter_names, *net.buffer_names}


def test_normalisation_goes_by_module_type() -> None:
    """BatchNorm tensors are found whatever their names; a layer called "bn" is not one."""
    module = nn.Sequential()
    module.add_module("bn", nn.Linear(64, 4))
    module.add_module("second", nn.BatchNorm1d(4))
    net = Network(lambda: module, (64,), Objective("classification"))

    assert net.normalisation == {
        "second.weight",
        "second.bias",
        "second.running_mean",
        "second.running_var",
        "second.num_batches_tracked",
    }


def test_initial_weights_follow_from_the_seed_alone() -> None:
    """The same seed gives the same bits, and torch's global generator is left as it was."""
    net = network("cnn")
    before = torch.random.get_rng_state()
    first, again, other = net.initial(1), net.initial(1), net.initial(2)

    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["0.weight"], other["0.weight"])


def test_forward_flops_of_a_known_model() -> None:
    """Two operations per multiply-add: a 3x3 convolution of 4 filters on 8x8, then 36 x 3."""
    net = network("cnn")

    assert net.forward_flops == 2 * (4 * 9 * 6 * 6 + 36 * 3)


def test_call_leaves_its_inputs_alone() -> None:
    """In training the moved running statistics are returned and the given ones untouched."""
    net = network("bn_mlp")
    start = net.initial(0)
    inputs = torch.randn(5, *IMAGE, generator=torch.Generator().manual_seed(0)).double()

    _, moved = net.call(start, inputs, training=True)
    _, still = net.call(start, inputs, training=False)

    assert torch.equal(start["2.running_mean"], torch.zeros(9, dtype=torch.float64))
    assert not torch.equal(moved["2.running_mean"], start["2.running_mean"])
    assert torch.equal(still["2.running_mean"], start["2.running_mean"])


@pytest.mark.parametrize("model", MODELS)
def test_the_usual_layers_are_stacked(model: str) -> None:
    """Linear, convolution, BatchNorm, pooling, activations, views and shortcuts have a form."""
    assert network(model).stackable


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (nn.Sequential(nn.Linear(6, 6), nn.RReLU()), r"^1 \(RReLU\) has no batched form$"),
        (
            nn.Sequential(nn.PReLU(), nn.Linear(6, 6), nn.PReLU(), nn.RReLU()),
            r"^0 \(PReLU\) .*; 2 \(PReLU\) .*; 3 \(RReLU\) has no batched form$",
        ),
        (RowMixing(), "differs from the module"),
        (Branching(), "cannot be traced"),
        (Tied(), "differs from the module"),
    ],
)
def test_what_cannot_be_stacked_says_why(module: nn.Module, reason: str) -> None:
    """Random layers, unknown layers, rows that meet, branches and tied weights go to the loop."""
    net = Network(lambda: module, (6,), Objective("regression"))

    with pytest.raises(NotStackable, match=reason):
        StackedForward(module, (6,))

    assert net.kernel_family == "loop"
    assert re.search(reason, str(net.not_stacked_because))


def test_a_form_whose_bits_depend_on_company_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """However close to the module it is."""

    def crowded(prefix: str, module: nn.Linear) -> Layer:
        form = linear(prefix, module)
        return lambda current, rows: form(current, rows) * (1 + 1e-7 * current.jobs)

    module = nn.Sequential(nn.Linear(6, 6), nn.Tanh())
    assert not StackedForward(module, (6,)).single_differs
    monkeypatch.setattr(stacked_graph, "linear", crowded)

    with pytest.raises(NotStackable, match="depend on the number of jobs"):
        StackedForward(module, (6,))


@pytest.mark.parametrize(("side", "family"), [(8, "stacked"), (28, "one_by_one")])
def test_large_images_are_convolved_one_by_one_on_a_cpu(side: int, family: str) -> None:
    """The kernel family depends on model, shape and device, not on whether it could be stacked."""
    net = Network(
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten()),
        (1, side, side),
        Objective("classification"),
    )

    assert net.kernel_family == family
    assert net.not_stacked_because is None
    form = "matrix" if family == "stacked" else "alone"
    rows = {row["what"]: row for row in trained_by(net, plain_loss, "batched")}
    assert (rows["jobs"]["form"], rows["convolution 0"]["form"]) == (family, form)
    assert ("gain nothing" in rows["jobs"]["why"]) == (family == "one_by_one")
    assert trained_by(net, plain_loss, "sequential")[0]["form"] == "loop"


def test_a_module_that_does_something_else_in_evaluation_is_not_stacked() -> None:
    """The batched form is traced in training, and would leave out what comes in evaluation."""
    net = Network(NoisyWhenServed, (6,), Objective("classification"), torch.float64)

    assert not net.stackable
    assert "differs from the module" in str(net.not_stacked_because)


def test_evaluation_draws_the_same_numbers_in_every_pass() -> None:
    """Whatever was drawn in between; torch's own generator goes on where it stood."""
    net = Network(NoisyWhenServed, (6,), Objective("classification"), torch.float64)
    parameters, inputs = net.initial(0), torch.ones(4, 6, dtype=torch.float64)
    before = torch.get_rng_state()

    first, _ = net.call(parameters, inputs, training=False)
    untouched = torch.equal(torch.get_rng_state(), before)
    torch.randn(5)
    second, _ = net.call(parameters, inputs, training=False)

    assert untouched
    assert torch.equal(first, second)
    assert not torch.equal(first, net.call(parameters, inputs, training=True)[0])
