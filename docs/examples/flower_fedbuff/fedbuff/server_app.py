"""FedBuff (Nguyen et al., AISTATS 2022): a server that never waits for a whole round.

`concurrency` clients are under way at any time. As soon as `buffer-size` of them have answered, the
server steps by the mean of their changes, each divided by sqrt(1 + staleness). Under simfl the
replies arrive when the simulated devices send them, and `pull_messages` moves the clock.
"""

from __future__ import annotations

import random

import torch
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from fedbuff.task import network, test
from simfl import flower

app = ServerApp()

Weights = dict[str, torch.Tensor]


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Step by step, until there are `versions` of the model."""
    config = context.run_config
    model = network()
    weights: Weights = {name: one.clone() for name, one in model.state_dict().items()}
    under_way: dict[str, tuple[int, int, Weights]] = {}  # message -> node, version, start
    buffer: list[Weights] = []
    version = 0
    while version < config["versions"]:
        busy = {node for node, _, _ in under_way.values()}
        idle = [node for node in grid.get_node_ids() if node not in busy]
        chosen = random.sample(idle, min(len(idle), config["concurrency"] - len(under_way)))
        content = RecordDict({"arrays": ArrayRecord(weights)})
        sent = [Message(content, dst_node_id=node, message_type="train") for node in chosen]
        for identifier, node in zip(grid.push_messages(sent), chosen, strict=True):
            under_way[identifier] = node, version, weights
        while not (replies := list(grid.pull_messages(under_way))):
            pass  # nothing yet: the next question moves the simulated clock to the next reply
        for reply in replies:
            _, started, start = under_way.pop(reply.metadata.reply_to_message_id)
            if reply.has_content():
                trained = reply.content["arrays"].to_torch_state_dict()
                share = (1 + version - started) ** -0.5
                buffer.append({name: share * (trained[name] - start[name]) for name in start})
        if len(buffer) >= config["buffer-size"]:
            rate = config["server-rate"] / len(buffer)
            weights = {
                name: one + rate * sum(change[name] for change in buffer)
                for name, one in weights.items()
            }
            buffer, version = [], version + 1
            model.load_state_dict(weights)
            loss, accuracy = test(model)
            flower.record(accuracy=accuracy, loss=loss)
