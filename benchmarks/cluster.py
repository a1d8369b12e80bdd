"""What does a Ray cluster cost a run, and how well does it keep its workers busy?

    python benchmarks/cluster.py [--rounds 5] [--workers 16] [--address local]

One worker against none: rounds of 50 clients (5 epochs, batches of 32, SGD) through simfl's
trainer, here and at one Ray worker in turns. Ratios of wall seconds, and of CPU seconds of this
process and of the worker together; medians over the rounds, of which the first does not count.
Goal: at most 1.10.

Orchestration alone: rounds of 160 jobs, each a fixed wait of 50 ms instead of training, here and at
16 workers, with sums at the workers, and for an algorithm that looks at single updates. Goal: at
least 12 times as fast, on a machine with nothing else to do. Bytes are those of tensors that go
through this process in a round, both ways: what is put for all, what is asked, what is answered.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from training import WORK, Bench
from waiting import JOB_S, waiting_loss

from simfl.algorithms.fedavg import FedAvg
from simfl.learning.batched import BatchedTrainer
from simfl.learning.datasets.base import Examples
from simfl.learning.job import LocalTraining
from simfl.learning.minibatch import plain_loss
from simfl.learning.network import Network
from simfl.learning.trainer import Loss, Trainer
from simfl.learning.workers.on_ray import RayCluster, RayLine, RayWorkers
from simfl.learning.workers.packed_requests import Bundle, Crate
from simfl.learning.workers.remote import RemoteTrainer
from simfl.provenance.lineage import numeric_platform

WAITING_JOBS = 160


class Counted(RayCluster):
    """Counts the bytes that go through this process, and knows its workers' processes."""

    def __init__(self, workers: RayWorkers) -> None:
        super().__init__(workers)
        self.bytes = 0
        self.lines: list[RayLine] = []
        self.asked: set[RayLine] = set()

    def line(self) -> RayLine:
        """A new worker."""
        line = super().line()
        assert isinstance(line, RayLine)
        ask = line.ask

        def counted(crate: Crate, *rest: Any) -> Any:
            self.bytes += crate.own.flat.nbytes
            self.asked.add(line)
            return ask(crate, *rest)

        line.ask = counted  # type: ignore[method-assign]
        self.lines.append(line)
        return line

    def put(self, value: Any) -> Any:
        """Tensors are counted; what workers begin with is not: it is sent once a run."""
        if isinstance(value, Bundle):
            self.bytes += value.flat.nbytes
        return super().put(value)

    def get(self, handle: Any) -> Any:
        """An answer."""
        value = super().get(handle)
        if isinstance(value, Crate):
            self.bytes += value.own.flat.nbytes
        return value

    def all_there(self, count: int) -> bool:
        """Whether so many workers have been asked for jobs."""
        return len(self.asked) >= count

    def cpu_s(self) -> float:
        """CPU seconds that the workers have taken, where /proc says so."""
        ticks = 0
        for line in self.lines:
            process = re.findall(r"process (\d+)", line.where())
            stat = Path(f"/proc/{process[0]}/stat").read_text(encoding="ascii")
            ticks += sum(map(int, stat.rpartition(")")[2].split()[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")


def remote(
    cluster: RayCluster, network: Network, shards: Sequence[Examples], loss: Loss, workers: int
) -> RemoteTrainer:
    """The trainer of a cluster, as a run makes it."""
    return RemoteTrainer(
        network,
        shards,
        loss,
        cluster=cluster,
        workers=workers,
        device="cpu",
        describe=numeric_platform,
        platform=numeric_platform(network),
        give_up_s=600.0,
    )


def one_round(
    bench: Bench, trainer: Trainer, algorithm: FedAvg, clients: int, *, look: bool = False
) -> None:
    """A round as a run makes it: jobs, their updates, and the mean; `look`: at single updates."""
    updates = [future.result() for future in bench.submitted(trainer, algorithm, clients)]
    if look:
        updates = [replace(update, payload=dict(update.payload)) for update in updates]
    bench.state = algorithm.aggregate(bench.state, updates, None)  # type: ignore[arg-type]


def timed(call: Callable[[], None], cpu_s: Callable[[], float]) -> tuple[float, float]:
    """Wall and CPU seconds of a call."""
    began, cpu = time.perf_counter(), time.process_time() + cpu_s()
    call()
    return time.perf_counter() - began, time.process_time() + cpu_s() - cpu


def one_worker(name: str, rounds: int, workers: RayWorkers) -> None:
    """A row: one worker against none."""
    work, clients = WORK[name], 50
    bench = Bench(work, clients, [])
    shards = [Examples(*one) for one in bench.shards]
    local = LocalTraining(epochs=5, batch_size=32, learning_rate=0.01)
    cluster = Counted(workers)
    here = BatchedTrainer(bench.network, shards, plain_loss)
    there = remote(cluster, bench.network, shards, plain_loss, 1)
    rows = []
    for _ in range(rounds + 1):
        calls = [partial(one_round, bench, one, FedAvg(local), clients) for one in (here, there)]
        cluster.bytes = 0
        rows.append([timed(calls[0], lambda: 0.0), timed(calls[1], cluster.cpu_s)])
    wall, cpu = (
        statistics.median(there[kind] / here[kind] for here, there in rows[1:]) for kind in (0, 1)
    )
    print(f"{name:14s} {wall:12.2f} {cpu:12.2f} {cluster.bytes / 1e6:14.1f}", flush=True)
    there.pool.close()


def orchestration(rounds: int, count: int, workers: RayWorkers) -> None:
    """Rows: waits, here and spread, with sums at the workers and without."""
    bench = Bench(WORK["digits MLP"], WAITING_JOBS, [])
    shards = [Examples(*one).take(torch.arange(8)) for one in bench.shards]
    local = LocalTraining(steps=1, batch_size=8, learning_rate=0.01)
    here = WAITING_JOBS * JOB_S
    print(
        f"{WAITING_JOBS} waits of {1000 * JOB_S:.0f} ms instead of training: {here:.2f} s in a row"
    )
    for look in (False, True):
        # Each row has a trainer of its own: one that has learnt what is asked of it goes on so.
        cluster = Counted(workers)
        there = remote(cluster, bench.network, shards, waiting_loss, count)
        call = partial(one_round, bench, there, FedAvg(local), WAITING_JOBS, look=look)
        call()
        while not cluster.all_there(count):  # until then those that are there do the work of all
            call()
        seconds = []
        for _ in range(rounds + 1):
            cluster.bytes = 0
            seconds.append(timed(call, lambda: 0.0))
        spent, cpu = (statistics.median(one[kind] for one in seconds[1:]) for kind in (0, 1))
        print(
            f"{count} workers, {'single updates sent' if look else 'sums at the workers'}:"
            f" {spent:.2f} s, {here / spent:.1f} times as fast,"
            f" {cluster.bytes / 1e6:.1f} MB and {cpu:.2f} CPU seconds of this process a round",
            flush=True,
        )
        there.pool.close()


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--address", default="local")
    parser.add_argument("--work", nargs="*", default=["mnist MLP", "digits CNN"])
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.work:
        print("one worker       of none's wall    of its CPU     MB a round")
    for name in given.work:
        one_worker(name, given.rounds, RayWorkers(given.address))
    # Waiting takes no core: many such workers fit on any machine.
    orchestration(given.rounds, given.workers, RayWorkers(given.address, cpus_per_worker=0.05))


if __name__ == "__main__":
    main()
