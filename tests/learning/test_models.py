"""Models: parameter counts of the papers, shapes, initial values, and users' own modules."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from simfl.learning.models.base import Model, as_module
from simfl.learning.models.cnn import Cnn
from simfl.learning.models.fedcure_cnn import FedCureCnn
from simfl.learning.models.lenet import LeNet
from simfl.learning.models.linear import Linear
from simfl.learning.models.mlp import Mlp
from simfl.learning.models.torchvision_model import TorchvisionModel
from simfl.learning.models.vgg11 import Vgg11

GREY, COLOUR, DIGIT = (1, 28, 28), (3, 32, 32), (1, 8, 8)


def count(module: nn.Module) -> int:
    """Number of parameters."""
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("model", "shape", "outputs", "expected"),
    [
        (FedCureCnn(), GREY, 10, 28_938),
        (LeNet(), COLOUR, 10, 62_006),
        (LeNet(), GREY, 10, 44_426),
        (Vgg11(), COLOUR, 10, 9_750_922),
        (Vgg11(width=0.25), COLOUR, 10, 611_434),
        (Mlp(), GREY, 10, 199_210),
        (Mlp(), COLOUR, 10, 656_810),
        (Mlp(hidden=(390, 390), activation="elu"), (2, 28, 28), 2, 765_182),
        (Mlp(hidden=()), (5,), 3, 18),
        (Linear(), (104,), 2, 210),
        (Linear(), DIGIT, 10, 650),
        (Cnn(), DIGIT, 10, 80 + 1168 + 650),
        (Cnn(channels=(4,), kernel=5, hidden=(7,)), DIGIT, 3, 104 + 4 * 16 * 7 + 7 + 24),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Model) else str(value),
)
def test_parameter_count(model: Model, shape: tuple[int, ...], outputs: int, expected: int) -> None:
    """As published, or counted by hand; and a row of inputs becomes a row of outputs."""
    module = model.build(shape, outputs)

    assert count(module) == expected
    assert module(torch.rand(2, *shape)).shape == (2, outputs)


@pytest.mark.parametrize(
    ("activation", "layer"), [("relu", nn.ReLU), ("elu", nn.ELU), ("tanh", nn.Tanh)]
)
def test_mlp_activation(activation: str, layer: type[nn.Module]) -> None:
    """One activation after each hidden layer, none at the end."""
    module = Mlp(hidden=(3, 4), activation=activation).build((2,), 1)

    assert [type(part) for part in module] == [
        nn.Flatten, nn.Linear, layer, nn.Linear, layer, nn.Linear
    ]  # fmt: skip


@pytest.mark.parametrize("model", [Cnn(), FedCureCnn(), LeNet(), Vgg11()])
def test_images_are_needed(model: Model) -> None:
    """A convolutional network refuses plain features."""
    with pytest.raises(ValueError, match=r"takes images .* found examples of shape \(5,\)"):
        model.build((5,), 2)


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (Cnn(channels=(2, 2, 2, 2)), DIGIT),
        (FedCureCnn(), (1, 3, 8)),
        (LeNet(), DIGIT),
        (Vgg11(), GREY),
    ],
)
def test_too_small_images_are_refused(model: Model, shape: tuple[int, ...]) -> None:
    """Where pooling leaves nothing, the error says so and gives the size."""
    with pytest.raises(ValueError, match=f"images of {shape[1]}x{shape[2]}.*leave nothing"):
        model.build(shape, 10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cnn(channels=()), "^channels: "),
        (lambda: Cnn(channels=(4, 0)), "^channels: "),
        (lambda: Cnn(kernel=4), "^kernel: found 4"),
        (lambda: Cnn(hidden=(0,)), "^hidden: "),
        (lambda: Mlp(hidden=(3, -1)), "^hidden: "),
    ],
)
def test_settings_that_fit_nothing(make: object, message: str) -> None:
    """Checks across a field's entries name the field first."""
    assert callable(make)
    with pytest.raises(ValueError, match=message):
        make()


def test_the_callers_seed_decides_the_initial_values() -> None:
    """Equal seeds give equal weights, others do not."""
    drawn = []
    for seed in (1, 1, 2):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            drawn.append(torch.cat([p.flatten() for p in LeNet().build(GREY, 10).parameters()]))

    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_vgg11_passes_its_input_through() -> None:
    """At the start the outputs still depend on the image: the signal does not fade with depth.

    With torch's default initial values the spread over images is about 4e-6.
    """
    with torch.random.fork_rng():
        torch.manual_seed(0)
        outputs = Vgg11().build(COLOUR, 10)(torch.rand(8, *COLOUR)).detach()

    assert float(outputs.std(0).mean()) > 0.01


def test_torchvision_model_by_name() -> None:
    """A classifier of torchvision with the number of classes asked for and random weights."""
    module = TorchvisionModel("resnet18").build(COLOUR, 10)

    assert count(module) == 11_689_512 - 990 * 513
    assert module(torch.rand(2, *COLOUR)).shape == (2, 10)


@pytest.mark.parametrize("architecture", ["resnet18", "mobilenet_v3_small"])
def test_torchvision_model_takes_grey_images(architecture: str) -> None:
    """Only the first convolution is adapted to the number of channels."""
    grey = TorchvisionModel(architecture).build((1, 32, 32), 10)
    colour = TorchvisionModel(architecture).build(COLOUR, 10)
    first, other = (
        next(layer for layer in module.modules() if isinstance(layer, nn.Conv2d))
        for module in (grey, colour)
    )

    assert grey.eval()(torch.rand(2, 1, 32, 32)).shape == (2, 10)
    assert (first.in_channels, other.in_channels) == (1, 3)
    for key in ("out_channels", "kernel_size", "stride", "padding", "padding_mode", "groups"):
        assert getattr(first, key) == getattr(other, key)
    assert first.bias is None and other.bias is None


def test_torchvision_model_suggests_a_name() -> None:
    """An unknown architecture is refused with the nearest one."""
    with pytest.raises(ValueError, match="found 'resnet81', did you mean 'resnet18'"):
        TorchvisionModel("resnet81").build(COLOUR, 10)


class Own(nn.Module):
    """A user's module that asks for the data's shape."""

    def __init__(self, input_shape: tuple[int, ...], outputs: int, width: int = 3) -> None:
        super().__init__()
        self.settings = (input_shape, outputs, width)


class Plain(nn.Module):
    """A user's module that knows its shape itself."""

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.settings = width


def make_plain(outputs: int) -> nn.Module:
    """A user's function that makes a module."""
    return Plain(outputs)


def test_a_named_model_is_built() -> None:
    """as_module of a model is its build."""
    assert count(as_module(Linear(), DIGIT, 10)) == 650


@pytest.mark.parametrize(
    ("model", "parameters", "expected"),
    [
        (Own, {}, (DIGIT, 10, 3)),
        (Own, {"width": 5}, (DIGIT, 10, 5)),
        (Own, {"outputs": 4}, (DIGIT, 4, 3)),
        (partial(Own, width=6), {}, (DIGIT, 10, 6)),
        (partial(Own, outputs=4), {}, (DIGIT, 4, 3)),
        (partial(Own, width=6), {"width": 7}, (DIGIT, 10, 7)),
        (Plain, {}, 3),
        (Plain, {"width": 8}, 8),
        (make_plain, {}, 10),
    ],
)
def test_a_users_module_gets_what_its_signature_asks_for(
    model: type[nn.Module], parameters: dict[str, int], expected: object
) -> None:
    """Shape and outputs are supplied where asked for and not set by the user."""
    module = as_module(model, DIGIT, 10, parameters)

    assert module.settings == expected


def test_unknown_parameters_of_a_users_module() -> None:
    """The error names the parameter and shows the signature."""
    with pytest.raises(ValueError, match=r"Plain: .*'depth'.*Plain\(width"):
        as_module(Plain, DIGIT, 10, {"depth": 2})


def test_only_modules_are_modules() -> None:
    """A callable that makes something else is refused."""
    with pytest.raises(ValueError, match=r"made a tuple, not a torch\.nn\.Module"):
        as_module(lambda outputs: (outputs,), DIGIT, 10)
