"""Models of which a part is not trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import simfl
from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.learning.job import Memory
from simfl.learning.sequential import SequentialTrainer
from simfl.learning.task import Task

MODEL = """
from torch import nn

class HalfFixed(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
        for one in self[1].parameters():
            one.requires_grad_(False)
"""
ALGORITHMS = ["fedavg", "cffl", "cgsv", "fedave", "ditto", "pfedme", "scaffold", "feddyn", "moon"]


def scenario(folder: Path, algorithm: str) -> simfl.Scenario:
    """Four clients with a perceptron whose first layer is fixed."""
    (folder / "own.py").write_text(MODEL)
    content: dict[str, Any] = {
        "data": {"name": "digits", "validation_share": 0.1, "partition": "iid"},
        "model": {"name": f"{folder / 'own.py'}:HalfFixed"},
        "population": {
            "name": "catalogue",
            "clients": 4,
            "groups": [{"device": "rpi_4b", "link": "wifi5_ac"}],
        },
        "algorithm": {"name": algorithm, "local": {"epochs": 1}},
        "protocol": "synchronous",
        "stop": {"versions": 2},
    }
    return simfl.Scenario.from_mapping(content)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_algorithms_train_the_rest(algorithm: str, tmp_path: Path) -> None:
    """Those that reward with sparse changes used to end with a KeyError."""
    run = simfl.run(scenario(tmp_path, algorithm), tmp_path / "run")

    assert run.manifest["status"] == "completed"
    forms = {one["what"]: one["form"] for one in run.manifest["trained_by"]}
    assert forms["gradients"] != "by hand"


@pytest.mark.parametrize("algorithm", ["ditto", "pfedme"])
def test_personal_models_keep_fixed_parameters(algorithm: str, tmp_path: Path) -> None:
    """As the global model does."""
    simulation = assemble(scenario(tmp_path, algorithm), Options(device="cpu"))
    network, chosen = simulation.network, simulation.algorithm
    examples = simulation.partitioned.clients[0]
    trainer = SequentialTrainer(network, [examples], chosen.loss)
    state = chosen.start(network, {0: None}, None, 0)
    brief = chosen.brief(network, state, 0, -1)

    (update,) = trainer.train([Task(0, 0, 0, brief, Memory(), trainer.shards[0], None)])

    (served,) = chosen.served(state, 0, update.memory)
    assert torch.equal(served["1.weight"], state.weights["1.weight"])
    assert not torch.equal(served["3.weight"], state.weights["3.weight"])
