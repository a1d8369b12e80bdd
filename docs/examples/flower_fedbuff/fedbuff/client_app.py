"""A client trains the model that it is sent, as in any Flower app."""

from __future__ import annotations

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn

from fedbuff.task import network, partition

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Some epochs of SGD on the client's own examples."""
    config, node = context.run_config, context.node_config
    model = network()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    images, labels = partition(int(node["partition-id"]), int(node["num-partitions"]))
    optimizer = torch.optim.SGD(model.parameters(), lr=config["learning-rate"])
    for _ in range(config["local-epochs"]):
        for rows in torch.randperm(len(labels)).split(config["batch-size"]):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[rows]), labels[rows])
            loss.backward()
            optimizer.step()
    metrics = MetricRecord({"num-examples": len(labels), "train_loss": loss.item()})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content, reply_to=message)
