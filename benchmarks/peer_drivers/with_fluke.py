"""fluke: its federated averaging, without evaluations."""

from __future__ import annotations

from common import mlp, shards_of
from fluke import DDict, FlukeENV
from fluke.algorithms.fedavg import FedAVG
from fluke.data import FastDataLoader
from fluke.utils import ServerObserver
from stopwatch import A_ROUND, BATCH, CLASSES, CLIENTS, EPOCHS, RATE, Job


class Splitter:
    """The clients' data as fluke asks for it."""

    def __init__(self, shards: list) -> None:
        self._shards = shards

    def assign(self, clients: int, batch_size: int) -> tuple:
        """Training sets, no test sets."""
        loaders = [
            FastDataLoader(*shard, num_labels=CLASSES, batch_size=batch_size, shuffle=True)
            for shard in self._shards
        ]
        return (loaders, [None] * clients), None


class Watch(ServerObserver):
    """Takes the time."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def end_round(self, round: int) -> None:  # noqa: A002  # fluke's name
        """A round has ended."""
        self._job.round_ended()


def main() -> None:
    """Run it."""
    job = Job()
    shards = shards_of(job.data)
    environment = FlukeENV()
    environment.set_seed(0)
    environment.set_device("cpu")
    environment.set_eval_cfg(locals=False, server=False, pre_fit=False, post_fit=False)
    settings = DDict(
        model=mlp(job.features),
        client=DDict(
            batch_size=BATCH,
            local_epochs=EPOCHS,
            loss="CrossEntropyLoss",
            optimizer=DDict(name="SGD", lr=RATE),
            scheduler=DDict(name="StepLR", gamma=1, step_size=1),
        ),
        server=DDict(weighted=True),
    )
    algorithm = FedAVG(CLIENTS, Splitter(shards), settings)
    watch = Watch(job)
    algorithm.attach(watch)
    algorithm.server.attach(watch)
    algorithm.run(job.rounds, A_ROUND / CLIENTS)
    job.report()


if __name__ == "__main__":
    main()
