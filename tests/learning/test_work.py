"""Counting a model's work by kind."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_sequence

from simfl.common.model_work import ModelWork
from simfl.learning.stored_activations import kept_bytes
from simfl.learning.vision import torchvision
from simfl.learning.work import count_work
from tests.learning.test_stacked_forms import network as stacked_forms_network
from tests.learning.training import IMAGE as SHAPE
from tests.learning.training import MODELS

IMAGE = torch.zeros(1, 3, 8, 8)
PLACES = torch.zeros(1, 4, 5)


@pytest.mark.parametrize("by_layers", [False, True])
def test_layers_are_counted_by_kind(by_layers: bool) -> None:
    """A multiply-add is two operations; every layer reads its inputs and writes its outputs."""
    module = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1),  # 6x8x8 outputs, each of 3 x 9 products
        nn.Conv2d(6, 6, 3, stride=2, padding=1, groups=6),  # 6x4x4 outputs, each of 9
        nn.Conv2d(6, 4, 1, groups=2),  # 4x4x4 outputs, each of 3
        nn.ReLU(),
        nn.Flatten(),  # moves nothing
        nn.Linear(64, 10),
    )

    assert count_work(module, IMAGE, by_layers=by_layers) == ModelWork(
        convolution=2.0 * (384 * 27 + 64 * 3),
        depthwise=2.0 * 96 * 9,
        dense=2.0 * 64 * 10,
        traffic_bytes=4.0 * ((192 + 384) + (384 + 96) + (96 + 64) + (64 + 64) + (64 + 10)),
        update=2.0 * ((162 + 6) + (54 + 6) + (12 + 4) + (640 + 10)),
        kernels=2.0 * (162 + 54 + 12),
    )


def test_a_transposed_convolution_is_one_by_its_inputs() -> None:
    """Every input meets the weights of its channel once."""
    module = nn.ConvTranspose2d(3, 5, 2, stride=2)

    assert count_work(module, IMAGE).convolution == 2.0 * 192 * 5 * 4


@pytest.mark.parametrize(
    ("layer", "weights", "passes"),
    [
        (nn.LSTM(5, 7, batch_first=True), 4 * 7 * (5 + 7), 1),
        (nn.GRU(5, 7, batch_first=True), 3 * 7 * (5 + 7), 1),
        (nn.RNN(5, 7, batch_first=True), 7 * (5 + 7), 1),
        (
            nn.LSTM(5, 7, 2, bidirectional=True, batch_first=True),
            2 * 4 * 7 * ((5 + 7) + (14 + 7)),
            4,
        ),
    ],
)
def test_recurrent_layers_are_counted_on_any_device(
    layer: nn.Module, weights: int, passes: int
) -> None:
    """4 places, each a product with every weight: on the meta device, and where that cannot be."""

    class NotOnMeta(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, inputs: Tensor) -> Tensor:
            if inputs.is_meta:
                raise NotImplementedError
            outputs: Tensor = self.layer(inputs)[0]
            return outputs

    for module in (layer, NotOnMeta()):
        work = count_work(module, PLACES)
        assert work.recurrent == work.forward_flops == 2.0 * 4 * weights
        assert work.recurrent_places == 4 * passes


def test_packed_sequences_and_cells_are_counted() -> None:
    """Two sequences of 3 and 1 places side by side; a cell that is called for each of 4 places."""

    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(5, 7)

        def forward(self, inputs: Tensor) -> Tensor:
            outputs: Tensor = self.layer(pack_sequence([inputs[0, :3], inputs[0, :1]]))[0].data
            return outputs

    class Cell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.GRUCell(5, 7)

        def forward(self, inputs: Tensor) -> Tensor:
            state = inputs.new_zeros(1, 7)
            for place in inputs.unbind(1):
                state = self.cell(place, state)
            return state

    packed, cell = count_work(Packed(), PLACES), count_work(Cell(), PLACES)

    assert (packed.recurrent, packed.recurrent_places) == (2.0 * 4 * 4 * 7 * 12, 3)
    assert (cell.recurrent, cell.recurrent_places) == (2.0 * 4 * 3 * 7 * 12, 4)


def test_attention_is_dense_and_moves_what_its_products_move() -> None:
    """Projections in and out, two heads' scores and mixtures; weights are no activations."""
    module = nn.MultiheadAttention(6, 2, batch_first=True)
    rows, width, heads = 4, 6, 2
    scores, values = heads * rows * rows, rows * width

    class SelfAttention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = module

        def forward(self, inputs: Tensor) -> Tensor:
            mixed: Tensor = self.attention(inputs, inputs, inputs, need_weights=False)[0]
            return mixed

    work = count_work(SelfAttention(), torch.zeros(1, rows, width))

    assert work.dense == 2.0 * (4 * values * width + 2 * scores * width / heads)
    projections = (values + 3 * values) + (values + values)
    products = (2 * values + scores) + (scores + values + values)
    assert work.traffic_bytes == 4.0 * (projections + products)


def test_tables_are_updated_once_per_step() -> None:
    """Two operations per entry, whatever is looked up; a table used twice counts once."""

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(11, 3)

        def forward(self, tokens: Tensor) -> Tensor:
            return functional.linear(self.table(tokens) + self.table(tokens), self.table.weight)

    work = count_work(Tied(), torch.zeros(1, 4, dtype=torch.long))

    assert (work.embedding, work.update) == (2.0 * 33, 0.0)
    assert work.dense == work.forward_flops == 2.0 * 4 * 33


def test_a_functional_convolution_is_one_of_its_kind() -> None:
    """By groups, as a layer is."""

    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(3, 1, 3, 3))

        def forward(self, inputs: Tensor) -> Tensor:
            once = functional.conv2d(inputs, self.weight, groups=3)
            return functional.conv2d(once, self.weight.expand(3, 3, 3, 3))

    work = count_work(Functional(), IMAGE)

    assert (work.depthwise, work.convolution) == (2.0 * 108 * 9, 2.0 * 48 * 27)
    assert work.traffic_bytes == 0.0 + 4.0 * (192 + 48)


def test_counting_leaves_the_module_as_it_was() -> None:
    """Mode, hooks and values."""
    module = nn.Sequential(nn.Dropout(0.5), nn.Linear(5, 2)).train()
    before = {name: one.clone() for name, one in module.state_dict().items()}

    count_work(module, torch.zeros(1, 5), by_layers=True)

    assert module.training
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in module.modules())
    assert all(torch.equal(one, before[name]) for name, one in module.state_dict().items())


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
    """Where products are those of layers, both walks find the same."""
    module = (Twice if model == "twice" else MODELS[model])()
    example = torch.zeros(1, *SHAPE)

    counts = [count_work(module, example, by_layers=by_layers) for by_layers in (True, False)]

    assert counts[0] == counts[1]
    assert counts[0].forward_flops > 0


def test_products_outside_of_layers_are_counted() -> None:
    """A module that multiplies by itself is looked at operation by operation."""

    class Gram(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            rows = inputs.flatten(2)
            return rows @ rows.transpose(1, 2)

    assert count_work(Gram(), torch.zeros(1, 3, 5)).dense == 2 * 3 * 5 * 3


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


def test_a_published_network_has_its_published_count() -> None:
    """MobileNetV2 on 224x224: 300 million multiply-adds (Sandler et al., CVPR 2018, table 4)."""
    work = count_work(torchvision().models.mobilenet_v2(), torch.zeros(1, 3, 224, 224))

    assert work == ModelWork(
        convolution=557555712,
        depthwise=41432832,
        dense=2560000,
        traffic_bytes=156066720,
        update=2 * 3504872,  # the parameters that torchvision says it has
        kernels=2 * (3504872 - 1281000 - 2 * 17056),  # without the last layer's, and batch norm's
    )
    assert work.forward_flops / 2 == pytest.approx(300e6, rel=0.01)


@pytest.mark.parametrize("by_layers", [False, True])
def test_activations_are_counted_once(by_layers: bool) -> None:
    """Inputs of linear layers; what ReLU makes of one is the other's input; the index of a pool."""
    module = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
    pooled = nn.Sequential(nn.Conv2d(1, 3, 1), nn.MaxPool2d(2))

    assert kept_bytes(module, torch.zeros(1, 5), by_layers=by_layers) == 4 * (5 + 8)
    # The convolution's input and output, and eight bytes for each place that the pool took.
    image = torch.zeros(1, 1, 2, 4)
    assert kept_bytes(pooled, image, by_layers=by_layers) == 4 * (8 + 24) + 8 * 6


def test_a_double_counts_as_the_float_that_a_device_has() -> None:
    """Whatever the simulation computes in."""
    module = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2)).double()

    assert kept_bytes(module, torch.zeros(1, 5, dtype=torch.float64)) == 4 * (5 + 8)


@pytest.mark.parametrize("by_layers", [False, True])
def test_nothing_of_the_pass_stays(by_layers: bool) -> None:
    """A layer that keeps its own output, as ReLU does, lets go of it and of the weights before."""
    module = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
    weights = weakref.ref(module[0].weight)

    kept_bytes(module, torch.zeros(1, 5), by_layers=by_layers)
    del module
    gc.collect()

    assert weights() is None


@pytest.mark.parametrize("by_layers", [False, True])
def test_a_view_keeps_all_of_its_memory(by_layers: bool) -> None:
    """Tanh's output is needed as a whole, though only a part of it enters the next layer."""

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(8, 2)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            outputs: torch.Tensor = self.head(torch.tanh(inputs * 1.0)[:, -1])
            return outputs

    inputs = torch.zeros(1, 30, 8, requires_grad=True)

    assert kept_bytes(Last(), inputs, by_layers=by_layers) >= 4 * 30 * 8
