"""Futures: what is trained, when, together with what, and what is released."""

from __future__ import annotations

import gc
import weakref

import pytest

from simfl.learning.batched import BatchedTrainer
from simfl.learning.job import Brief, LocalTraining, Price, Recipe
from simfl.learning.sequential import SequentialTrainer
from simfl.learning.trainer import Future, LocalJob, Trainer
from simfl.provenance.results import MemoryStore
from tests.learning.training import (
    Emptied,
    Start,
    assert_same_bits,
    network,
    plain_loss,
    shards,
    submit,
)

RECIPE = Recipe(LocalTraining(epochs=1, batch_size=8, learning_rate=0.1))


@pytest.fixture(params=[SequentialTrainer, BatchedTrainer])
def trainer(request: pytest.FixtureRequest) -> Trainer:
    """Either trainer, with eight clients."""
    trainer: Trainer = request.param(network("linear"), shards(), plain_loss)
    return trainer


def test_nothing_is_trained_before_it_is_read(trainer: Trainer) -> None:
    """Submitting costs nothing; reading one future does all that is pending."""
    futures = [submit(trainer, client, RECIPE) for client in range(4)]
    idle = trainer.trained

    futures[2].result()

    assert (idle, trainer.trained, trainer.jobs_asked) == (0, 4, 4)
    assert all(future.done for future in futures)


def test_a_withdrawn_job_is_not_trained(trainer: Trainer) -> None:
    """A job whose future nobody holds any more is dropped."""
    futures = [submit(trainer, client, RECIPE) for client in range(4)]
    del futures[1]
    gc.collect()

    futures[0].result()

    assert (trainer.trained, trainer.jobs_asked) == (3, 4)


def test_a_job_without_its_inputs_waits(trainer: Trainer) -> None:
    """Only jobs that are ready are taken along; the others are trained when they are read."""
    wanted = submit(trainer, 0, RECIPE)
    start = Start()
    waiting = submit(trainer, 1, RECIPE, awaits=start)
    others = submit(trainer, 2, RECIPE, awaits=start)

    wanted.result()
    waited = not waiting.done
    start.compute()
    waiting.result()

    assert waited
    assert others.done
    assert trainer.cohorts == [1, 2]


def test_what_was_at_hand_may_be_gone(trainer: Trainer) -> None:
    """A store may let go of a state before the job is trained: then the job waits again."""
    start = Start()
    start.known = True
    waiting = submit(trainer, 1, RECIPE, awaits=start)
    start.known = False

    submit(trainer, 0, RECIPE).result()
    waited = not waiting.done
    start.compute()
    submit(trainer, 2, RECIPE).result()

    assert waited
    assert waiting.done


def test_a_chain_is_trained_in_order_however_long(trainer: Trainer) -> None:
    """Reading the last of a client's jobs trains all before it, without deep recursion."""
    order: list[int] = []

    def follow(previous: Future | None, number: int) -> Future:
        def make_brief() -> Brief:
            order.append(number)
            return Brief(trainer.network.initial(0), RECIPE, Price(0, 0))

        key = f"0/{number}"
        return trainer.submit(LocalJob(key, 0, number, number, make_brief, previous=previous))

    last: Future | None = None
    for number in range(400):
        last = follow(last, number)
    assert last is not None

    last.result()

    assert order == list(range(400))


def test_a_job_is_taken_along_as_soon_as_the_one_before_it_is_done(trainer: Trainer) -> None:
    """A client's next job joins the first training after its last one."""
    first = submit(trainer, 0, RECIPE)
    second = submit(trainer, 0, RECIPE, previous=first, number=1)

    first.result()
    waited = not second.done
    submit(trainer, 1, RECIPE).result()

    assert waited
    assert second.done


def test_a_store_that_lost_its_entries_costs_training_again(trainer: Trainer) -> None:
    """Whatever it says to hold, a long chain is trained without deep recursion."""
    store = Emptied()
    again = type(trainer)(trainer.network, shards(), plain_loss, store=store)
    last: Future | None = None
    for number in range(300):
        last = submit(again, 0, RECIPE, previous=last, number=number)
    assert last is not None

    last.result()

    assert again.trained == 300


def test_links_are_dropped_after_training(trainer: Trainer) -> None:
    """A finished future holds neither its brief-maker nor the job before it."""
    first = submit(trainer, 0, RECIPE)
    second = submit(trainer, 0, RECIPE, previous=first, number=1)
    second.result()
    gone = weakref.ref(first)
    del first
    gc.collect()

    assert gone() is None


def test_a_stored_result_is_not_trained_again(trainer: Trainer) -> None:
    """A key in the store is answered from it, also as an earlier job of a chain."""
    store = MemoryStore()
    keeping = type(trainer)(trainer.network, shards(), plain_loss, store=store)
    done = submit(keeping, 0, RECIPE).result()
    replay = type(trainer)(trainer.network, shards(), plain_loss, store=store)
    first = submit(replay, 0, RECIPE)
    second = submit(replay, 0, RECIPE, previous=first, number=1)

    second.result()

    assert first.result().payload is done.payload
    assert first.result().brief.start.keys() == done.brief.start.keys()
    assert (replay.trained, replay.reused) == (1, 1)


def test_reading_a_brief_may_read_other_futures(trainer: Trainer) -> None:
    """A start that depends on an unread update forces it first; nothing is trained twice."""
    first = submit(trainer, 0, RECIPE)

    def make_brief() -> Brief:
        return Brief(first.result().payload, RECIPE, Price(0, 0))

    second = trainer.submit(LocalJob("1/1", 1, 9, 1, make_brief, Start()))

    update = second.result()

    assert update.brief.start is first.result().payload
    assert trainer.trained == 2


def test_jobs_of_different_states_do_not_share_a_cohort() -> None:
    """Jobs with another common object or another recipe are trained apart, learning rates not."""
    trainer = BatchedTrainer(network("linear"), shards((20,) * 6), plain_loss)
    other_rate = Recipe(LocalTraining(epochs=1, batch_size=8, learning_rate=0.2))
    adam = Recipe(LocalTraining(epochs=1, batch_size=8, optimizer="adam"))
    futures = [
        submit(trainer, client, recipe)
        for client, recipe in enumerate([RECIPE, other_rate, adam, RECIPE, RECIPE, RECIPE])
    ]
    common = object()
    for future in futures[4:]:
        future.job.make_common = lambda: common

    for future in futures:
        future.result()

    assert sorted(trainer.cohorts) == [1, 2, 3]


def test_the_trainer_does_not_change_what_it_is_given() -> None:
    """Start weights are the same bits after training."""
    trainer = BatchedTrainer(network("bn_cnn"), shards(), plain_loss)
    start = trainer.network.initial(5)
    before = {name: tensor.clone() for name, tensor in start.items()}
    one = submit(trainer, 2, RECIPE, start=start).result()
    two = submit(trainer, 2, RECIPE, start=start).result()

    assert all((start[name] == before[name]).all() for name in start)
    assert_same_bits(one, two)
