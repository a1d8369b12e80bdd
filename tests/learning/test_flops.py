"""Counting a model's floating-point operations."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from simfl.learning.flops import forward_flops
from tests.learning.test_stacked_forms import network as stacked_forms_network
from tests.learning.training import IMAGE, MODELS


class Twice(nn.Module):
    """One layer, used twice; and a convolution with everything that changes its size."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 6, (3, 2), stride=2, padding=1, dilation=2, bias=False)
        self.grouped = nn.Conv2d(6, 4, 2, groups=2)
        self.layer = nn.Linear(12, 12)

    def forward(self, inputs: Tensor) -> Tensor:
        """Images to numbers."""
        features = self.grouped(self.first(inputs)).flatten(1)
        return self.layer(self.layer(nn.functional.pad(features, (0, 12))[:, :12]))


@pytest.mark.parametrize("model", [*MODELS, "twice"])
def test_layers_count_what_operations_count(model: str) -> None:
    """Where products are those of layers, both counts are the same."""
    module = (Twice if model == "twice" else MODELS[model])()

    counts = [forward_flops(module, IMAGE, torch.float32, by_layers) for by_layers in (True, False)]

    assert counts[0] == counts[1] > 0


def test_products_outside_of_layers_are_counted() -> None:
    """A module that multiplies by itself is looked at operation by operation."""

    class Gram(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            rows = inputs.flatten(2)
            return rows @ rows.transpose(1, 2)

    assert forward_flops(Gram(), (3, 5), torch.float32, by_layers=False) == 2 * 3 * 5 * 3


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        # LENGTH 5, embeddings of 6; gates times inputs and state, and the last layer
        ("lstm", 2 * 5 * 4 * 7 * (6 + 7) + 2 * 14 * 3),
        ("gru", 2 * 5 * 3 * 7 * (6 + 7) + 2 * 14 * 3),
        # per layer: projections, two heads' scores and mixtures, two linear layers of 9
        ("encoder", 2 * (2 * 5 * (4 * 36 + 2 * 54) + 2 * 2 * 2 * 25 * 3) + 2 * 6 * 3),
        ("attention_by_hand", 2 * 5 * 3 * 36 + 2 * 2 * 2 * 25 * 3 + 2 * 6 * 3),
    ],
)
def test_recurrent_layers_and_attention_are_counted(form: str, expected: int) -> None:
    """A batched form of theirs changes nothing in what a device is charged."""
    net = stacked_forms_network(form, torch.float32)

    assert net.kernel_family == "stacked"
    assert net.forward_flops == expected
