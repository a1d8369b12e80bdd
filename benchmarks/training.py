"""How many client updates per second does simfl's trainer give?

    python benchmarks/training.py [--work "digits MLP" ...] [--flight 5 50] [--workers 0 2]

One update is a client's local training: 5 epochs, batches of 32, SGD. simfl's trainer (jobs
submitted and read as a run does) is measured against loops written by hand (`loops.py`): the naive
one of most simulators, the lean one, and a bound: all clients batched by hand, for exactly this
model. Everything runs in short turns in one process, one thread each, so that a busy machine slows
all of them alike: rates are medians over the turns, and ratios medians of each turn's own. Data are
synthetic, of the sizes of digits (8x8, 30 examples a client) and MNIST (28x28, 600 examples a
client).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import loops
import torch

from simfl.algorithms.base import ServerState
from simfl.algorithms.fedavg import FedAvg
from simfl.learning.batched import BatchedTrainer
from simfl.learning.datasets.base import Examples
from simfl.learning.job import LocalTraining
from simfl.learning.kernels.numpy_product import openblas
from simfl.learning.minibatch import plain_loss
from simfl.learning.models.base import Model, as_module
from simfl.learning.models.cnn import Cnn
from simfl.learning.models.linear import Linear
from simfl.learning.models.mlp import Mlp
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.learning.trainer import Future, LocalJob, Trainer
from simfl.learning.workers.parallel import ParallelTrainer

ALGORITHM = FedAvg(
    LocalTraining(epochs=loops.EPOCHS, batch_size=loops.BATCH, learning_rate=loops.RATE)
)
LEAN_GOAL = 0.95


@dataclass(frozen=True)
class Work:
    """A model on data of one shape; `goal` is simfl's best as a multiple of the naive loop."""

    model: Model
    side: int
    rows: int
    at_once: int
    goal: float


CNN = Cnn(channels=(10, 20), kernel=5)
WORK = {
    "digits logistic": Work(Linear(), 8, 30, 50, 15.0),
    "digits MLP": Work(Mlp(), 8, 30, 20, 5.0),
    "digits CNN": Work(CNN, 8, 30, 10, 2.5),
    "mnist logistic": Work(Linear(), 28, 600, 10, 3.0),
    "mnist MLP": Work(Mlp(), 28, 600, 5, 3.0),
    "mnist CNN": Work(CNN, 28, 600, 1, 1.7),
}


class Bench:
    """One work with everything prepared to train it in any of the ways."""

    def __init__(self, work: Work, clients: int, workers: Sequence[int]) -> None:
        self.work = work
        shape = (1, work.side, work.side)
        generator = torch.Generator().manual_seed(0)
        self.shards = [
            (
                torch.rand(work.rows, *shape, generator=generator),
                torch.randint(0, 10, (work.rows,), generator=generator),
            )
            for _ in range(clients)
        ]
        factory = partial(as_module, work.model, shape, 10)
        torch.manual_seed(0)
        self.model, self.spare = factory(), factory()
        self.network = Network(factory, shape, Objective("classification"))
        self.state = ServerState(self.network.initial(0))
        examples = [Examples(*shard) for shard in self.shards]
        self.trainers = {count: make_trainer(self.network, examples, count) for count in workers}
        self.jobs = 0

    def naive(self, clients: int) -> None:
        """The naive loop over so many clients."""
        loops.naive(self.model, self.shards[:clients])

    def lean(self, clients: int) -> None:
        """The lean loop over so many clients."""
        loops.lean(self.model, self.shards[:clients], self.spare)

    def bound(self, clients: int) -> None:
        """The hand-batched kernels; lean where batching does not pay (28x28 convolutions)."""
        if self.work.at_once == 1:
            self.lean(clients)
        elif isinstance(self.work.model, Cnn):
            loops.stacked_convolutional(self.model, self.shards[:clients], self.work.at_once)
        else:
            loops.stacked_dense(self.model, self.shards[:clients], self.work.at_once)

    def simfl(self, workers: int, clients: int) -> None:
        """Submit a job per client, read all."""
        for future in self.submitted(self.trainers[workers], ALGORITHM, clients):
            future.result()

    def submitted(self, trainer: Trainer, algorithm: FedAvg, clients: int) -> list[Future]:
        """A job per client as a run hands them in, all of them from the state."""
        futures = []
        for client in range(clients):
            self.jobs += 1
            brief = partial(algorithm.brief, self.network, self.state, client, -1)
            job = LocalJob(str(self.jobs), client, seed=self.jobs, version=0, make_brief=brief)
            futures.append(trainer.submit(job))
        return futures


def make_trainer(network: Network, examples: Sequence[Examples], workers: int) -> Trainer:
    """The batched trainer as a run makes it."""
    if workers:
        return ParallelTrainer(network, examples, plain_loss, workers=workers)
    return BatchedTrainer(network, examples, plain_loss)


def rate(train: Callable[[int], None], clients: int, least_s: float) -> float:
    """Updates per second over at least `least_s` seconds."""
    began, trained = time.perf_counter(), 0
    while (spent := time.perf_counter() - began) < least_s:
        train(clients)
        trained += clients
    return trained / spent


def measure(name: str, arguments: argparse.Namespace) -> None:
    """Print one row per number of jobs in flight."""
    work = WORK[name]
    bench = Bench(work, max(arguments.flight), arguments.workers)
    for flight in arguments.flight:
        ways: dict[str, tuple[Callable[[int], None], int]] = {
            "naive": (bench.naive, 1),
            "lean": (bench.lean, 1),
            "bound": (bench.bound, flight),
        }
        for count in arguments.workers:
            ways[f"simfl +{count}"] = (partial(bench.simfl, count), flight)
        for train, clients in ways.values():
            train(clients)
        rates: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(arguments.repeats):
            for way, (train, clients) in ways.items():
                rates[way].append(rate(train, clients, arguments.seconds))
        print(row(name, flight, rates))


def row(name: str, flight: int, rates: dict[str, list[float]]) -> str:
    """Updates per second of each way, turn by turn; simfl's as multiples of the others."""
    cells = [f"{name:16s} {flight:4d}"]
    for way, turns in rates.items():
        cells.append(f"{way} {statistics.median(turns):7.1f}")
        if way.startswith("simfl"):
            ratios = [
                statistics.median(own / other for own, other in zip(turns, rates[by], strict=True))
                for by in ("naive", "lean", "bound")
            ]
            cells[-1] += " ({:.2f} {:.2f} {:.2f})".format(*ratios)
    return "  ".join(cells)


def main() -> None:
    """Measure the rows asked for, and print the goals."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", nargs="+", choices=WORK, default=list(WORK), metavar="WORK")
    parser.add_argument("--flight", nargs="+", type=int, default=[5, 20, 50, 200])
    parser.add_argument("--workers", nargs="+", type=int, default=[0, 2])
    parser.add_argument("--repeats", type=int, default=31, help="turns")
    parser.add_argument("--seconds", type=float, default=0.05, help="per way and turn, at least")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("updates/s; (x naive, x lean, x bound); simfl +N: with N workers (processes or threads)")
    print(f"simfl's products are computed by {openblas() or 'torch'}")
    for name in arguments.work:
        measure(name, arguments)
    goals = ", ".join(f"{name} {WORK[name].goal:g}x" for name in arguments.work)
    print(f"goals: of the naive loop, all cores busy: {goals}")
    print(f"       of the lean loop: {LEAN_GOAL} for every number in flight from 2")


if __name__ == "__main__":
    main()
