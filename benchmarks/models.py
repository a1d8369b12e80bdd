"""Is any model trained slower than by a plain loop?

    python benchmarks/models.py [--work lstm gru ...] [--flight 20] [--repeats 9]

20 clients' jobs of 8 steps each (64 examples, batches of 16, 2 epochs, SGD), of modules as users
write them. simfl's trainer (jobs submitted and read as a run does) against the loop that one would
write: deepcopy, rows by a fresh permutation, `torch.optim.SGD`. Both take turns in one process with
one thread, by processor time, so that a busy machine slows both alike; the figure is the median
over the turns of the plain loop's time over simfl's: above 1, simfl is the faster one.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simfl.algorithms.base import ServerState
from simfl.algorithms.fedavg import FedAvg
from simfl.learning.batched import BatchedTrainer
from simfl.learning.datasets.base import Examples
from simfl.learning.job import LocalTraining
from simfl.learning.kernels.numpy_product import openblas
from simfl.learning.minibatch import plain_loss
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.learning.trainer import LocalJob

ROWS, BATCH, EPOCHS, RATE = 64, 16, 2, 0.05
IMAGE, LENGTH, TOKENS, CLASSES = (1, 8, 8), 16, 64, 10
LEAST = 0.95
"""Of a plain loop's speed, for every model."""


class Recurrent(nn.Module):
    """Tokens to classes by the state after the last one."""

    def __init__(self, layer: type[nn.LSTM | nn.GRU]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 16)
        self.recurrent = layer(16, 32, batch_first=True)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        """Tokens (rows, length) to logits."""
        outputs, _ = self.recurrent(self.embedding(inputs.long()))
        logits: Tensor = self.head(outputs[:, -1])
        return logits


class Transformer(nn.Module):
    """Two of torch's encoder layers over tokens with learned places."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 32)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        """Tokens (rows, length) to logits."""
        encoded = self.encoder(self.embedding(inputs.long()) + self.places)
        logits: Tensor = self.head(encoded.mean(1))
        return logits


class EmbeddingClassifier(nn.Module):
    """The mean of the tokens' embeddings, and a hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, 32)
        self.hidden = nn.Linear(32, 64)
        self.head = nn.Linear(64, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        """Tokens (rows, length) to logits."""
        logits: Tensor = self.head(F.relu(self.hidden(self.embedding(inputs.long()).mean(1))))
        return logits


def convolutional(norm: Callable[[int], Sequence[nn.Module]]) -> nn.Module:
    """Two convolutions for images of 8x8, each with this normalisation."""
    return nn.Sequential(
        nn.Conv2d(1, 10, 5, padding=2), *norm(10), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(10, 20, 5, padding=2), *norm(20), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(80, CLASSES),
    )  # fmt: skip


def perceptron(between: Callable[[], nn.Module]) -> nn.Module:
    """Two hidden layers, each with something before its activation."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 200), between(), nn.ReLU(),
        nn.Linear(200, 200), between(), nn.ReLU(),
        nn.Linear(200, CLASSES),
    )  # fmt: skip


@dataclass(frozen=True)
class Work:
    """A model, and what simfl is to reach on one thread as a multiple of the plain loop."""

    build: Callable[[], nn.Module]
    goal: float = LEAST
    tokens: bool = False


WORK = {
    "transformer": Work(Transformer, 1.3, tokens=True),
    "lstm": Work(lambda: Recurrent(nn.LSTM), 1.3, tokens=True),
    "gru": Work(lambda: Recurrent(nn.GRU), tokens=True),
    "groupnorm cnn": Work(lambda: convolutional(lambda n: [nn.GroupNorm(5, n)]), 1.3),
    "dropout mlp": Work(lambda: perceptron(lambda: nn.Dropout(0.2)), 1.3),
    "batchnorm cnn": Work(lambda: convolutional(lambda n: [nn.BatchNorm2d(n)])),
    "cnn": Work(lambda: convolutional(lambda _: [])),
    "layernorm mlp": Work(lambda: perceptron(lambda: nn.LayerNorm(200))),
    "embedding": Work(EmbeddingClassifier, tokens=True),
}


class Bench:
    """One model with everything prepared to train it either way."""

    def __init__(self, work: Work, clients: int) -> None:
        generator = torch.Generator().manual_seed(0)
        shape = (LENGTH,) if work.tokens else IMAGE
        self.shards = []
        for _ in range(clients):
            if work.tokens:
                inputs = torch.randint(0, TOKENS, (ROWS, *shape), generator=generator).float()
            else:
                inputs = torch.rand(ROWS, *shape, generator=generator)
            targets = torch.randint(0, CLASSES, (ROWS,), generator=generator)
            self.shards.append((inputs, targets))
        torch.manual_seed(0)
        self.model = work.build()
        self.network = Network(work.build, shape, Objective("classification"))
        self.state = ServerState(self.network.initial(0))
        examples = [Examples(*shard) for shard in self.shards]
        self.trainer = BatchedTrainer(self.network, examples, plain_loss)
        local = LocalTraining(epochs=EPOCHS, batch_size=BATCH, learning_rate=RATE)
        self.algorithm = FedAvg(local)
        self.jobs = 0

    def plain(self) -> None:
        """The loop that one would write."""
        for inputs, targets in self.shards:
            local = copy.deepcopy(self.model)
            optimizer = torch.optim.SGD(local.parameters(), lr=RATE)
            for _ in range(EPOCHS):
                for rows in torch.randperm(len(targets)).split(BATCH):
                    optimizer.zero_grad()
                    F.cross_entropy(local(inputs[rows]), targets[rows]).backward()
                    optimizer.step()

    def simfl(self) -> None:
        """Submit a job per client, read all."""
        futures = []
        for client in range(len(self.shards)):
            self.jobs += 1
            brief = partial(self.algorithm.brief, self.network, self.state, client, -1)
            job = LocalJob(str(self.jobs), client, self.jobs, 0, brief)
            futures.append(self.trainer.submit(job))
        for future in futures:
            future.result()


def seconds(train: Callable[[], None]) -> float:
    """Processor time of one call."""
    began = time.process_time()
    train()
    return time.process_time() - began


def measure(name: str, clients: int, repeats: int) -> None:
    """Print one row."""
    work = WORK[name]
    bench = Bench(work, clients)
    for train in (bench.plain, bench.simfl):
        train()
    pairs = [(seconds(bench.plain), seconds(bench.simfl)) for _ in range(repeats)]
    plain, simfl = (
        1000 * statistics.median(column) / clients for column in zip(*pairs, strict=True)
    )
    ratio = statistics.median(one / other for one, other in pairs)
    mark = "" if ratio >= work.goal else "  below its goal"
    network = bench.network
    print(
        f"{name:14s} {plain:9.2f} {simfl:9.2f} {ratio:7.2f} {work.goal:6.2f}  "
        f"{network.kernel_family}{mark}"
    )
    if network.not_stacked_because is not None:
        print(f"{'':14s} {network.not_stacked_because}")


def main() -> None:
    """Measure the models asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", nargs="+", choices=WORK, default=list(WORK), metavar="WORK")
    parser.add_argument("--flight", type=int, default=20, help="clients in flight")
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"ms of processor time a client; simfl's products by {openblas() or 'torch'}")
    print(f"{'model':14s} {'plain':>9s} {'simfl':>9s} {'ratio':>7s} {'goal':>6s}  form")
    for name in arguments.work:
        measure(name, arguments.flight, arguments.repeats)


if __name__ == "__main__":
    main()
