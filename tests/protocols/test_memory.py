"""What a long run keeps: the present, not its history."""

import gc
from collections import Counter

import pytest
import torch

from simfl.algorithms.base import ServerState
from simfl.learning.job import Update
from simfl.learning.trainer import Future, LocalJob
from simfl.protocols.state_ref import StateRef
from tests.small import SEMI_ASYNCHRONOUS, simulated, small

KEPT = (torch.Tensor, ServerState, Update, StateRef, Future, LocalJob)
VERSIONS = 120


def alive():
    """How many objects of each kind are still referred to."""
    gc.collect()
    kinds = Counter(type(one) for one in gc.get_objects())
    return {kind.__name__: kinds[kind] for kind in KEPT}


@pytest.mark.parametrize(
    ("algorithm", "protocol", "evaluate_every"),
    [
        ("fedavg", "synchronous", 20),
        ("fedavg", {**SEMI_ASYNCHRONOUS, "edge_rounds": 1}, 1),
        ("standalone", {**SEMI_ASYNCHRONOUS, "edge_rounds": 1}, 1),
    ],
)
def test_learned_values_do_not_pile_up(algorithm, protocol, evaluate_every):
    """After 120 versions as many states, jobs and tensors are alive as after 40.

    Clients keep memories (Adam's state) from job to job, and nothing that a memory was made from.
    """
    seen = {}
    local = {"batch_size": 16, "learning_rate": 0.001, "optimizer": "adam", "keep_optimizer": True}
    scenario = small(
        data={"name": "synthetic", "examples": 24, "test_examples": 8, "features": 4},
        model="linear",
        population={"clients": 3},
        algorithm={"name": algorithm, "local": local},
        protocol=protocol,
        evaluate={"every": evaluate_every},
        stop={"versions": VERSIONS},
    )

    def watch(progress):
        if progress.version % 40 == 0:
            seen[progress.version] = alive()

    simulated(scenario, watch=watch, trainer="sequential")

    assert seen[40]["StateRef"] > 0 and seen[40]["Future"] > 0
    for kind, count in seen[40].items():
        assert seen[VERSIONS][kind] <= count + 10, kind


def test_many_unread_versions_are_read_at_once():
    """A run that reads nothing until its end comes to the same values, whatever lies behind."""
    scenario = small(
        data={"name": "synthetic", "examples": 8, "test_examples": 8, "features": 2},
        model="linear",
        population={"clients": 1, "edges": 1},
        evaluate={"every": 400},
        stop={"versions": 400},
    )

    run = simulated(scenario)[1]

    assert run.values.trainer.trained == 400
