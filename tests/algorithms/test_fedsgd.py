"""FedSGD's server step, where gradients are of different versions."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from simfl.algorithms.fedsgd import FedSGD
from simfl.learning.job import Brief, LocalTraining, Memory, Price, Recipe, Update
from tests.algorithms.made import aggregated, state_at


@pytest.mark.parametrize("versions", [(3, 0), (0, 3), (3, 3)])
def test_the_step_is_of_the_servers_own_learning_rate(versions: tuple[int, int]) -> None:
    """0.5^3 at version 3, whichever client's gradient is a late one, of a rate before."""
    local = LocalTraining(learning_rate=1.0, learning_rate_decay=0.5)
    state = replace(state_at([0.0]), version=3)

    def gradient(client: int, version: int) -> Update:
        recipe = Recipe(local.at(version), kind="gradient")
        payload = {"weight": torch.ones(1, dtype=torch.float64)}
        brief = Brief(state.weights, recipe, Price(0, 0))
        return Update(client, brief, payload, Memory(), num_examples=10, version=version)

    updates = [gradient(client, version) for client, version in enumerate(versions)]

    assert aggregated(FedSGD(local=local), state, *updates) == [-0.125]
