"""FedLab: its standalone pipeline with the serial trainer."""

from __future__ import annotations

from common import mlp, shards_of
from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer
from fedlab.contrib.algorithm.basic_server import SyncServerHandler
from fedlab.core.standalone import StandalonePipeline
from stopwatch import A_ROUND, BATCH, CLIENTS, EPOCHS, RATE, Job
from torch.utils.data import DataLoader, TensorDataset


class Shards:
    """The clients' data as FedLab asks for it."""

    def __init__(self, shards: list) -> None:
        self._sets = [TensorDataset(*shard) for shard in shards]

    def get_dataloader(self, client: int, batch_size: int) -> DataLoader:
        """One client's batches."""
        return DataLoader(self._sets[client], batch_size=batch_size, shuffle=True)


class Pipeline(StandalonePipeline):
    """Takes the time instead of evaluating."""

    job: Job

    def evaluate(self) -> None:
        """A round has ended."""
        self.job.round_ended()


def main() -> None:
    """Run it."""
    job = Job()
    shards = shards_of(job.data)
    model = mlp(job.features)
    handler = SyncServerHandler(model, job.rounds, A_ROUND / CLIENTS)
    trainer = SGDSerialClientTrainer(model, CLIENTS)
    trainer.setup_dataset(Shards(shards))
    trainer.setup_optim(EPOCHS, BATCH, RATE)
    pipeline = Pipeline(handler, trainer)
    pipeline.job = job
    pipeline.main()
    job.report()


if __name__ == "__main__":
    main()
