"""What simfl adds to the time of a Flower app's own ClientApps: `python -m benchmarks.flower`.

1,000 nodes, 50 a round, a convolutional network of 62,006 weights on 400 made-up images a node, one
epoch in batches of 32; nobody evaluates. The first round has what happens once (imports, torch's
first calls, 1,000 nodes, counting): it is compared with the same calls of the ClientApp alone in a
fresh process, before and after. Later rounds are compared with calls that follow each of them in
the same process, the least of them with the least: other programs only add. CPU seconds, of one
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
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

NODES, PER_ROUND, ROUNDS, ROWS = 1000, 50, 4, 400
MOMENTS, ALONE = "SIMFL_BENCHMARK_MOMENTS", "SIMFL_BENCHMARK_ALONE"

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
from os import environ
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from benchmarks.flower import alone, tell
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
        if {ALONE!r} in environ:
            alone({PER_ROUND})
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
        told = _moments(simfl, folder, **{ALONE: "1"})
        (after,) = _moments(bare, folder)
        engine = _moments(flowers_own, folder) if find_spec("ray") else None
    cores = os.cpu_count()
    print(f"{NODES} nodes, {PER_ROUND} a round: CPU seconds (wall seconds; {cores} cores)")
    print("round   the ClientApps alone    under simfl               more   Flower's own engine")
    later: list[tuple[float, float]] = []
    for number, (spent, follows) in enumerate(zip(told[::2], told[1::2], strict=True)):
        alone_s = follows[0] if number else (before[0] + after[0]) / 2
        told_alone = f"{alone_s:.2f}" if number else f"{before[0]:.2f} and {after[0]:.2f}"
        theirs = f"({engine[number][1]:.1f})" if engine else "skipped: ray is not installed"
        print(
            f"{number + 1:5}   {told_alone:>21}   {spent[0]:6.2f} ({spent[1]:5.1f})"
            f"   {spent[0] - alone_s:+6.2f} s {_more(spent[0], alone_s)}   {theirs}"
        )
        later += [(alone_s, spent[0])] if number else []
    least_alone_s, least_s = map(min, zip(*later, strict=True))
    more = f"{least_s - least_alone_s:+6.2f} s {_more(least_s, least_alone_s)}"
    print(f"the least of later ones {least_alone_s:5.2f}   {least_s:6.2f}           {more}")


def tell() -> None:
    """Write down how much time has passed, of this process and of the wall's clock."""
    with Path(os.environ[MOMENTS]).open("a", encoding="utf-8") as file:
        file.write(f"{time.process_time()} {time.perf_counter()}\n")


def alone(calls: int) -> None:
    """So many calls of the ClientApp, and nothing else."""
    from flwr.app import ArrayRecord, Context, Message, RecordDict
    from measured_app.client import app, network

    from simfl.bridges.flower_app import addressed, identify, packed

    identify()
    content = RecordDict({"arrays": ArrayRecord(network().state_dict())})
    message = addressed(Message(content, 10**18, "train"), packed(content), 1)
    for client in range(calls):
        node = {"partition-id": client, "num-partitions": NODES}
        app(message, Context(1, client, node, RecordDict(), {}))


def bare(folder: Path) -> None:
    """A first round without anybody around it."""
    alone(PER_ROUND)
    tell()


def simfl(folder: Path) -> None:
    """The app on simulated machines."""
    from simfl import Options, flower
    from simfl.provenance.results import FolderStore
    from simfl.runs.execution import run

    runs = folder.parent / "runs"
    scenario = flower.scenario(folder, population=POPULATION)
    run(scenario, runs / "run", Options(store=FolderStore(runs / "answers")))


def flowers_own(folder: Path) -> None:
    """The app in Flower's own simulation."""
    from flwr.simulation import run_simulation
    from measured_app.client import app as client_app
    from measured_app.server import app as server_app

    run_simulation(server_app, client_app, num_supernodes=NODES)


def _moments(way: Callable[[Path], None], folder: Path, **more: str) -> list[tuple[float, float]]:
    """CPU and wall seconds from one moment told to the next, of a process that goes that way."""
    moments = folder.parent / f"{way.__name__}-{time.monotonic_ns()}"
    paths = [str(folder), str(Path(__file__).parents[1])]
    known = {**os.environ, MOMENTS: str(moments), "OMP_NUM_THREADS": "1", **more}
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
    return [(cpu - cpu0, wall - wall0) for (cpu0, wall0), (cpu, wall) in pairwise(told)]


def _more(spent_s: float, own_s: float) -> str:
    return f"{100 * (spent_s / own_s - 1):+6.1f} %"


def _app(folder: Path) -> Path:
    module = folder / "measured_app"
    module.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    for name, text in (("__init__", ""), ("client", CLIENT), ("server", SERVER)):
        (module / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


if __name__ == "__main__":
    main()
