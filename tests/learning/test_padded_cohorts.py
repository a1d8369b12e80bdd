"""Cohorts on an accelerator: as large as its memory, always of that size, halved without room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from simfl.learning import cohort, padded_cohorts
from simfl.learning.batched import BatchedTrainer
from simfl.learning.cohort_size import (
    COHORT_SHARE,
    ENOUGH_FLOPS,
    LARGEST_COHORT,
    SMALLEST_COHORT,
    cohort_jobs,
    evaluation_rows,
    job_bytes,
)
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import LocalTraining, Recipe, Update
from simfl.learning.kernels import stacked_convolution
from simfl.learning.minibatch import Minibatch
from simfl.learning.network import Network
from simfl.learning.parameters import Parameters, unstack
from simfl.learning.task import Task
from simfl.learning.trainer import Loss
from tests.learning.posing import Posing
from tests.learning.training import (
    assert_same_bits,
    network,
    plain_loss,
    shards,
    submit,
    traced_loss,
)

ROWS, SIZES = 8, (16, 40, 9, 23, 33)
PLAIN = Recipe(LocalTraining(epochs=2, batch_size=ROWS, learning_rate=0.1))
MOMENTUM = Recipe(
    LocalTraining(epochs=2, batch_size=ROWS, learning_rate=0.1, momentum=0.9, keep_optimizer=True)
)
GRADIENT = Recipe(LocalTraining(batch_size=ROWS), kind="gradient")


def room_for(net: Network, jobs: int, states: int = 0) -> float:
    """Bytes of a device whose cohorts are of so many jobs."""
    return 1.01 * jobs * job_bytes(net, ROWS, states) / COHORT_SHARE


def unguarded_loss(parameters: Parameters, batch: Minibatch) -> Tensor:
    """NaN for a job without rows, which is how one is computed that has taken its last step."""
    losses = batch.objective.per_example(batch.forward(parameters, batch.inputs), batch.targets)
    return (losses * batch.valid).sum(1) / batch.valid.sum(1)


def trained(net: Network, recipe: Recipe, loss: Loss) -> tuple[BatchedTrainer, list[Update]]:
    """Every client's update."""
    trainer = BatchedTrainer(net, shards(SIZES), loss)
    futures = [submit(trainer, client, recipe) for client in range(len(SIZES))]
    return trainer, [future.result() for future in futures]


@pytest.mark.parametrize(
    ("model", "recipe", "loss"),
    [
        ("relu_mlp", PLAIN, plain_loss),
        ("relu_mlp", MOMENTUM, plain_loss),
        ("relu_mlp", GRADIENT, unguarded_loss),
        pytest.param("residual", MOMENTUM, plain_loss, marks=pytest.mark.slow),
        pytest.param("bn_mlp", GRADIENT, traced_loss, marks=pytest.mark.slow),
    ],
)
def test_no_bit_depends_on_the_memory(model: str, recipe: Recipe, loss: Loss) -> None:
    """Padded to any size, and with data that stay in this machine's memory, a CPU's bits."""
    net = network(model, torch.float32)
    states = recipe.local.optimizer_states
    _, expected = trained(net, recipe, loss)

    for jobs in (2, 16):
        device = Posing(room_for(net, jobs, states))
        trainer, found = trained(net.placed(device), recipe, loss)

        assert {round(claim / job_bytes(net, ROWS, states)) for claim in device.claims} == {
            size for size in (jobs, jobs // 2, jobs // 4) if size >= SMALLEST_COHORT
        }
        assert max(trainer.cohorts) <= jobs
        assert not trainer.notices()
        for update, other in zip(found, expected, strict=True):
            assert_same_bits(update, other)


def test_data_are_streamed_where_they_do_not_fit() -> None:
    """An eighth of the memory is for clients' data: more of them stay here, and go step by step."""
    net = network("relu_mlp", torch.float32)
    data_bytes = sum(one.inputs.numel() * 4 for one in shards(SIZES))
    small, large = Posing(8 * data_bytes - 8), Posing(8 * data_bytes)

    for device in (small, large):
        trained(net.placed(device), PLAIN, plain_loss)

    assert large.streamed_bytes == 0
    assert small.streamed_bytes > 2 * data_bytes  # each pass, and what is tried out before


def test_evaluations_are_the_same_with_any_memory() -> None:
    """Loss and accuracy, of sets that lie there or here."""
    net, (some,) = network("relu_mlp", torch.float32), shards((300,))
    models = [[net.initial(seed)] for seed in range(3)]
    expected = Evaluator(net, {"test": some}).metrics_of_each(models)

    for total_bytes in (1e5, 1e9):
        evaluator = Evaluator(net.placed(Posing(total_bytes)), {"test": some})
        assert evaluator.metrics_of_each(models) == expected


def test_sizes_follow_from_model_shape_and_memory() -> None:
    """A power of two within half of the memory; less for wider steps, optimizers and numbers."""
    net = network("mlp", torch.float32)
    for jobs in (4, 64):
        device = Posing(room_for(net, jobs))
        assert cohort_jobs(net.placed(device), ROWS, 0) == jobs
        assert cohort_jobs(net.placed(device), 4 * ROWS, 0) < jobs
        assert cohort_jobs(net.placed(device), ROWS, 2) < jobs
        assert cohort_jobs(net.cast(torch.float64).placed(device), ROWS, 0) == jobs // 2
        # what others have of it counts for nothing
        assert cohort_jobs(net.placed(Posing(device.total_bytes, 1)), ROWS, 0) == jobs
    assert cohort_jobs(net.placed(Posing(1)), ROWS, 0) == SMALLEST_COHORT
    assert cohort_jobs(net.placed(Posing(1e15)), ROWS, 0) == LARGEST_COHORT


def test_what_a_job_takes_of_the_memory() -> None:
    """Its model six times (one is its gradient), activations of every row, and inputs twice."""
    net = network("linear", torch.float32)
    values, kept = 64 * 3 + 3, net.memory.example_bytes

    found = job_bytes(net, ROWS, 0)

    assert found == 6 * 4 * values + ROWS * (kept + 2 * 4 * 64)
    assert job_bytes(net, ROWS, 2) == found + 2 * 4 * values
    assert job_bytes(net.cast(torch.float64), ROWS, 0) == 2 * found


def test_what_keeps_a_device_busy_needs_no_more_company() -> None:
    """Steps of many operations a layer are computed for few jobs at a time."""
    net = network("residual", torch.float32).placed(Posing(1e15))
    few = cohort_jobs(net, 1 << 16, 0)

    assert few < cohort_jobs(net, ROWS, 0) == LARGEST_COHORT
    assert net.stacked is not None
    enough = ENOUGH_FLOPS * net.stacked.calls
    assert enough <= 3 * net.forward_flops * (1 << 16) * few < 2 * enough


def test_windows_of_convolutions_take_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a step's at once, and those of one layer's gradient."""
    alone = job_bytes(network("cnn", torch.float32), ROWS, 0)
    monkeypatch.setattr(stacked_convolution, "convolution_form", lambda *_: "windows")
    net = network("cnn", torch.float32)

    found = job_bytes(net, ROWS, 0)

    assert net.stacked is not None
    layers = net.stacked.convolutions
    values = sum(one.window_values for one in layers) + max(one.gradient_values for one in layers)
    assert found - alone == ROWS * 4 * values > 0


def test_a_job_that_is_there_for_company_gets_no_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cohort padded to four jobs takes one update out of its stack for one client."""
    taken: list[int] = []

    def counted(stacked: Parameters, **settings: Any) -> list[Parameters]:
        found = unstack(stacked, **settings)
        taken.append(len(found))
        return found

    monkeypatch.setattr(cohort, "unstack", counted)
    net = network("mlp", torch.float32)
    trainer = BatchedTrainer(net.placed(Posing(room_for(net, 4))), shards((16,)), plain_loss)

    submit(trainer, 0, Recipe(LocalTraining(epochs=1, batch_size=8, learning_rate=0.1))).result()

    assert taken[-1] == 1
    assert sum(taken) < 4 * len(taken)


def test_passes_of_an_evaluation_grow_with_the_memory() -> None:
    """Twice the memory, twice the examples; 1024 at least."""
    net = network("residual", torch.float32)
    rows = [evaluation_rows(net.placed(Posing(total))) for total in (1, 2**30, 2**31, 2**60)]

    assert rows[0] == 1024 < rows[1]
    assert rows[2] == 2 * rows[1]
    assert rows[3] == 1 << 16


def test_a_lack_of_memory_halves_cohorts_within_what_was_checked() -> None:
    """Somebody takes memory in mid-run: the same bits, and one warning."""
    net = network("relu_mlp", torch.float32)
    _, expected = trained(net, PLAIN, plain_loss)
    device = Posing(room_for(net, 16))
    trainer, found = trained(net.placed(device), PLAIN, plain_loss)
    assert not trainer.notices()
    device.free_bytes = 5 * job_bytes(net, ROWS, 0)

    futures = [submit(trainer, client, PLAIN) for client in range(len(SIZES))]
    found = [future.result() for future in futures]

    assert device.refused == 2
    assert [one.kind for one in trainer.notices()] == ["halved_cohorts"]
    assert "16 jobs were halved to 8" in trainer.notices()[0].message
    for update, other in zip(found, expected, strict=True):
        assert_same_bits(update, other)


def test_beyond_what_was_checked_the_law_is_not_claimed() -> None:
    """From 16 to 2 jobs is one halving too many, and so is one before the first check."""
    net = network("relu_mlp", torch.float32)
    device = Posing(room_for(net, 16))
    trainer, _ = trained(net.placed(device), PLAIN, plain_loss)
    device.free_bytes = 2 * job_bytes(net, ROWS, 0)
    submit(trainer, 0, PLAIN).result()

    occupied, _ = trained(
        net.placed(Posing(room_for(net, 4), device.free_bytes)), PLAIN, plain_loss
    )

    for one in (trainer, occupied):
        assert [each.kind for each in one.notices()] == ["halved_cohorts", "cohort_dependent"]
        assert (
            "results of posing may differ in their last bits from run to run: cohorts of 2"
            in one.notices()[1].message
        )


def test_a_pair_that_does_not_fit_ends_the_run() -> None:
    """There is no smaller cohort than of two."""
    net = network("relu_mlp", torch.float32)

    with pytest.raises(torch.OutOfMemoryError, match="out of memory"):
        trained(net.placed(Posing(1e9, free_bytes=1)), PLAIN, plain_loss)


@pytest.mark.parametrize("what", ["place", "size"])
def test_bits_that_depend_on_company_are_found_out(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One kernel depends on the place in the stack; another on its size, which only matters once a
    cohort is halved.
    """
    net = network("relu_mlp", torch.float32)
    device = Posing(room_for(net, 8))
    compute = BatchedTrainer._together

    def biased(
        self: BatchedTrainer, tasks: Sequence[Task], padded: int | None = None
    ) -> list[Update]:
        updates = compute(self, tasks, padded)
        shift = 1e-6 if what == "place" else 1e-6 * (padded or 0)
        return [
            replace(
                update,
                payload={
                    name: one + shift * (place if what == "place" else 1)
                    for name, one in update.payload.items()
                },
            )
            for place, update in enumerate(updates)
        ]

    monkeypatch.setattr(BatchedTrainer, "_together", biased)
    trainer, _ = trained(net.placed(device), PLAIN, plain_loss)
    found = [one.kind for one in trainer.notices()]
    device.free_bytes = 5 * job_bytes(net, ROWS, 0)
    submit(trainer, 0, PLAIN).result()

    assert found == (["cohort_dependent"] if what == "place" else [])
    assert [one.kind for one in trainer.notices()] == ["halved_cohorts", "cohort_dependent"]


def test_a_check_takes_a_few_steps_of_each_shape_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five arrangements of two steps, whatever the clients' sizes."""
    net = network("relu_mlp", torch.float32)
    trainer = BatchedTrainer(net.placed(Posing(room_for(net, 8))), shards(SIZES), plain_loss)
    checked: list[int] = []
    compute = trainer._padded._compute

    def counted(tasks: Sequence[Task], size: int) -> list[Update]:
        updates = compute(tasks, size)
        checked.append(max(update.steps for update in updates))
        return updates

    monkeypatch.setattr(trainer._padded, "_compute", counted)
    for _ in range(2):
        submit(trainer, 1, PLAIN).result()

    full = 2 * 40 // ROWS
    assert checked == [padded_cohorts.STEPS_CHECKED] * 5 + [full, full]
