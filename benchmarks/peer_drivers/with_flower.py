"""Flower: federated averaging in its simulation, which runs clients as Ray actors on all cores."""

from __future__ import annotations

import torch
from common import mlp, shards_of
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from stopwatch import A_ROUND, BATCH, CLIENTS, EPOCHS, RATE, Job
from torch.utils.data import DataLoader, TensorDataset

SHARDS: list = []
client_app = ClientApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """One client's local training."""
    torch.set_num_threads(1)
    if not SHARDS:
        SHARDS.extend(shards_of(message.content["config"]["data"]))
    inputs, labels = SHARDS[int(context.node_config["partition-id"])]
    model = mlp(inputs.shape[1])
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for _ in range(EPOCHS):
        for rows, targets in DataLoader(TensorDataset(inputs, labels), BATCH, shuffle=True):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(rows), targets).backward()
            optimizer.step()
    content = {
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord({"num-examples": len(labels), "trained": 1}),
    }
    return Message(content=RecordDict(content), reply_to=message)


def main() -> None:
    """Run it."""
    job = Job()
    server_app = ServerApp()

    @server_app.main()
    def serve(grid: Grid, context: Context) -> None:
        def ended(version: int, arrays: ArrayRecord) -> None:
            if version:
                job.round_ended()

        strategy = FedAvg(
            fraction_train=A_ROUND / CLIENTS, fraction_evaluate=0.0, min_available_nodes=CLIENTS
        )
        result = strategy.start(
            grid,
            ArrayRecord(mlp(job.features).state_dict()),
            num_rounds=job.rounds,
            train_config=ConfigRecord({"data": str(job.data)}),
            evaluate_fn=ended,
        )
        if len(result.train_metrics_clientapp) < job.rounds:  # it goes on without clients' replies
            raise RuntimeError("clients failed")

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server_app, client_app, CLIENTS, backend_config=resources)
    job.report()


if __name__ == "__main__":
    main()
