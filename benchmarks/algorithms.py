"""How fast does each algorithm train, beside FedAvg, for the operations that it is charged?

    python benchmarks/algorithms.py [--algorithms moon ditto] [--rows 30 240] [--repeats 5]

The digits MLP (64-200-200-10), 20 clients of so many examples, five passes over all of them at
once, plain SGD, one thread. FedAvg and the algorithm train in turns in one process; what counts is
processor time, as the median over the repeats. FLOP/s are client updates a second, times the work
that the algorithm's price says a pass is, times its passes. All figures are multiples of FedAvg's.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from simfl.algorithms.base import Algorithm, ClientFacts
from simfl.assembly import registry
from simfl.learning.batched import BatchedTrainer
from simfl.learning.datasets.base import Examples
from simfl.learning.job import LocalTraining
from simfl.learning.minibatch import plain_loss
from simfl.learning.models.base import as_module
from simfl.learning.models.mlp import Mlp
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.learning.trainer import LocalJob

CLIENTS, SHAPE = 20, (1, 8, 8)
LOCAL = LocalTraining(epochs=5, batch_size=None, learning_rate=0.05)
SHIPPED = (
    "fedprox fednova fedopt dp_fedavg secure_aggregation scaffold feddyn moon ditto pfedme fedrep"
)
SETTINGS: dict[str, dict[str, Any]] = {
    "fedrep": {"head_epochs": 4, "local": replace(LOCAL, epochs=1)},
}
"""So that a job has five passes, too."""


class Bench:
    """One algorithm with clients, before its first round."""

    def __init__(self, name: str, rows: int) -> None:
        part = registry.shipped("algorithms", name)
        assert part is not None
        self.algorithm: Algorithm = part(**{"local": LOCAL, **SETTINGS.get(name, {})})
        self.algorithm = self.algorithm.among(CLIENTS)
        generator = torch.Generator().manual_seed(0)
        shards = [
            Examples(
                torch.rand(rows, *SHAPE, generator=generator),
                torch.randint(0, 10, (rows,), generator=generator),
            )
            for _ in range(CLIENTS)
        ]
        factory = partial(as_module, Mlp(), SHAPE, 10)
        self.network = Network(factory, SHAPE, Objective("classification"))
        facts = {client: ClientFacts(rows) for client in range(CLIENTS)}
        self.state = self.algorithm.start(self.network, facts, None, 0)  # type: ignore[arg-type]
        plain = part.loss is Algorithm.loss
        loss = plain_loss if plain else self.algorithm.loss
        self.trainer = BatchedTrainer(self.network, shards, loss, share=True)
        self.jobs = 0

    @property
    def work(self) -> float:
        """Passes of plain training that a client update is."""
        local = self.algorithm.recipe(self.network, 0).local
        return self.algorithm.price(self.network, 0, 0).work * float(local.passes(30))

    def train(self) -> float:
        """Processor seconds of one round of all clients."""
        began = time.process_time()
        futures = []
        for client in range(CLIENTS):
            self.jobs += 1
            brief = partial(self.algorithm.brief, self.network, self.state, client, -1)
            job = LocalJob(str(self.jobs), client, self.jobs, 0, make_brief=brief)
            futures.append(self.trainer.submit(job))
        for future in futures:
            future.result()
        return time.process_time() - began


def main() -> None:
    """Print one row per algorithm."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--algorithms", nargs="+", default=SHIPPED.split())
    parser.add_argument("--rows", nargs="+", type=int, default=[30, 240])
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    heads = [f"updates/s, {rows} rows | FLOP/s" for rows in arguments.rows]
    print(f"| algorithm | work of an update | {' | '.join(heads)} |")
    print("| --- " * (2 + 2 * len(heads)) + "|")
    for name in arguments.algorithms:
        cells = []
        for rows in arguments.rows:
            base, bench = Bench("fedavg", rows), Bench(name, rows)
            base.train(), bench.train()
            turns = [base.train() / bench.train() for _ in range(arguments.repeats)]
            speed, work = statistics.median(turns), bench.work / base.work
            cells += [f"{speed:.2f}", f"{speed * work:.2f}"]
        print(f"| `{name}` | {work:.2f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
