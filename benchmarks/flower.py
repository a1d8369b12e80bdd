"""What simfl adds to the time of a Flower app's own ClientApps: `python -m benchmarks.flower`.

1,000 nodes, 50 a round, a convolutional network of 62,006 weights on 400 made-up images a node, one
epoch in batches of 32; nobody evaluates. The ClientApps' own time is that of the same calls without
simfl, in the same process: CPU seconds of one thread. Needs Flower (docs/flower.md).
"""

from __future__ import annotations

import logging
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from simfl import Options, flower
from simfl.bridges.flower_app import FlowerApp, addressed, packed
from simfl.provenance.results import FolderStore
from simfl.runs.execution import run

NODES, PER_ROUND, ROUNDS, ROWS = 1000, 50, 3, 400

PYPROJECT = f"""
[project]
name = "measured"
version = "1.0.0"
[tool.flwr.app]
publisher = "simfl"
[tool.flwr.app.components]
serverapp = "measured_app.server:app"
clientapp = "measured_app.client:app"
[tool.flwr.app.config]
rounds = {ROUNDS}
"""

CLIENT = f"""
import torch
from torch import nn
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()

def network():
    return nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84),
        nn.ReLU(), nn.Linear(84, 10),
    )

@app.train()
def train(message, context):
    model = network()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    made = torch.Generator().manual_seed(context.node_config["partition-id"])
    images, labels = torch.randn({ROWS}, 3, 32, 32, generator=made), torch.arange({ROWS}) % 10
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for rows in torch.randperm({ROWS}).split(32):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
        optimizer.step()
    metrics = MetricRecord({{"num-examples": {ROWS}}})
    content = RecordDict({{"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}})
    return Message(content, reply_to=message)
"""

SERVER = f"""
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from measured_app.client import network

app = ServerApp()

@app.main()
def main(grid, context):
    strategy = FedAvg(fraction_train={PER_ROUND / NODES}, fraction_evaluate=0.0)
    arrays = ArrayRecord(network().state_dict())
    strategy.start(grid, arrays, num_rounds=context.run_config["rounds"])
"""

POPULATION = {
    "name": "catalogue",
    "clients": NODES,
    "groups": [
        {"device": "rpi_4b", "link": "wifi5_ac", "share": 0.5},
        {"device": "phone_high_sd865", "link": "lte_2021", "share": 0.5},
    ],
    "compute_noise": 0.1,
    "transfer_noise": 0.1,
}


def main() -> None:
    """Measure and print."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as temporary:
        folder = _app(Path(temporary) / "app")
        runs = Path(temporary) / "runs"
        told: list[tuple[float, float]] = []

        def tell(_: object) -> None:
            told.append((time.process_time(), time.perf_counter()))

        scenario = flower.scenario(folder, population=POPULATION)
        options = Options(store=FolderStore(runs / "answers"), watch=tell)
        tell(None)
        run(scenario, runs / "run", options)
        own_s = _bare(folder, PER_ROUND)
    print(f"{NODES} nodes, {PER_ROUND} a round: CPU seconds (wall seconds)")
    print(f"  the ClientApps of a round alone     {own_s:6.2f}")
    for number, ((cpu_s, wall_s), (next_cpu_s, next_wall_s)) in enumerate(pairwise(told), start=1):
        spent_s = next_cpu_s - cpu_s
        more = f"{spent_s - own_s:+.2f} s, {100 * (spent_s / own_s - 1):+.1f} %"
        print(f"  round {number} under simfl               {spent_s:6.2f}  {more}", end="")
        print(f"  ({next_wall_s - wall_s:.1f})")


def _app(folder: Path) -> Path:
    module = folder / "measured_app"
    module.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    for name, text in (("__init__", ""), ("client", CLIENT), ("server", SERVER)):
        (module / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


def _bare(folder: Path, calls: int) -> float:
    """CPU seconds of so many calls of the ClientApp, and of nothing else."""
    app = FlowerApp(folder, {})
    from flwr.app import ArrayRecord, Context, Message, RecordDict
    from measured_app.client import network

    content = RecordDict({"arrays": ArrayRecord(network().state_dict())})
    message = addressed(Message(content, 10**18, "train"), packed(content), 1)
    began = time.process_time()
    for client in range(calls):
        node = {"partition-id": client, "num-partitions": NODES}
        app.client(message, Context(1, client, node, RecordDict(), {}))
    spent_s = time.process_time() - began
    app.close()
    return spent_s


if __name__ == "__main__":
    main()
