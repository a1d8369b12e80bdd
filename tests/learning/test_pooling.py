"""The largest of 2x2 places: torch's own bits, whichever way they are computed."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from simfl.learning.evaluate import outputs_of
from simfl.learning.kernels import pooling
from simfl.learning.kernels.pooling import max_pool_2x2, pool_by_maxima
from simfl.learning.models.base import Model
from simfl.learning.models.cnn import Cnn
from simfl.learning.models.fedcure_cnn import FedCureCnn
from simfl.learning.models.lenet import LeNet
from simfl.learning.network import Network
from simfl.learning.objective import Objective

SHAPES = [
    (3, 5, 28, 28), (40, 1, 23, 24), (7, 16, 13, 15), (9, 33, 14, 9), (300, 8, 4, 5),
    (64, 3, 2, 33), (2000, 4, 2, 2), (2000, 5, 3, 3), (1, 1, 100, 101), (1, 40, 20, 20),
    (5, 40, 51), (1, 90, 99),
]  # fmt: skip
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
CORNERS = [(0, 0), (0, 1), (1, 0), (1, 1)]


class Calls:
    """Counts calls of torch's own pooling."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, *arguments: Any, **settings: Any) -> Tensor:
        self.count += 1
        found: Tensor = OF_TORCH(*arguments, **settings)
        return found


OF_TORCH = F.max_pool2d


@pytest.fixture
def left_to_torch(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What is left to torch's pooling from now on."""
    calls = Calls()
    monkeypatch.setattr(pooling.F, "max_pool2d", calls)
    return calls


def images(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> Tensor:
    """Few different values, so that many windows have several largest places."""
    values = torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(seed))
    return values.to(dtype) / 2 + 0.0


def same(found: Tensor, expected: Tensor) -> bool:
    """To the last bit of every value, signs of zeros and NaN's bits included, and in memory too."""
    bits = BITS[expected.element_size()]
    return (
        found.dtype == expected.dtype
        and found.stride() == expected.stride()
        and torch.equal(found.contiguous().view(bits), expected.contiguous().view(bits))
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_bits_are_torch_s(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Odd sizes, single channels, single images; in both layouts, and in neither."""
    for values in (images(shape, dtype), images(shape, dtype).relu()):
        layouts = [values, values.transpose(-1, -2)]
        if values.dim() == 4:
            layouts.append(values.contiguous(memory_format=torch.channels_last))
        for given in layouts:
            with torch.no_grad():
                assert same(max_pool_2x2(given), OF_TORCH(given, 2))


def test_ordinary_images_are_not_left_to_torch(left_to_torch: Calls) -> None:
    """Without a gradient; with one they are, and it is torch's."""
    given = images((3, 5, 28, 28), torch.float32).requires_grad_()

    with torch.no_grad():
        max_pool_2x2(given)
    assert left_to_torch.count == 0

    max_pool_2x2(given).sum().backward()
    assert left_to_torch.count == 1
    mine = given.grad
    assert mine is not None
    given.grad = None
    OF_TORCH(given, 2).sum().backward()
    assert torch.equal(mine, given.grad)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("negative", CORNERS)
@pytest.mark.parametrize("positive", CORNERS)
def test_signs_of_zeros_are_torch_s(
    positive: tuple[int, int],
    negative: tuple[int, int],
    dtype: torch.dtype,
    layout: torch.memory_format,
    left_to_torch: Calls,
) -> None:
    """0.0 and -0.0 are as large as each other; torch's pooling takes whichever comes first."""
    given = torch.full((2, 9, 32, 34), -1.0, dtype=dtype)
    given[..., negative[0] :: 2, negative[1] :: 2] = -0.0
    given[..., positive[0] :: 2, positive[1] :: 2] = 0.0
    given = given.contiguous(memory_format=layout)
    zeros = {positive, negative}

    with torch.no_grad():
        found = max_pool_2x2(given)

    assert left_to_torch.count == len(zeros) - 1
    assert same(found, OF_TORCH(given, 2))
    assert bool(found.signbit().all()) == (min(zeros) != positive)


@pytest.mark.parametrize("place", [(0, 0), (5, 8), (27, 26), (28, 3)])
@pytest.mark.parametrize(
    "special", [-0.0, float("nan"), -float("nan"), float("inf"), -float("inf")]
)
def test_a_single_special_value(special: float, place: tuple[int, int]) -> None:
    """Wherever it stands; (28, 3) is in the odd row that no window has."""
    given = images((4, 6, 29, 28), torch.float32).relu()
    given[2, 3, place[0], place[1]] = special
    both = given.clone()
    both[1, 0, 4:6, 4:6] = torch.tensor([[-float("inf"), float("nan")], [float("inf"), 1.0]])

    with torch.no_grad():
        assert same(max_pool_2x2(given), OF_TORCH(given, 2))
        assert same(max_pool_2x2(both), OF_TORCH(both, 2))


def test_nan_s_of_other_bits() -> None:
    """If a window has several NaN, torch returns a specific one of them, bit for bit."""
    bits = torch.tensor([0x7FC00001, 0x7FC00002, 0x7FA00003, -0x3FFFFC], dtype=torch.int32)
    given = images((2, 8, 32, 32), torch.float32)
    for number, (row, column) in enumerate(CORNERS):
        given[0, number, row::2, column::2] = bits[number].view(torch.float32)
        given[1, :, row::2, column::2] = bits[3 - number].view(torch.float32)

    with torch.no_grad():
        assert same(max_pool_2x2(given), OF_TORCH(given, 2))


def test_what_torch_refuses_is_refused() -> None:
    """Images without a whole window, and of too few axes."""
    for shape in ((20000, 1, 1, 2), (9000,)):
        with torch.no_grad(), pytest.raises(RuntimeError) as mine:
            max_pool_2x2(torch.zeros(shape))
        with pytest.raises(RuntimeError) as torchs:
            OF_TORCH(torch.zeros(shape), 2)
        assert str(mine.value) == str(torchs.value)


@pytest.mark.parametrize(
    ("layer", "by_maxima"),
    [
        (nn.MaxPool2d(2), True),
        (nn.MaxPool2d((2, 2), stride=2), True),
        (nn.MaxPool2d(2, stride=1), False),
        (nn.MaxPool2d(3), False),
        (nn.MaxPool2d(3, stride=2), False),
        (nn.MaxPool2d((2, 1)), False),
        (nn.MaxPool2d(2, padding=1), False),
        (nn.MaxPool2d(2, dilation=2), False),
        (nn.MaxPool2d(2, ceil_mode=True), False),
    ],
)
def test_which_layers_are_exchanged(
    layer: nn.MaxPool2d, by_maxima: bool, left_to_torch: Calls
) -> None:
    """Layers with plain 2x2 windows; all compute the same as before, also as copies."""
    given, module = images((3, 5, 29, 31), torch.float32), nn.Sequential(layer)
    expected = module(given)
    before = left_to_torch.count

    pool_by_maxima(module)

    for one in (module, copy.deepcopy(module), fx.symbolic_trace(module)):
        with torch.no_grad():
            assert same(one(given), expected)
    assert (left_to_torch.count == before) == by_maxima


def test_a_layer_of_one_s_own_stays() -> None:
    """A subclass may compute anything."""

    class Doubled(nn.MaxPool2d):
        def forward(self, inputs: Tensor) -> Tensor:
            return 2 * super().forward(inputs)

    module, given = Doubled(2), images((3, 5, 28, 28), torch.float32)
    pool_by_maxima(module)

    with torch.no_grad():
        assert torch.equal(module(given), 2 * OF_TORCH(given, 2))


@pytest.mark.parametrize("model", [Cnn(), LeNet(), FedCureCnn()])
def test_models_are_evaluated_by_maxima_to_the_same_bits(
    model: Model, left_to_torch: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No pooling of theirs is left to torch, and the outputs are those of the plain module."""
    shape = (1, 28, 28)
    net = Network(lambda: model.build(shape, 10), shape, Objective("classification"))
    weights = net.initial(3)
    inputs = torch.rand(50, *shape, generator=torch.Generator().manual_seed(1))
    assert net.stackable
    before = left_to_torch.count

    found = outputs_of(net, weights, inputs)

    assert left_to_torch.count == before
    plain = model.build(shape, 10)
    plain.load_state_dict(weights)
    with torch.no_grad():
        assert same(found, plain.eval()(inputs))
    assert left_to_torch.count > before
