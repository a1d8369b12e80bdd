"""FLGo: federated averaging on a task of its own format, made in a temporary folder."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from pathlib import Path

from stopwatch import A_ROUND, BATCH, CLIENTS, EPOCHS, RATE, Job

TASK = """
import sys
import torch
from torch.utils.data import TensorDataset
sys.path.insert(0, {drivers!r})
from common import mlp, shards_of

shards = shards_of({data!r})
inputs, labels = (torch.cat(column) for column in zip(*shards))
train_data = TensorDataset(inputs, labels)
val_data = None
test_data = TensorDataset(inputs[:10], labels[:10])

def get_model(*arguments, **settings):
    return mlp(inputs.shape[1])
"""


def main() -> None:
    """Run it."""
    job = Job()
    data, drivers = str(job.data.resolve()), str(Path(__file__).resolve().parent)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # it imports what it makes relative to where it is
        sys.path.insert(0, folder)
        import flgo  # which reads the current folder
        from flgo.algorithm import fedavg
        from flgo.benchmark.partition import IIDPartitioner
        from flgo.benchmark.toolkits.cv.classification import FromDatasetPipe

        # torch now asks this of a Subset with a __getitem__ of its own
        FromDatasetPipe.TaskDataset.__getitems__ = lambda own, rows: [own[row] for row in rows]

        class Server(fedavg.Server):
            """Takes the time."""

            def iterate(self) -> object:
                """One round."""
                result = super().iterate()
                job.round_ended()
                return result

        class Algorithm:
            """What is run."""

            Client = fedavg.Client

        Algorithm.Server = Server
        Path("config.py").write_text(TASK.format(data=data, drivers=drivers))
        benchmark = importlib.import_module(flgo.gen_benchmark_from_file("peers", "config.py"))
        benchmark.visualize = lambda *_: None  # it would draw a figure of the partition
        flgo.gen_task_by_(benchmark, IIDPartitioner(num_clients=CLIENTS), "task")
        runner = flgo.init(
            "task",
            Algorithm,
            {
                "num_rounds": job.rounds,
                "num_epochs": EPOCHS,
                "batch_size": BATCH,
                "learning_rate": RATE,
                "proportion": A_ROUND / CLIENTS,
                "train_holdout": 0.0,
                "eval_interval": job.rounds,
                "num_workers": 0,
            },
        )
        runner.run()
        os.chdir(drivers)
    job.report()


if __name__ == "__main__":
    main()
