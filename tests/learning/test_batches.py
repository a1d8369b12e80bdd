"""Which rows make up which step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given
from hypothesis import strategies as st

from simfl.learning.batches import padded_rows, plan_order, step_seed
from simfl.learning.job import LocalTraining
from tests.learning.training import plan_batches


@given(num_examples=st.integers(1, 60), batch_size=st.integers(1, 20), epochs=st.integers(1, 3))
def test_every_epoch_covers_the_shard_once(num_examples: int, batch_size: int, epochs: int) -> None:
    """Each epoch is a permutation of the rows, cut into batches of which the last may be short."""
    batches = plan_batches(1, num_examples, LocalTraining(epochs=epochs, batch_size=batch_size))
    per_epoch = -(-num_examples // batch_size)

    assert len(batches) == epochs * per_epoch
    for epoch in range(epochs):
        rows = torch.cat(batches[epoch * per_epoch : (epoch + 1) * per_epoch])
        assert torch.equal(rows.sort().values, torch.arange(num_examples))


def test_steps_go_on_through_reshuffled_passes() -> None:
    """With `steps` there are exactly that many batches; a new pass has a new order."""
    batches = plan_batches(3, 10, LocalTraining(steps=7, batch_size=4))
    passes = [torch.cat(batches[:3]), torch.cat(batches[3:6])]

    assert [len(batch) for batch in batches] == [4, 4, 2, 4, 4, 2, 4]
    assert all(torch.equal(rows.sort().values, torch.arange(10)) for rows in passes)
    assert not torch.equal(*passes)


AMOUNTS = (
    st.integers(1, 9).map(lambda count: {"steps": count})
    | st.integers(1, 3).map(lambda count: {"epochs": count})
    | st.floats(0.05, 1.0).map(lambda share: {"share": share})
)


@given(
    num_examples=st.integers(1, 60),
    batch_size=st.none() | st.integers(1, 80),
    amount=AMOUNTS,
    smallest=st.sampled_from([1, 2]),
)
@example(num_examples=4, batch_size=16, amount={"steps": 2}, smallest=1)
@example(num_examples=40, batch_size=32, amount={"steps": 4}, smallest=1)
@example(num_examples=9, batch_size=8, amount={"steps": 10}, smallest=2)
@example(num_examples=33, batch_size=8, amount={"epochs": 1}, smallest=2)
@example(num_examples=33, batch_size=8, amount={"share": 1.0}, smallest=2)
def test_work_is_priced_by_the_rows_that_it_trains_on(
    num_examples: int, batch_size: int | None, amount: dict[str, Any], smallest: int
) -> None:
    """2 steps over 4 rows are 8 examples however large a batch may be; the same of columns.

    A batch of one row, which BatchNorm leaves out, is no step: ten steps over 9 rows in batches of
    8 are 80 examples.
    """
    assume(min(num_examples, batch_size or num_examples) >= smallest)
    local = LocalTraining(**amount, batch_size=batch_size)
    plan, sizes = plan_order(1, num_examples, local, smallest=smallest)

    assert local.passes(num_examples, smallest) * num_examples == pytest.approx(sum(sizes))
    assert local.num_steps(num_examples, smallest) == len(sizes)
    assert sum(map(len, plan)) == sum(sizes)
    column = np.array([num_examples, 60])
    assert local.passes(column, smallest)[0] == local.passes(num_examples, smallest)
    assert local.num_steps(column, smallest)[0] == local.num_steps(num_examples, smallest)


def test_the_plan_follows_from_the_seed() -> None:
    """The same seed gives the same rows, another seed others."""
    local = LocalTraining(epochs=1, batch_size=50)
    first, again, other = (plan_batches(seed, 50, local)[0] for seed in (1, 1, 2))

    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_whole_shard_comes_in_its_own_order() -> None:
    """Without a batch size each epoch is one batch in order."""
    batches = plan_batches(1, 9, LocalTraining(epochs=2, batch_size=None))

    assert [batch.tolist() for batch in batches] == [list(range(9))] * 2


def test_a_gradient_job_takes_the_shard_once_in_order() -> None:
    """A gradient is over the whole shard in pieces, or over `steps` random mini-batches."""
    whole = plan_batches(1, 5, LocalTraining(epochs=3, batch_size=2), "gradient")
    some = plan_batches(1, 50, LocalTraining(steps=1, batch_size=20), "gradient")

    assert [batch.tolist() for batch in whole] == [[0, 1], [2, 3], [4]]
    assert len(some) == 1
    assert some[0].tolist() != sorted(some[0].tolist())


def test_batches_too_small_are_left_out() -> None:
    """One leftover row has no variance; a shard of one row is refused with the reason."""
    local = LocalTraining(epochs=1, batch_size=4)

    assert [len(batch) for batch in plan_batches(1, 9, local, smallest=2)] == [4, 4]
    with pytest.raises(ValueError, match=r"^batch_size: 1 examples"):
        plan_batches(1, 1, local, smallest=2)


@given(num_examples=st.integers(1, 5000))
def test_padding_is_small(num_examples: int) -> None:
    """A whole shard is padded by less than a quarter, or by less than eight rows."""
    rows = padded_rows(num_examples, None)

    assert num_examples <= rows < num_examples + max(8, num_examples / 4)
    assert padded_rows(num_examples, 32) == min(32, rows)


def test_step_seeds_differ() -> None:
    """Every (job, step) draws from a seed of its own."""
    seeds = {step_seed(seed, step) for seed in range(30) for step in range(30)}

    assert len(seeds) == 900
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize(
    ("share", "batches"), [(0.01, 1), (0.05, 1), (0.25, 2), (0.5, 4), (1.0, 9)]
)
def test_a_share_is_so_many_distinct_batches_of_one_pass(share: float, batches: int) -> None:
    """max(1, round(share * examples / batch size)), never more than there are."""
    local = LocalTraining(share=share, batch_size=4)
    found = plan_batches(3, 36, local)

    rows = torch.cat(found)
    assert len(found) == batches == round(local.passes(36) * 9)
    assert len(rows.unique()) == len(rows) == 4 * batches


def test_a_share_that_rounds_up_stays_within_the_pass() -> None:
    """38 examples in batches of 4: nine full ones and a rest."""
    local = LocalTraining(share=1.0, batch_size=4)

    assert sum(map(len, plan_batches(3, 38, local))) == 38


def test_epochs_steps_and_share_exclude_each_other() -> None:
    """At most one of them says how long a client round is."""
    with pytest.raises(ValueError, match="steps and share exclude each other"):
        LocalTraining(steps=1, share=0.5)
