"""What an app's messages take: by the model's passes, by what torch does, or as declared."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from simfl.bridges.message_work import DeclaredWork, MessageWork, UnknownWork, Work, declared
from simfl.common.model_work import ModelWork
from simfl.learning.calls import Call, CallCounter
from simfl.streams import process_generators

ROWS, STEP = 20, 8


class Net(nn.Module):
    """A convolution and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 4, 3), nn.Linear(4 * 36, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Logits."""
        hidden: Tensor = self.last(self.first(images).relu().flatten(1))
        return hidden


PER_ROW = ModelWork(
    convolution=2.0 * 4 * 36 * 27,
    dense=2.0 * 144 * 10,
    traffic_bytes=4.0 * (3 * 64 + 4 * 36 + 144 + 10),
    update=2.0 * (4 * 27 + 4 + 144 * 10 + 10),
    kernels=2.0 * 4 * 27,
)


MODEL_BYTES = 4.0 * (4 * 28 + 10 * 145)
KEPT_BYTES = 4.0 * (3 * 64 + 4 * 36)
"""Of a row, for the way backwards: what went into the convolution and what came out of relu."""

HELD_BYTES = 2 * MODEL_BYTES + STEP * KEPT_BYTES
"""By training: weights, gradients, and the largest batch."""


def train(net: nn.Module, rows: int = ROWS, optimized: Any = torch.optim.SGD) -> None:
    """One pass in batches, as an app would."""
    optimizer = optimized([one for one in net.parameters() if one.requires_grad], lr=0.1)
    for batch in torch.zeros(rows, 3, 8, 8).split(STEP):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(batch), torch.zeros(len(batch), dtype=int)).backward()
        optimizer.step()


def counted(counter: MessageWork, kind: str, net: nn.Module, rows: int = ROWS) -> Work:
    """What a message that trains takes."""
    with counter.watching(kind) as call:
        train(net, rows)
    return counter.of(kind, call, examples=rows)


def test_a_trained_example_is_that_of_the_network() -> None:
    """Rows and steps are counted in every message, the work of a row once."""
    counter = MessageWork({}, None)

    assert counted(counter, "train", Net()) == Work(ROWS, 3, PER_ROW, HELD_BYTES)
    assert counted(counter, "train", Net(), rows=8) == Work(8, 1, PER_ROW, HELD_BYTES)


def test_memory_is_that_of_the_largest_batch_and_of_the_optimizer() -> None:
    """Adam keeps two values of a weight; who only looks keeps nothing for the way backwards."""
    counter, net = MessageWork({}, None), Net()
    with counter.watching("train") as call:
        train(net, rows=STEP + 3, optimized=torch.optim.Adam)
        with torch.no_grad():
            net(torch.zeros(100, 3, 8, 8))
    assert counter.of("train", call, STEP).memory_bytes == HELD_BYTES + 2 * MODEL_BYTES

    net.first.requires_grad_(False)
    with counter.watching("train") as call:
        train(net, rows=3)
    frozen = MODEL_BYTES + 4.0 * 10 * 145
    assert counter.of("train", call, 3).memory_bytes == frozen + 3 * 4.0 * 4 * 36


def test_what_is_looked_at_is_a_forward_pass() -> None:
    """A third of training, in examples and in steps; also with gradients enabled but unused."""
    counter, net = MessageWork({}, None), Net()
    with counter.watching("evaluate") as call, torch.no_grad():
        net(torch.zeros(ROWS, 3, 8, 8))

    assert counter.of("evaluate", call, ROWS) == Work(ROWS / 3, 1 / 3, PER_ROW)

    with counter.watching("query") as call:
        net(torch.zeros(ROWS, 3, 8, 8))
    looked = counter.of("query", call, ROWS)
    assert looked.examples == ROWS
    assert looked.model.convolution == pytest.approx(PER_ROW.convolution / 3)
    assert looked.model.dense == pytest.approx(PER_ROW.dense / 3)


def test_a_part_that_is_trained_costs_what_is_done() -> None:
    """Frozen layers go forward only; the last one makes its weights' gradient."""
    net = Net()
    net.first.requires_grad_(False)

    work = counted(MessageWork({}, None), "train", net).model

    assert work.convolution == pytest.approx(PER_ROW.convolution / 3)
    assert work.dense == pytest.approx(PER_ROW.dense * 2 / 3)


def test_work_beside_the_model_counts() -> None:
    """Operations that no module's forward pass explains are added."""

    class Regularised(Net):
        def forward(self, images: Tensor) -> Tensor:
            return super().forward(images)

    counter, net = MessageWork({}, None), Regularised()
    with counter.watching("train") as call:
        train(net)
        for _ in range(50):
            net.last.weight @ net.last.weight.T
    work = counter.of("train", call, ROWS).model

    assert work.convolution == PER_ROW.convolution
    assert work.dense > 1.05 * PER_ROW.dense


def test_recurrent_layers_go_by_their_form() -> None:
    """On a CPU they are one operation that torch cannot look into."""
    layer = nn.LSTM(5, 7, batch_first=True)
    counter = MessageWork({}, None)
    with counter.watching("train") as call:
        layer(torch.zeros(6, 4, 5))[0].sum().backward()
    work = counter.of("train", call, 6)

    assert work.model.recurrent == 2.0 * 4 * 4 * 7 * (5 + 7)
    assert (work.examples, work.steps, work.model.recurrent_places) == (6, 1, 4)


def test_modules_of_several_forms_are_a_mean() -> None:
    """So that the sum is correct."""
    first, second = nn.Linear(3, 5), nn.Linear(7, 2)
    counter = MessageWork({}, None)
    with counter.watching("train") as call:
        first(torch.zeros(4, 3)).sum().backward()
        second(torch.zeros(12, 7)).sum().backward()
    work = counter.of("train", call, None)

    assert work.examples * work.model.dense == pytest.approx(4 * 30 + 12 * 28)


def test_counting_changes_nothing() -> None:
    """Weights, generators and modes are as without it."""

    def trained(watched: bool) -> tuple[Tensor, Tensor, bool]:
        torch.manual_seed(3)
        net = nn.Sequential(Net(), nn.Dropout(0.5))
        net[0].eval()
        counter = MessageWork({}, None)
        with counter.watching("train" if watched else "other"):
            train(net)
        return next(net.parameters()).detach(), torch.rand(1), net[0].training

    def bare() -> tuple[Tensor, Tensor, bool]:
        torch.manual_seed(3)
        net = nn.Sequential(Net(), nn.Dropout(0.5))
        net[0].eval()
        train(net)
        return next(net.parameters()).detach(), torch.rand(1), net[0].training

    one, other = trained(watched=True), bare()
    assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1]) and one[2] == other[2]


def test_counting_draws_from_no_generator_of_the_apps() -> None:
    """A module that draws its form in its forward pass draws the same with nobody looking."""

    class Drawing(Net):
        def forward(self, images: Tensor) -> Tensor:
            return super().forward(images) * float(np.random.rand() + random.random())  # noqa: NPY002

    counter = MessageWork({}, None)
    with process_generators(3):
        train(Drawing())
        alone = np.random.rand(), random.random()  # noqa: NPY002
    with process_generators(3):
        counted(counter, "train", Drawing())
        assert (np.random.rand(), random.random()) == alone  # noqa: NPY002


@pytest.mark.parametrize("error", [AssertionError, IndexError, KeyError])
def test_a_module_that_takes_no_single_row_is_counted_by_its_operations(
    error: type[Exception],
) -> None:
    """An error that it raises there is not a failure of the app."""

    class Batches(Net):
        def forward(self, images: Tensor) -> Tensor:
            if len(images) == 1:
                raise error("a batch")
            return super().forward(images)

    work = counted(MessageWork({}, None), "train", Batches(), rows=2 * STEP)

    assert (work.examples, work.steps) == (2 * STEP, 2)
    assert work.model.dense == pytest.approx(PER_ROW.dense)
    assert work.model.convolution == pytest.approx(PER_ROW.convolution * 2 / 3)  # no images' part


def test_passes_side_by_side_are_all_counted() -> None:
    """In threads that wait for each other in the midst of their passes."""
    together = Barrier(3)

    class Waiting(Net):
        def forward(self, images: Tensor) -> Tensor:
            together.wait(10.0)
            made = super().forward(images)
            together.wait(10.0)
            return made

    counter, net = CallCounter(), Waiting()
    with counter.watching(operations=True) as call, ThreadPoolExecutor(3) as pool:
        list(pool.map(net, [torch.zeros(2, 3, 8, 8)] * 3))

    assert sum(one.trained + one.looked for one in call.passes.values()) == 6
    assert call.operations is None


def test_hooks_are_gone_afterwards() -> None:
    """Also where the code fails in the middle of a module."""
    counter = CallCounter()
    with pytest.raises(RuntimeError), counter.watching():
        Net()(torch.zeros(1, 2, 8, 8))
    with counter.watching() as call:
        Net()(torch.zeros(1, 3, 8, 8))

    assert [one.trained for one in call.passes.values()] == [1]


def test_declared_work_is_by_the_answers_examples() -> None:
    """Passes over them, in batches; a forward pass alone is a third."""
    work = DeclaredWork(dense=6.0, passes=2.0, batch_size=8)

    assert declared(work, 20) == Work(40.0, 6.0, ModelWork(dense=6.0))
    assert declared(DeclaredWork(dense=6.0, forward_only=True), 21).examples == 7.0
    said = DeclaredWork(dense=6.0, examples=10.0, batch_size=8)
    assert declared(said, None) == declared(said, 20) == Work(10.0, 2.0, ModelWork(dense=6.0))
    with pytest.raises(UnknownWork, match="num-examples"):
        declared(work, None)
    with pytest.raises(ValueError, match="above 0"):
        DeclaredWork(traffic_bytes=3.0)


@pytest.mark.parametrize("recount_every", [None, 3])
def test_a_run_that_goes_on_counts_as_the_one_that_was_broken_off(
    recount_every: int | None,
) -> None:
    """With what it finds of the first messages, the later ones are what they would have been."""
    net = Net()

    def message(counter: MessageWork, rows: int) -> tuple[Call, Work]:
        with counter.watching("train") as call:
            train(net, rows)
            for _ in range(20):  # work that does not go with the rows
                net.last.weight @ net.last.weight.T
        return call, counter.of("train", call, rows)

    sizes = (20, 8, 16, 12, 4, 8)
    whole, rest = MessageWork({}, recount_every), MessageWork({}, recount_every)
    expected = [message(whole, rows) for rows in sizes]
    for call, work in expected[:2]:
        looked = call.operations is not None
        rest.learn("train", tuple(sorted(call.passes)), work.model, looked=looked)

    assert [message(rest, rows)[1] for rows in sizes[2:]] == [work for _, work in expected[2:]]


def test_what_cannot_be_counted_is_said() -> None:
    """Nothing was done with torch."""
    counter = MessageWork({}, None)
    with counter.watching("train") as call:
        pass

    with pytest.raises(UnknownWork, match="nothing with torch"):
        counter.of("train", call, 10)


def test_a_model_that_multiplies_nothing_has_no_cost() -> None:
    """Factors of users and films, multiplied one by one: training has to be declared."""
    factors, counter = nn.Embedding(9, 4), MessageWork({}, None)
    for kind in ("train", "query.factors"):
        with counter.watching(kind) as call:
            rows = torch.arange(6)
            (factors(rows) * factors(rows + 1)).sum(1).mean().backward()
        if kind == "train":
            with pytest.raises(UnknownWork, match="embeddings alone"):
                counter.of(kind, call, 6)
        else:
            assert counter.of(kind, call, 6).examples == 0.0
        assert counter.broken_off(kind, call).examples == 0.0


def test_a_client_that_skips_a_round_takes_nothing() -> None:
    """Whoever comes first; the next one is looked at closely, also in a run that goes on."""

    def skipping(counter: MessageWork) -> tuple[Call, Work]:
        with counter.watching("train") as call:
            pass
        return call, counter.of("train", call, 10, idle=True)

    def by_hand(counter: MessageWork) -> Work:
        weights = nn.Parameter(torch.zeros(3, 5))
        with counter.watching("train") as call:
            (torch.zeros(6, 5) @ weights.T).sum().backward()
        return counter.of("train", call, 6)

    counter, later = MessageWork({}, None), MessageWork({}, None)
    call, nothing = skipping(counter)
    assert call.operations is not None and nothing.examples == 0.0
    later.learn("train", (), nothing.model, looked=True)
    for one in (counter, later):
        assert by_hand(one).model.dense * 6 * 3 == 2 * 2 * 6 * 3 * 5
        assert skipping(one)[1].examples == 0.0

    counter = MessageWork({}, None)
    skipping(counter)
    assert counted(counter, "train", Net()) == Work(ROWS, 3, PER_ROW, HELD_BYTES)
    assert skipping(counter)[1].examples == 0.0
