"""Workers of a cluster change no bit, whatever befalls them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from torch import Tensor, nn

from simfl.learning.batched import BatchedTrainer
from simfl.learning.job import LocalTraining, Recipe
from simfl.learning.minibatch import plain_loss
from simfl.learning.models.base import as_module
from simfl.learning.models.cnn import Cnn
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.learning.trainer import Trainer
from simfl.learning.workers.remote import RemoteTrainer
from simfl.provenance.lineage import numeric_platform
from tests.learning.clusters import Cluster
from tests.learning.training import IMAGE, SIZES, assert_same_bits, shards, submit


class Noisy(nn.Module):
    """A perceptron that draws its own random numbers, so that it has no batched form."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        """Images (rows, 1, 8, 8) to logits (rows, 3)."""
        outputs = self.layer(inputs.flatten(1))
        return outputs + 0.1 * outputs.new_empty(outputs.shape).normal_()


def trainers(factory: Any, *fates: Any, **settings: Any) -> tuple[Trainer, Trainer]:
    """One that trains here, and one on a cluster of three workers."""
    network = Network(factory, IMAGE, Objective("classification"))
    remote = RemoteTrainer(
        network,
        shards(),
        plain_loss,
        cluster=Cluster(*fates),
        workers=3,
        device="cpu",
        describe=numeric_platform,
        platform=numeric_platform(network),
        give_up_s=0.05,
        **settings,
    )
    return BatchedTrainer(network, shards(), plain_loss), remote


@pytest.mark.parametrize(
    ("factory", "fates", "family"),
    [
        (partial(nn.Sequential, nn.Flatten(), nn.Linear(64, 3)), (), "stacked"),
        (partial(as_module, Cnn((4,)), IMAGE, 3), ("", "hangs"), "stacked"),
        (Noisy, ("killed",), "loop"),
    ],
    ids=["linear", "cnn with one that hangs", "loop with one that is killed"],
)
def test_a_cluster_changes_no_bit(
    factory: Any, fates: Any, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two chained jobs of all clients, with what they keep, come back as they do from here."""
    local = LocalTraining(epochs=1, batch_size=8, momentum=0.9, keep_optimizer=True)
    recipe = Recipe(local, measure=frozenset({"loss_before"}))
    results = []
    for trainer in trainers(factory, *fates):
        assert trainer.network.kernel_family == family
        first = [submit(trainer, client, recipe) for client in range(len(SIZES))]
        second = [
            submit(trainer, client, recipe, previous=first[client], number=1)
            for client in range(len(SIZES))
        ]
        results.append([future.result() for future in [*first, *second]])
    assert len(trainer.notices()) == len(fates[-1:])
    for expected, update in zip(*results, strict=True):
        assert_same_bits(update, expected)
        assert update.measures == expected.measures
