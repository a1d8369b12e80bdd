"""Flower apps for tests: a small network on made-up data, and servers of several kinds."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

PYPROJECT = """
[project]
name = "small"
version = "1.0.0"

[tool.flwr.app]
publisher = "tests"

[tool.flwr.app.components]
serverapp = "small_app.server:app"
clientapp = "small_app.client:app"

[tool.flwr.app.config]
rounds = 2
sizes = ""
fraction-evaluate = 1.0
fails = ""
"""

CLIENT = """
import random
import numpy as np
import torch
from torch import nn
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()
EPOCHS, BATCH = 2, 16

def network():
    return nn.Sequential(nn.Linear(20, 8), nn.ReLU(), nn.Linear(8, 3))

def data(context):
    part, sizes = context.node_config["partition-id"], context.run_config["sizes"]
    rows = int(sizes.split(",")[part]) if sizes else 40
    made = torch.Generator().manual_seed(part)
    inputs = torch.randn(rows, 20, generator=made)
    return inputs, inputs[:, :3].argmax(1)

def received(message):
    net = network()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    return net

@app.train()
def train(message, context):
    turn = int(context.state["own"]["turns"]) if "own" in context.state else 0
    context.state["own"] = MetricRecord({"turns": turn + 1})
    if f"{context.node_config['partition-id']}:{turn}" == context.run_config["fails"]:
        raise RuntimeError("out of order")
    net, (inputs, labels) = received(message), data(context)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(EPOCHS):
        order = torch.randperm(len(inputs))
        for place in range(0, len(inputs), BATCH):
            rows = order[place : place + BATCH]
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(inputs[rows]), labels[rows]).backward()
            optimizer.step()
    drawn = random.random() + np.random.rand()
    metrics = {"num-examples": len(inputs), "drawn": drawn, "turns": turn + 1}
    content = {"arrays": ArrayRecord(net.state_dict()), "metrics": MetricRecord(metrics)}
    return Message(RecordDict(content), reply_to=message)

@app.evaluate()
def evaluate(message, context):
    net, (inputs, labels) = received(message), data(context)
    with torch.no_grad():
        made = net(inputs)
    loss = nn.functional.cross_entropy(made, labels).item()
    right = (made.argmax(1) == labels).float().mean().item()
    metrics = {"num-examples": len(inputs), "eval_loss": loss, "eval_acc": right}
    return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)

@app.query()
def query(message, context):
    return Message(RecordDict({"said": MetricRecord({"one": 1})}), reply_to=message)
"""

SERVER = """
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from small_app.client import network

app = ServerApp()

@app.main()
def main(grid, context):
    config = context.run_config
    share = config["fraction-evaluate"]
    least = 2 if share else 0  # Flower 1.21 asks so many at any share
    strategy = FedAvg(fraction_evaluate=share, min_evaluate_nodes=least)
    strategy.start(grid, ArrayRecord(network().state_dict()), num_rounds=config["rounds"])
"""

OLD_CLIENT = (
    CLIENT[: CLIENT.index("@app.train()")].replace("app = ClientApp()", "")
    + """
from flwr.client import NumPyClient

class Client(NumPyClient):
    def __init__(self, context):
        self.net, (self.inputs, self.labels) = network(), data(context)
        self.part, self.fails = context.node_config["partition-id"], context.run_config["fails"]

    def get_parameters(self, config):
        return [one.detach().numpy() for one in self.net.state_dict().values()]

    def load(self, parameters):
        names = list(self.net.state_dict())
        self.net.load_state_dict(dict(zip(names, map(torch.tensor, parameters))))

    def fit(self, parameters, config):
        if f"{self.part}:{config['round'] - 1}" == self.fails:
            raise RuntimeError("out of order")
        self.load(parameters)
        optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        for rows in torch.randperm(len(self.inputs)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(self.net(self.inputs[rows]), self.labels[rows]).backward()
            optimizer.step()
        return self.get_parameters({}), len(self.inputs), {}

    def evaluate(self, parameters, config):
        self.load(parameters)
        with torch.no_grad():
            made = self.net(self.inputs)
        loss = nn.functional.cross_entropy(made, self.labels).item()
        right = (made.argmax(1) == self.labels).float().mean().item()
        return loss, len(self.inputs), {"accuracy": right}

app = ClientApp(client_fn=lambda context: Client(context).to_client())
"""
)

OLD_SERVER = """
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg

def server_fn(context):
    strategy = FedAvg(min_available_clients=4, on_fit_config_fn=lambda now: {"round": now})
    config = ServerConfig(num_rounds=context.run_config["rounds"], round_timeout=5000.0)
    return ServerAppComponents(strategy=strategy, config=config)

app = ServerApp(server_fn=server_fn)
"""


def write_app(folder: Path, *, server: str = SERVER, client: str = CLIENT) -> Path:
    """An app's folder."""
    module = folder / "small_app"
    module.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (module / "__init__.py").write_text("", encoding="utf-8")
    for name, text in (("server", server), ("client", client)):
        (module / f"{name}.py").write_text(dedent(text), encoding="utf-8")
    return folder


def server_of(body: str) -> str:
    """A ServerApp whose main does this: `grid`, `context`, `message(node, kind)` are there."""
    head = """
    import time
    from flwr.app import ArrayRecord, Message, RecordDict
    from flwr.serverapp import ServerApp
    from small_app.client import network
    from simfl import flower

    app = ServerApp()

    def message(node, kind="train", ttl=None):
        content = RecordDict({"arrays": ArrayRecord(network().state_dict())})
        return Message(content, node, kind, ttl=ttl)

    @app.main()
    def main(grid, context):
    """
    inner = "\n".join(f"        {line}" for line in dedent(body).strip().splitlines())
    return dedent(head).rstrip() + "\n" + dedent(inner).replace("\n", "\n    ").join(["    ", "\n"])
