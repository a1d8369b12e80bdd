"""Small models, ragged shards and jobs for the tests of the trainers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from simfl.learning.batches import plan_order
from simfl.learning.datasets.base import Examples
from simfl.learning.job import Brief, LocalTraining, Memory, Price, Recipe, RecipeKind, Update
from simfl.learning.minibatch import Minibatch, plain_loss
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.learning.parameters import Parameters
from simfl.learning.trainer import Future, LocalJob, Trainer
from simfl.learning.units import unit_masks

__all__ = ["plain_loss"]

IMAGE = (1, 8, 8)
SIZES = (3, 5, 17, 16, 40, 23, 2, 33)
"""Shard sizes: below, at and above the batch size of 8."""


class Residual(nn.Module):
    """Two convolutions with BatchNorm, a shortcut, and pooling by function, as in a ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.body = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.norm_body = nn.BatchNorm2d(4, momentum=None)
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.head = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        """Images (rows, 1, 8, 8) to logits (rows, 3)."""
        shortcut = self.relu(self.norm(self.stem(inputs)))
        activation = self.norm_body(self.body(shortcut))
        activation += shortcut
        return self.head(torch.flatten(self.pool(self.relu(activation)), 1))


class Viewing(nn.Module):
    """A perceptron that reshapes with its input's own size, as many users' modules do."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 7)
        self.last = nn.Linear(7, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        """Images (rows, 1, 8, 8) to logits (rows, 3)."""
        return self.last(torch.sigmoid(self.first(inputs.view(inputs.size(0), -1))))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 3)),
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 13), nn.ELU(), nn.Linear(13, 3)),
    "relu_mlp": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(64, 13), nn.ReLU(), nn.Linear(13, 8, bias=False), nn.Linear(8, 3)
    ),
    "viewing": Viewing,
    "cnn": lambda: nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
    ),
    "bn_mlp": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(64, 9), nn.BatchNorm1d(9), nn.Tanh(), nn.Linear(9, 3)
    ),
    "bn_cnn": lambda: nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ELU(), nn.Flatten(), nn.Linear(36, 3)
    ),
    "residual": Residual,
}


def network(model: str, dtype: torch.dtype = torch.float64) -> Network:
    """One of MODELS for 8x8 images of three classes."""
    return Network(MODELS[model], IMAGE, Objective("classification"), dtype)


def shards(sizes: Sequence[int] = SIZES) -> list[Examples]:
    """Random images, one shard per client."""
    generator = torch.Generator().manual_seed(1)
    return [
        Examples(
            torch.randn(size, *IMAGE, generator=generator),
            torch.randint(0, 3, (size,), generator=generator),
        )
        for size in sizes
    ]


def traced_loss(parameters: Parameters, batch: Minibatch) -> Tensor:
    """The plain loss, but a function of its own: the trainer must use autograd."""
    return batch.mean_loss(batch.forward(parameters, batch.inputs))


class Emptied:
    """A store that lists every key, and has none: another run made room."""

    def get(self, key: str) -> Any | None:
        """Nothing."""
        return None

    def put(self, key: str, value: Any) -> None:
        """Lost at once."""

    def __contains__(self, key: str) -> bool:
        return True


class Start:
    """A value that jobs wait for, computed when the test says so."""

    def __init__(self) -> None:
        self.known = False
        self._calls: list[Callable[[], None]] = []

    def when_known(self, call: Callable[[], None]) -> None:
        """Call when the value is computed."""
        self._calls.append(call)

    def compute(self) -> None:
        """The value is there from now on."""
        self.known = True
        for call in self._calls:
            call()


def submit(
    trainer: Trainer,
    client: int,
    recipe: Recipe,
    *,
    start: Parameters | None = None,
    own: Parameters | None = None,
    correction: Parameters | None = None,
    previous: Future | None = None,
    awaits: Start | None = None,
    number: int = 0,
) -> Future:
    """Submit a job of `client`; its seed follows from client and client round."""
    weights = trainer.network.initial(5) if start is None else start
    brief = Brief(weights, recipe, Price(0, 0), own or {}, correction or {})
    job = LocalJob(
        key=f"{client}/{number}",
        client=client,
        seed=1000 * client + number,
        version=number,
        make_brief=lambda: brief,
        awaits=awaits,
        previous=previous,
    )
    return trainer.submit(job)


def tensors_of(update: Update) -> dict[str, Tensor]:
    """Every tensor that an update carries, payload and memory."""
    memory: Memory = update.memory
    return {
        **{f"payload/{name}": tensor for name, tensor in update.payload.items()},
        **{f"private/{name}": tensor for name, tensor in memory.private.items()},
        **{f"optimizer/{name}": tensor for name, tensor in memory.optimizer.items()},
        **{f"residual/{name}": tensor for name, tensor in (memory.residual or {}).items()},
    }


def assert_close(left: Update, right: Update) -> None:
    """Two updates are equal within 1e-9."""
    mine, other = tensors_of(left), tensors_of(right)
    assert mine.keys() == other.keys()
    for name, tensor in mine.items():
        torch.testing.assert_close(tensor, other[name], rtol=0, atol=1e-9, msg=name)
    assert left.memory.optimizer_steps == right.memory.optimizer_steps
    assert left.num_examples == right.num_examples
    assert left.version == right.version
    assert left.steps == right.steps
    assert left.measures == right.measures


def assert_same_bits(left: Update, right: Update) -> None:
    """Two updates are equal to the last bit."""
    mine, other = tensors_of(left), tensors_of(right)
    assert mine.keys() == other.keys()
    unequal = [name for name, tensor in mine.items() if not torch.equal(tensor, other[name])]
    assert not unequal


def masks_of(network: Network, kept: torch.Tensor, *, outgoing: bool = True) -> Parameters:
    """For every parameter, True where it belongs to kept units only."""
    layout = network.hidden_units.layout
    return unit_masks(layout, network.initial(0), kept, outgoing=outgoing)


def plan_batches(
    seed: int,
    num_examples: int,
    local: LocalTraining,
    kind: RecipeKind = "train",
    smallest: int = 1,
) -> list[Tensor]:
    """Row indices (int64, on the CPU) of each step of a job."""
    order, sizes = plan_order(seed, num_examples, local, kind, smallest)
    return list(torch.split(torch.cat(order), sizes))
