"""Hidden units: which values belong to them, and what a model loses without each."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from simfl.learning import ablation
from simfl.learning.datasets.base import Examples
from simfl.learning.evaluate import Evaluator
from simfl.learning.models.cnn import Cnn
from simfl.learning.models.mlp import Mlp
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.learning.parameters import Parameters
from tests.learning.training import Residual, masks_of

IMAGE = (2, 8, 8)
CHAINS: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: Mlp((9, 7)).build(IMAGE, 4),
    "cnn": lambda: Cnn((3, 5), hidden=(6,)).build(IMAGE, 4),
    "bn_cnn": lambda: nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 4)
    ),
    "sigmoid": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(128, 5), nn.Sigmoid(), nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 4)
    ),
}


def made(name: str, dtype: torch.dtype = torch.float64) -> tuple[Network, Parameters, Examples]:
    """A network, its weights, and random labelled images."""
    network = Network(CHAINS[name], IMAGE, Objective("classification"), dtype)
    generator = torch.Generator().manual_seed(2)
    inputs = torch.randn(70, *IMAGE, generator=generator).to(dtype)
    targets = torch.randint(0, 4, (70,), generator=generator)
    return network, network.initial(3), Examples(inputs, targets)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)], ids=["double", "float"]
)
def test_ablation_equals_leaving_out_one_unit_at_a_time(
    name: str, dtype: torch.dtype, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batched losses are those of the model whose mask drops that unit alone."""
    network, weights, examples = made(name, dtype)
    evaluator = Evaluator(network, {"validation": examples})
    units = network.hidden_units
    monkeypatch.setattr(ablation, "ROWS_PER_PASS", 32)
    monkeypatch.setattr(ablation, "VALUES_PER_PASS", 3000)

    found = evaluator.ablation_losses(weights)

    expected = []
    for unit in range(units.count):
        kept = torch.ones(units.count, dtype=torch.bool)
        kept[unit] = False
        masked = {**weights, **{n: weights[n] * m for n, m in masks_of(network, kept).items()}}
        expected.append(evaluator.loss([masked]))
    assert found.dtype == torch.float64
    torch.testing.assert_close(
        found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=tolerance
    )
    assert len(set(expected)) > units.count // 2


def test_incoming_values_alone_silence_a_relu_unit() -> None:
    """Zero incoming weights and bias are enough where ReLU follows: the definition by hand."""
    network, weights, examples = made("cnn")
    evaluator = Evaluator(network, {"validation": examples})
    kept = torch.ones(network.hidden_units.count, dtype=torch.bool)
    kept[[1, 4, 9]] = False

    losses = [
        evaluator.loss([{n: weights[n] * mask for n, mask in masks.items()}])
        for masks in (
            masks_of(network, kept),
            masks_of(network, kept, outgoing=False),
        )
    ]

    assert losses[0] == pytest.approx(losses[1], abs=1e-12)


def test_masks_of_a_perceptron_by_hand() -> None:
    """A dropped neuron takes its row, its bias and the column that reads it; output bias stays."""
    network = Network(
        lambda: nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)),
        (2,),
        Objective("classification"),
    )

    masks = masks_of(network, torch.tensor([True, False, True]))

    assert masks["0.weight"].tolist() == [[True, True], [False, False], [True, True]]
    assert masks["0.bias"].tolist() == [True, False, True]
    assert masks["2.weight"].tolist() == [[True, False, True]] * 2
    assert masks["2.bias"].tolist() == [True, True]
    assert network.hidden_units.work(masks) == (2 * 2 + 2 * 2) / (2 * 3 + 3 * 2)


def test_a_channel_takes_the_columns_of_its_pixels() -> None:
    """Behind pooling and Flatten each of 5 channels feeds 2x2 columns of the linear layer."""
    network, _, _ = made("cnn")
    units = network.hidden_units
    kept = torch.ones(units.count, dtype=torch.bool)
    kept[3 + 1] = False  # the second of the second layer's channels

    masks = masks_of(network, kept)

    assert [layer.count for layer in units.layers] == [3, 5, 6]
    reader = masks[units.layers[1].reader.weight]
    assert reader.shape == (6, 20)
    assert (~reader[0]).nonzero().flatten().tolist() == [4, 5, 6, 7]
    assert units.work(masks) < 1.0


def test_parameters_of_submodels_of_the_200_200_network() -> None:
    """d k1 + k1 + k1 k2 + k2 + 10 k2 + 10 values; 656,810 and 199,210 with all units."""
    for inputs, whole in ((3072, 656_810), (784, 199_210)):
        network = Network(
            lambda d=inputs: Mlp().build((d,), 10), (inputs,), Objective("classification")
        )
        kept = torch.zeros(400, dtype=torch.bool)
        kept[:100] = kept[250:] = True

        def values(kept: torch.Tensor) -> int:
            return sum(int(mask.sum()) for mask in masks_of(network, kept).values())  # noqa: B023

        assert values(torch.ones(400, dtype=torch.bool)) == whole
        if inputs == 3072:
            assert values(kept) == 323_960


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (Residual, "one after the other"),
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), "no hidden layer"),
        (
            lambda: nn.Sequential(
                nn.Flatten(), nn.Linear(64, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 3)
            ),
            r"2 \(LayerNorm\) mixes hidden units",
        ),
    ],
)
def test_models_whose_units_cannot_be_told_apart(
    module: Callable[[], nn.Module], reason: str
) -> None:
    """Shortcuts, no hidden layer, and layers that mix units are refused with the reason."""
    network = Network(module, (1, 8, 8), Objective("classification"))

    with pytest.raises(ValueError, match=reason):
        _ = network.hidden_units
