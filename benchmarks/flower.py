"""What simfl adds to the time of a Flower app's own ClientApps: `python -m benchmarks.flower`.

1,000 nodes, 50 a round, a convolutional network of 62,006 weights on 400 made-up images a node, one
epoch in batches of 32; nobody evaluates. The first round has what happens once (imports, torch's
first calls, 1,000 nodes, counting): it is compared with the same calls of the ClientApp alone in a
fresh process, before and after. In later rounds every call under simfl is followed by the same one
alone, in the same process, so that what else the machine does falls on both. CPU seconds, of one
thread. Flower's own simulation engine (ray, all cores, wall seconds) runs the same app; it is
skipped where ray is not installed. Needs Flower: docs/flower.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

NODES, PER_ROUND, ROUNDS, ROWS = 1000, 50, 4, 400
MOMENTS = "SIMFL_BENCHMARK_MOMENTS"

PYPROJECT = """
[project]
name = "measured"
version = "1.0.0"
[tool.flwr.app]
publisher = "simfl"
[tool.flwr.app.components]
serverapp = "measured_app.server:app"
clientapp = "measured_app.client:app"
[tool.flwr.app.config]
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
from benchmarks.flower import tell
from measured_app.client import network

app = ServerApp()

class Timed(FedAvg):
    def aggregate_train(self, server_round, replies):
        replies = list(replies)
        for reply in replies:
            if reply.has_error():
                raise RuntimeError(reply.error.reason)
        made = super().aggregate_train(server_round, replies)
        tell()
        return made

@app.main()
def main(grid, context):
    strategy = Timed(fraction_train={PER_ROUND / NODES}, fraction_evaluate=0.0)
    strategy.start(grid, ArrayRecord(network().state_dict()), num_rounds={ROUNDS})
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
    with tempfile.TemporaryDirectory() as temporary:
        folder = _app(Path(temporary) / "app")
        (before,) = _moments(bare, folder)
        told = _moments(simfl, folder)
        (after,) = _moments(bare, folder)
        engine = _moments(flowers_own, folder) if find_spec("ray") else None
    print(f"{NODES} nodes, {PER_ROUND} a round: CPU seconds (wall seconds; {os.cpu_count()} cores)")
    print("round   the ClientApps alone    under simfl               more   Flower's own engine")
    for number, (spent_s, wall_s, between_s) in enumerate(told):
        alone_s = between_s if number else (before[0] + after[0]) / 2
        shown = f"{alone_s:.2f}" if number else f"{before[0]:.2f} and {after[0]:.2f}"
        theirs = f"({engine[number][1]:.1f})" if engine else "skipped: ray is not installed"
        print(
            f"{number + 1:5}   {shown:>21}   {spent_s:6.2f} ({wall_s:5.1f})"
            f"   {spent_s - alone_s:+6.2f} s {100 * (spent_s / alone_s - 1):+6.1f} %   {theirs}"
        )


alone_spent = {"cpu_s": 0.0, "wall_s": 0.0}
"""By calls that are made for comparison, which are no part of what is told."""


def tell() -> None:
    """Write down how much time has passed, of this process and of the wall's clock."""
    cpu_s, wall_s = alone_spent.values()
    with Path(os.environ[MOMENTS]).open("a", encoding="utf-8") as file:
        file.write(f"{time.process_time() - cpu_s} {time.perf_counter() - wall_s} {cpu_s}\n")


@cache
def _message() -> Any:
    from flwr.app import ArrayRecord, Message, RecordDict
    from measured_app.client import network

    from simfl.bridges.flower_app import addressed, identify, packed

    identify()
    content = RecordDict({"arrays": ArrayRecord(network().state_dict())})
    return addressed(Message(content, 10**18, "train"), packed(content), 1)


def alone(client: int) -> None:
    """A call of the ClientApp, and nothing else."""
    from flwr.app import Context, RecordDict
    from measured_app.client import app

    node = {"partition-id": client, "num-partitions": NODES}
    app(_message(), Context(1, client, node, RecordDict(), {}))


def bare(folder: Path) -> None:
    """A first round without anybody around it."""
    for client in range(PER_ROUND):
        alone(client)
    tell()


def simfl(folder: Path) -> None:
    """The app on simulated machines."""
    from simfl import Options, flower
    from simfl.bridges.flower_values import AppValues
    from simfl.provenance.results import FolderStore
    from simfl.runs.execution import run

    answer = AppValues.answer

    def answered(self: Any, message: Any, digest: str, client: int, *others: Any) -> Any:
        made = answer(self, message, digest, client, *others)
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        alone(client)
        alone_spent["cpu_s"] += time.process_time() - cpu_s
        alone_spent["wall_s"] += time.perf_counter() - wall_s
        return made

    AppValues.answer = answered
    runs = folder.parent / "runs"
    scenario = flower.scenario(folder, population=POPULATION)
    run(scenario, runs / "run", Options(store=FolderStore(runs / "answers")))


def flowers_own(folder: Path) -> None:
    """The app in Flower's own simulation."""
    from flwr.simulation import run_simulation
    from measured_app.client import app as client_app
    from measured_app.server import app as server_app

    run_simulation(server_app, client_app, num_supernodes=NODES)


def _moments(way: Callable[[Path], None], folder: Path) -> list[tuple[float, ...]]:
    """From one moment told to the next, of a process that goes that way: CPU, wall, alone."""
    moments = folder.parent / f"{way.__name__}-{time.monotonic_ns()}"
    paths = [str(folder), str(Path(__file__).parents[1])]
    known = {**os.environ, MOMENTS: str(moments), "OMP_NUM_THREADS": "1"}
    known["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])
    code = (
        "from pathlib import Path; from benchmarks import flower; flower.tell();"
        f" flower.{way.__name__}(Path({str(folder)!r}))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=known, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    lines = moments.read_text(encoding="utf-8").splitlines()
    told = [tuple(map(float, line.split())) for line in lines]
    return [tuple(b - a for a, b in zip(*two, strict=True)) for two in pairwise(told)]


def _app(folder: Path) -> Path:
    module = folder / "measured_app"
    module.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    for name, text in (("__init__", ""), ("client", CLIENT), ("server", SERVER)):
        (module / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


if __name__ == "__main__":
    main()
