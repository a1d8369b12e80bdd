"""Workers change no bit, and are replaced when they die."""

from __future__ import annotations

import math
import os
import signal
from functools import partial
from pathlib import Path

import pytest
from torch import Tensor, nn

from simfl.learning.batched import BatchedTrainer
from simfl.learning.job import LocalTraining, Recipe
from simfl.learning.minibatch import Minibatch, plain_loss
from simfl.learning.models.base import as_module
from simfl.learning.models.cnn import Cnn
from simfl.learning.models.mlp import Mlp
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.learning.parameters import Parameters
from simfl.learning.workers import parallel
from simfl.learning.workers.parallel import ParallelTrainer
from simfl.learning.workers.pool import WorkerDied
from tests.learning.training import IMAGE, SIZES, assert_same_bits, shards, submit

RECIPE = Recipe(
    LocalTraining(epochs=2, batch_size=8, optimizer="adam", keep_optimizer=True),
    measure=frozenset({"loss_before"}),
)


def net(model: Mlp | Cnn) -> Network:
    """A float32 network that can be sent to workers."""
    return Network(partial(as_module, model, IMAGE, 3), IMAGE, Objective("classification"))


ALIKE = (16,) * 8


@pytest.fixture(autouse=True)
def _send_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs of these tests are small, and would not be sent."""
    monkeypatch.setattr(parallel, "FEWEST_FLOPS", 0.0)
    monkeypatch.setattr(parallel, "FEWEST_FLOPS_FOR_THREADS", 0.0)
    monkeypatch.setattr(parallel, "FEWEST_FLOPS_PER_JOB", 0.0)


@pytest.mark.parametrize(
    ("model", "most"), [(Mlp((13,)), 2), pytest.param(Cnn((4,)), 2, marks=pytest.mark.slow)]
)
def test_the_number_of_workers_changes_no_bit(model: Mlp | Cnn, most: int) -> None:
    """Two chained client rounds of all clients come back the same from none and from two workers.

    The loss before is measured on the module, which jobs share: processes compute it.
    """
    network = net(model)
    results = []
    for workers in (0, most):
        trainer = (
            ParallelTrainer(network, shards(), plain_loss, workers=workers)
            if workers
            else BatchedTrainer(network, shards(), plain_loss)
        )
        first = [submit(trainer, client, RECIPE) for client in range(len(SIZES))]
        second = [
            submit(trainer, client, RECIPE, previous=first[client], number=1)
            for client in range(len(SIZES))
        ]
        results.append([future.result() for future in [*first, *second]])
        if isinstance(trainer, ParallelTrainer):
            assert len(trainer.pool.processes()) == workers

    for result in results[1:]:
        for update, expected in zip(result, results[0], strict=True):
            assert_same_bits(update, expected)
            assert update.measures == expected.measures
            assert update.brief is not None and update.brief.start.keys() == set(
                network.tensor_names
            )


def once(flag: Path, parameters: Parameters, batch: Minibatch) -> Tensor:
    """The plain loss, but the first process to come here is killed as if for want of memory."""
    if not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return plain_loss(parameters, batch)


def always(parameters: Parameters, batch: Minibatch) -> Tensor:
    """Takes every process down."""
    os.kill(os.getpid(), signal.SIGKILL)
    return plain_loss(parameters, batch)


def wrong(parameters: Parameters, batch: Minibatch) -> Tensor:
    """A loss of the wrong shape."""
    return plain_loss(parameters, batch).sum()


def test_a_killed_worker_is_replaced_and_its_jobs_are_done(tmp_path: Path) -> None:
    """A worker that is killed in the middle of its work costs time, and no bit."""
    network, calm = net(Mlp((13,))), tmp_path / "calm"
    calm.touch()
    killed = ParallelTrainer(network, shards(), partial(once, tmp_path / "flag"), workers=2)
    undisturbed = BatchedTrainer(network, shards(), partial(once, calm))

    futures = [submit(killed, client, RECIPE) for client in range(len(SIZES))]

    for future in futures:
        expected = submit(undisturbed, future.client, RECIPE).result()
        assert_same_bits(future.result(), expected)
    assert (tmp_path / "flag").exists()


@pytest.mark.slow
def test_workers_killed_while_idle_are_replaced() -> None:
    """Whoever is gone when the next jobs come is replaced."""
    trainer = ParallelTrainer(net(Cnn((4,))), shards(), plain_loss, workers=1, cohort_cap=2)
    before = [submit(trainer, client, RECIPE) for client in range(len(SIZES))]
    before[0].result()
    old = trainer.pool.processes()
    for process in old:
        os.kill(process, signal.SIGKILL)

    again = [submit(trainer, client, RECIPE) for client in range(len(SIZES))]

    for left, right in zip(before, again, strict=True):
        assert_same_bits(left.result(), right.result())
    assert len(old) == len(trainer.pool.processes()) == 1
    assert not set(old) & set(trainer.pool.processes())


@pytest.mark.slow
def test_jobs_that_kill_every_worker_are_given_up() -> None:
    """After three deaths of the same jobs there is an error, and no process is left."""
    trainer = ParallelTrainer(net(Mlp((13,))), shards((9, 9)), always, workers=1, cohort_cap=1)
    futures = [submit(trainer, client, RECIPE) for client in range(2)]

    with pytest.raises(WorkerDied, match="exit code -9"):
        futures[0].result()

    assert trainer.pool.processes() == []


@pytest.mark.slow
def test_an_error_in_a_worker_is_raised_here() -> None:
    """Errors of a loss are the same as without workers."""
    trainer = ParallelTrainer(net(Mlp((13,))), shards((9, 9)), wrong, workers=1, cohort_cap=1)
    futures = [submit(trainer, client, RECIPE) for client in range(2)]

    with pytest.raises(ValueError, match="one value per job"):
        futures[0].result()


def test_what_cannot_be_sent_is_refused() -> None:
    """A model made by a lambda is refused at once, with the reason."""
    network = Network(lambda: nn.Linear(64, 3), (64,), Objective("classification"))

    with pytest.raises(ValueError, match="cannot be sent to worker processes"):
        ParallelTrainer(network, shards(), plain_loss, workers=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "recipe", "processes"),
    [
        (Mlp((13,)), Recipe(LocalTraining(epochs=2, batch_size=8)), 0),
        (Cnn((4,)), Recipe(LocalTraining(epochs=2, batch_size=8)), 2),
    ],
)
def test_gradients_by_hand_need_no_process(
    model: Mlp | Cnn, recipe: Recipe, processes: int
) -> None:
    """A chain of products is computed by threads; what needs the interpreter by processes."""
    trainer = ParallelTrainer(net(model), shards(ALIKE), plain_loss, workers=2)
    alone = BatchedTrainer(net(model), shards(ALIKE), plain_loss)

    futures = [submit(trainer, client, recipe) for client in range(len(ALIKE))]

    for future in futures:
        assert_same_bits(future.result(), submit(alone, future.client, recipe).result())
    assert len(trainer.cohorts) == 2
    assert len(trainer.pool.processes()) == processes


@pytest.mark.parametrize(
    ("model", "least", "where"),
    [
        (Mlp((13,)), 0.0, "thread_"),
        pytest.param(Cnn((4,)), 0.0, "process ", marks=pytest.mark.slow),
        (Cnn((4,)), math.inf, "this process"),
    ],
    ids=["threads", "processes", "here"],
)
def test_who_trained_how_much_is_told(
    model: Mlp | Cnn, least: float, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads, processes, and this process if sending is not worthwhile: each job is counted."""
    monkeypatch.setattr(parallel, "FEWEST_FLOPS", least)
    trainer = ParallelTrainer(net(model), shards(ALIKE), plain_loss, workers=2)
    recipe = Recipe(LocalTraining(epochs=2, batch_size=8))

    futures = [submit(trainer, client, recipe) for client in range(len(ALIKE))]
    futures[0].result()

    shares = trainer.trained_where()
    assert all(one.worker.startswith(where) and one.training_s > 0 for one in shares)
    assert sum(one.jobs for one in shares) == trainer.trained == len(ALIKE)


class Sent(Exception):
    """Work is on its way to the workers."""


ROWS = sum(ALIKE)
PASSED_OVER = {
    "two epochs": (Recipe(LocalTraining(epochs=2, batch_size=8)), 2 * ROWS),
    "three steps of eight": (Recipe(LocalTraining(steps=3, batch_size=8)), 24 * len(ALIKE)),
    "one gradient": (Recipe(LocalTraining(epochs=2), kind="gradient"), ROWS),
}


@pytest.mark.parametrize("recipe", list(PASSED_OVER))
@pytest.mark.parametrize(
    ("threshold", "model"),
    [
        ("FEWEST_FLOPS", Cnn((4,))),
        ("FEWEST_FLOPS_PER_JOB", Cnn((4,))),
        ("FEWEST_FLOPS_FOR_THREADS", Mlp((13,))),
    ],
)
@pytest.mark.parametrize("worth_it", [True, False])
def test_only_work_that_is_worth_it_is_sent(
    recipe: str,
    threshold: str,
    model: Mlp | Cnn,
    worth_it: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three forward passes' operations per example count, in all and per job.

    What is below a threshold is trained here, in the cohorts that there are without workers.
    """
    network = net(model)
    asked, examples = PASSED_OVER[recipe]
    flops = 3 * network.forward_flops * examples * (0.99 if worth_it else 1.01)
    jobs = len(ALIKE) if threshold == "FEWEST_FLOPS_PER_JOB" else 1
    monkeypatch.setattr(parallel, threshold, flops / jobs)

    def send(*_: object) -> None:
        raise Sent

    trainer = ParallelTrainer(network, shards(ALIKE), plain_loss, workers=2)
    monkeypatch.setattr(trainer.pool, "map", send)
    monkeypatch.setattr(trainer._threads, "map", send)
    futures = [submit(trainer, client, asked) for client in range(len(ALIKE))]

    if worth_it:
        with pytest.raises(Sent):
            futures[0].result()
        return
    futures[0].result()
    alone = BatchedTrainer(network, shards(ALIKE), plain_loss)
    without_workers = [submit(alone, client, asked) for client in range(len(ALIKE))]
    without_workers[0].result()
    assert trainer.cohorts == alone.cohorts
    for future, expected in zip(futures, without_workers, strict=True):
        assert_same_bits(future.result(), expected.result())
