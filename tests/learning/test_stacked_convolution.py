"""Every form of a convolution of many jobs computes what torch computes for each job."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simfl.learning.kernels import stacked_convolution
from simfl.learning.kernels.convolution_windows import Windows
from simfl.learning.kernels.stacked_convolution import Convolution, Form, convolution_form
from simfl.learning.kernels.stacked_layers import Pass

FORMS: tuple[Form, ...] = ("matrix", "alone", "windows")
LAYERS: dict[str, tuple[dict[str, Any], tuple[int, int, int]]] = {
    "plain": ({"out_channels": 3, "kernel_size": 3}, (2, 6, 5)),
    "padded": ({"out_channels": 4, "kernel_size": 3, "padding": 1}, (4, 4, 4)),
    "padded unequally": ({"out_channels": 2, "kernel_size": 4, "padding": "same"}, (1, 5, 6)),
    "valid by name": ({"out_channels": 2, "kernel_size": 2, "padding": "valid"}, (3, 4, 4)),
    "strides": ({"out_channels": 3, "kernel_size": (3, 2), "stride": (2, 3)}, (1, 8, 9)),
    "dilated": ({"out_channels": 2, "kernel_size": 2, "dilation": (2, 3)}, (2, 7, 7)),
    "no bias": ({"out_channels": 5, "kernel_size": 1, "bias": False}, (3, 4, 3)),
    "one output": ({"out_channels": 2, "kernel_size": 4}, (2, 4, 4)),
}
JOBS, ROWS = 3, 4


def tensors(layer: nn.Conv2d, jobs: int, dtype: torch.dtype) -> dict[str, Tensor]:
    """Random weights of as many jobs, by name."""
    generator = torch.Generator().manual_seed(1)
    return {
        f"layer.{name}": torch.randn(jobs, *one.shape, generator=generator, dtype=dtype)
        for name, one in layer.named_parameters()
    }


def convolved(layer: nn.Conv2d, own: dict[str, Tensor], images: Tensor) -> Tensor:
    """(jobs, rows, channels, height, width) convolved in the form that `convolution_form` says."""
    outputs = Convolution("layer", layer)(
        Pass(own, torch.ones(images.shape[:2])), images.flatten(0, 1)
    )
    folded: Tensor = outputs
    return folded.unflatten(0, images.shape[:2])


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")  # by torch
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", LAYERS)
def test_every_form_is_the_convolution(
    name: str, form: Form, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outputs and all gradients are those of `F.conv2d` job by job, to 1e-12 in float64."""
    settings, shape = LAYERS[name]
    layer = nn.Conv2d(shape[0], **settings).double()
    monkeypatch.setattr(stacked_convolution, "convolution_form", lambda *_: form)
    own = tensors(layer, JOBS, torch.float64)
    generator = torch.Generator().manual_seed(2)
    images = torch.randn(JOBS, ROWS, *shape, generator=generator, dtype=torch.float64)
    leaves = [one.requires_grad_() for one in (images, *own.values())]

    found = convolved(layer, own, images)
    expected = torch.stack(
        [
            F.conv2d(
                images[job],
                own["layer.weight"][job],
                own["layer.bias"][job] if "layer.bias" in own else None,
                layer.stride,
                layer.padding,
                layer.dilation,
            )
            for job in range(JOBS)
        ]
    )

    slopes = torch.randn(expected.shape, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    for mine, torchs in zip(
        torch.autograd.grad((found * slopes).sum(), leaves),
        torch.autograd.grad((expected * slopes).sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(mine, torchs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", LAYERS)
def test_company_changes_no_bit_of_a_matrix_convolution(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float32 a job's outputs and gradients are the same alone and at any place in a stack."""
    settings, shape = LAYERS[name]
    layer = nn.Conv2d(shape[0], **settings)
    generator = torch.Generator().manual_seed(3)
    images = torch.randn(7, 5, *shape, generator=generator)
    monkeypatch.setattr(stacked_convolution, "convolution_form", lambda *_: "matrix")
    own = tensors(layer, 7, torch.float32)

    def results(first: int, last: int) -> list[Tensor]:
        leaves = [one[first:last].requires_grad_() for one in (images, *own.values())]
        named = dict(zip(own, leaves[1:], strict=True))
        outputs = convolved(layer, named, leaves[0])
        return [outputs, *torch.autograd.grad(outputs.square().sum(), leaves)]

    together = results(0, 7)
    for first, last in ((0, 1), (2, 4), (4, 5), (3, 7)):
        for mine, expected in zip(results(first, last), together, strict=True):
            assert torch.equal(mine, expected[first:last])


@pytest.mark.parametrize(
    ("shape", "out_channels", "kernel", "device", "form"),
    [
        ((1, 8, 8), 10, 5, "cpu", "matrix"),
        ((10, 4, 4), 20, 5, "cpu", "matrix"),
        ((1, 28, 28), 10, 5, "cpu", "alone"),
        ((10, 12, 12), 20, 5, "cpu", "alone"),
        ((64, 4, 4), 64, 3, "cpu", "alone"),  # a matrix too large for a cache
        ((4, 16, 16), 1, 1, "cpu", "alone"),  # a matrix of zeros for the most part
        ((10, 4, 4), 20, 5, "meta", "windows"),
        ((1, 28, 28), 10, 5, "meta", "windows"),
        ((64, 4, 4), 64, 3, "meta", "windows"),
    ],
)
def test_the_form_is_a_rule_of_shape_and_device(
    shape: tuple[int, int, int], out_channels: int, kernel: int, device: str, form: Form
) -> None:
    """On a CPU small images are a matrix and larger ones go alone; elsewhere all are windows.

    A device without data stands for an accelerator here.
    """
    layer = nn.Conv2d(shape[0], out_channels, kernel, padding=kernel // 2, device=device)

    assert convolution_form(layer, torch.empty(32, *shape, device=device)) == form


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")  # by torch
@pytest.mark.parametrize("name", LAYERS)
def test_windows_are_counted_as_they_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The values that memory is counted for are those that are laid out, forth and back."""
    settings, shape = LAYERS[name]
    layer = nn.Conv2d(shape[0], **settings)
    monkeypatch.setattr(stacked_convolution, "convolution_form", lambda *_: "windows")
    sizes: list[int] = []
    taken = Windows.taken

    def counted(windows: Windows, images: Tensor) -> Tensor:
        found = taken(windows, images)
        sizes.append(found[0].numel())
        return found

    monkeypatch.setattr(Windows, "taken", counted)
    own = tensors(layer, JOBS, torch.float32)
    stacked = Convolution("layer", layer)
    images = torch.ones(JOBS * ROWS, *shape, requires_grad=True)

    stacked(Pass(own, torch.ones(JOBS, ROWS)), images).sum().backward()

    assert sizes == [stacked.window_values, stacked.gradient_values]
