"""Workers of a cluster change no bit, whatever befalls them."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from simfl.learning.batched import BatchedTrainer
from simfl.learning.cohort_size import COHORT_SHARE, cohort_jobs, job_bytes
from simfl.learning.job import LocalTraining, Recipe, Update
from simfl.learning.minibatch import plain_loss
from simfl.learning.models.base import as_module
from simfl.learning.models.cnn import Cnn
from simfl.learning.models.mlp import Mlp
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.learning.parameters import Elsewhere, Parameters, all_finite
from simfl.learning.sums import FAN, weighted_mean
from simfl.learning.task import Task
from simfl.learning.trainer import Trainer
from simfl.learning.workers.packed_requests import PackedValues
from simfl.learning.workers.remote import Describe, RemoteTrainer
from simfl.provenance.lineage import numeric_platform
from tests.learning.clusters import Cluster
from tests.learning.posing import Posing
from tests.learning.training import IMAGE, SIZES, Start, assert_same_bits, shards, submit


@pytest.fixture(autouse=True)
def _hold_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """The updates of these tests are small, and would not be held."""
    monkeypatch.setattr("simfl.learning.workers.remote.LEAST_HELD_BYTES", 0)


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


def tasks_of(model: Any, sizes: Sequence[int], workers: int) -> tuple[RemoteTrainer, list[Task]]:
    """A trainer with so many workers, and a job of each client with so many examples."""
    network = Network(partial(as_module, model, IMAGE, 3), IMAGE, Objective("classification"))
    trainer = RemoteTrainer(
        network,
        shards(sizes),
        plain_loss,
        cluster=Cluster(),
        workers=workers,
        device="cpu",
        describe=numeric_platform,
        platform={},
        give_up_s=5.0,
    )
    recipe = Recipe(LocalTraining(epochs=1, batch_size=8))
    futures = [submit(trainer, client, recipe) for client in range(len(sizes))]
    return trainer, [trainer._task(one) for one in futures]


def test_parts_are_about_as_much_work_each() -> None:
    """None is more than its share by more than the clients that it is rounded to; none is empty,
    and each holds neighbours."""
    sizes = [2] * 60 + [40] * 20
    trainer, tasks = tasks_of(Mlp((4,)), sizes, 4)

    parts = trainer.cut(tasks[::-1])

    order = [len(sizes) - 1 - place for part in parts for place in part]
    assert len(parts) == 4 and order == list(range(len(sizes)))
    work = [sum(sizes[len(sizes) - 1 - place] for place in part) for part in parts]
    assert max(work) <= sum(sizes) / 4 + FAN * max(sizes)
    assert all(len(part) % FAN == 0 for part in parts)


def test_parts_end_behind_whole_branches_of_each_sum() -> None:
    """Counted from where a state's clients begin, who stand together; or behind all of them."""
    trainer, tasks = tasks_of(Mlp((4,)), [2] * 70, 4)
    states = [object(), object()]
    for task in tasks:
        task.state = states[task.client % 5 == 0]

    parts = trainer.cut(tasks)

    order = [place for part in parts for place in part]
    first = [place for place in range(70) if place % 5 == 0]
    assert order == [*first, *sorted(set(range(70)) - set(first))]
    ends = [sum(map(len, parts[: number + 1])) for number in range(len(parts))]
    assert all((end - len(first)) % FAN == 0 for end in ends if end > len(first))
    assert len(parts) == 4 and max(map(len, parts)) <= 70 / 4 + FAN


@pytest.mark.parametrize(
    ("together", "clients", "parts"),
    [(64, 127, 1), (64, 128, 2), (3, 31, 1), (3, 32, 2)],
    ids=["one cohort and most of another", "two cohorts", "one branch", "two branches"],
)
def test_a_second_part_takes_no_company_away(
    together: int, clients: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker has two where either fills the largest cohorts, and branches of the sum."""
    monkeypatch.setattr(RemoteTrainer, "on_a_processor", lambda _: together)
    trainer, tasks = tasks_of(Mlp((4,)), [2] * clients, 1)

    assert len(trainer.cut(tasks)) == parts


def spread_out(*fates: str) -> tuple[RemoteTrainer, list[Update], list[Update], Cluster]:
    """Forty clients' updates from two workers, and from here."""
    network = Network(partial(as_module, Mlp((70,)), IMAGE, 3), IMAGE, Objective("classification"))
    cluster, clients = Cluster(*fates), shards([3 + place % 7 for place in range(40)])
    remote = RemoteTrainer(
        network,
        clients,
        plain_loss,
        cluster=cluster,
        workers=2,
        device="cpu",
        describe=numeric_platform,
        platform=numeric_platform(network),
        give_up_s=5.0,
    )
    here = BatchedTrainer(network, clients, plain_loss)
    return remote, one_round(remote), one_round(here), cluster


def one_round(trainer: Trainer, number: int = 0) -> list[Update]:
    """The updates of forty clients."""
    recipe = Recipe(LocalTraining(epochs=1, batch_size=8))
    futures = [submit(trainer, client, recipe, number=number) for client in range(40)]
    return [future.result() for future in futures]


def mean(updates: Sequence[Update], weights: Sequence[float]) -> Parameters:
    """The mean of the trained models."""
    return weighted_mean([update.payload for update in updates], weights)


@pytest.mark.parametrize("fates", [(), ("killed",)], ids=["all are there", "one is lost meanwhile"])
def test_means_of_several_servers_come_with_the_answers(fates: Sequence[str]) -> None:
    """The jobs of each state are a mean, wherever its clients stand among the others; nobody is
    asked again, and no state's clients are spread over more workers than need be."""
    remote, _, _, cluster = spread_out(*fates)
    here = BatchedTrainer(remote.network, remote.shards, plain_loss)
    members = [range(0, 40, 3), range(1, 40, 3), range(2, 40, 3)]
    recipe, states = Recipe(LocalTraining(epochs=1, batch_size=8)), [Start() for _ in members]
    for state in states:
        state.compute()
    found: list[list[list[Update]]] = []
    for trainer in (remote, here):
        futures = {
            client: submit(trainer, client, recipe, awaits=state, number=1)
            for state, clients in zip(states, members, strict=True)
            for client in clients
        }
        found.append([[futures[client].result() for client in clients] for clients in members])

    for there, expected in zip(*found, strict=True):
        sizes = [update.num_examples for update in there]
        total, wanted = mean(there, sizes), mean(expected, sizes)
        assert all(torch.equal(total[name], wanted[name]) for name in wanted)
    assert not sums_bytes(cluster)
    asked = [len(line.wanted[-1]) for line in cluster.lines if line.fate != "killed"]
    assert sorted(asked) == [2, 2]


def sums_bytes(cluster: Cluster) -> list[int]:
    """Sizes of the parts of sums that workers were asked for."""
    handles = [handle for line in cluster.lines for handle in line.sums]
    return [one.value.own.flat.nbytes for one in handles if isinstance(one.value, PackedValues)]


@pytest.mark.parametrize("gone", [False, True], ids=["all are there", "one is lost meanwhile"])
def test_updates_are_added_up_where_they_are(gone: bool) -> None:
    """The sum is bitwise the same as here; few models are sent, and no single client's."""
    remote, there, here, cluster = spread_out()
    cluster.lines[1].gone = gone
    weights = [1.0 + update.client for update in there]

    total, expected = mean(there, weights), mean(here, weights)

    assert total.keys() == expected.keys()
    assert all(torch.equal(total[name], expected[name]) for name in expected)
    assert not any(update.payload.here for update in there if isinstance(update.payload, Elsewhere))
    model = sum(4 * one.numel() for one in expected.values())
    sent = sums_bytes(cluster)
    assert len(sent) == 2 and sum(sent) < 7 * model
    assert cluster.lines[1].ended == gone
    assert [one.kind for one in remote.notices()] == ["lost_workers"] * gone


@pytest.mark.parametrize("fates", [(), ("killed",)], ids=["all are there", "one is lost meanwhile"])
def test_the_mean_by_examples_comes_with_the_answers(fates: Sequence[str]) -> None:
    """No worker is asked again, so they need not exist any more.

    A second sum of the same updates does take requests.
    """
    remote, there, here, cluster = spread_out(*fates)
    sizes = [update.num_examples for update in here]
    payload: Any = there[0].payload
    line = payload.at.held.worker.line
    line.gone = True

    for asked in (False, True):
        total, expected = mean(there, sizes), mean(here, sizes)

        assert all(torch.equal(total[name], expected[name]) for name in expected)
        assert bool(sums_bytes(cluster)) == line.ended == asked
    assert [one.count for one in remote.notices()] == [1 + len(fates)]


def test_a_job_is_counted_for_who_trained_it_last() -> None:
    """One of two workers is lost with what it held for a sum, which the other one trains again:
    each job is counted once, with the time that it took."""
    remote, there, _, cluster = spread_out()
    shares = remote.trained_where()
    assert [one.worker for one in shares] == ["machine 0", "machine 1"]
    assert sum(one.jobs for one in shares) == remote.trained == 40
    assert all(one.jobs and one.training_s > 0 for one in shares)

    cluster.lines[1].gone = True
    mean(there, [1.0] * len(there))

    (only,) = remote.trained_where()
    assert (only.worker, only.jobs) == ("machine 0", 40)
    assert only.training_s > shares[0].training_s


def test_what_was_weighed_otherwise_is_foreseen_no_more() -> None:
    """Until trainings are weighed by examples again, more often than not; who is missing, and who
    stands in another order, is another sum."""
    remote, there, here, cluster = spread_out()
    sizes = [update.num_examples for update in here]

    def foreseen() -> bool:
        return all(line.wanted[-1] for line in cluster.lines)

    assert foreseen()
    found, expected = mean(there[1:], sizes[1:]), mean(here[1:], sizes[1:])
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    there = one_round(remote, 1)
    assert not foreseen()
    mean(there[::-1], sizes[::-1])
    for number, again in ((2, False), (3, False), (4, True)):
        there = one_round(remote, number)
        assert foreseen() == again
        mean(there, sizes)


def on_posing(
    network: Network, device: Posing, describe: Describe, share: float = 1.0
) -> RemoteTrainer:
    """One that trains at two workers, each on such a device with this share of its memory."""
    return RemoteTrainer(
        network,
        shards(),
        plain_loss,
        cluster=Cluster(),
        workers=2,
        device=device,
        memory_share=share,
        describe=describe,
        platform=describe(network.placed(device.part(share))),
        give_up_s=5.0,
    )


def test_what_befalls_accelerators_of_workers_is_told_here() -> None:
    """Others occupy most of their memory: the bits are the same, with one warning of each kind,
    once.
    """
    net = Network(partial(as_module, Mlp((9,)), IMAGE, 3), IMAGE, Objective("classification"))
    each = job_bytes(net, 8, 0)
    device = Posing(8.5 * each / COHORT_SHARE, free_bytes=2 * each)
    remote = on_posing(net, device, numeric_platform)
    recipe = Recipe(LocalTraining(epochs=1, batch_size=8))
    trainers = remote, BatchedTrainer(net, shards(), plain_loss)

    for number in range(2):
        there, here = (
            [submit(one, client, recipe, number=number) for client in range(len(SIZES))]
            for one in trainers
        )
        for future, expected in zip(there, here, strict=True):
            assert_same_bits(future.result(), expected.result())

        halved, may_show = remote.notices()
        assert (halved.kind, may_show.kind) == ("halved_cohorts", "cohort_dependent")
        assert "memory of posing ran out: cohorts of 8 jobs were halved to 4" in halved.message
        assert halved.message.count("halved to 4") == 1 and halved.count == 4
        assert (
            "results of posing may differ in their last bits from run to run: cohorts of 4"
            in may_show.message
        )


@pytest.mark.parametrize(("share", "jobs"), [(1.0, 8), (0.5, 4), (0.2, 2)])
def test_workers_that_share_an_accelerator_count_on_their_part_of_its_memory(
    share: float, jobs: int
) -> None:
    """Others use the rest: no worker runs out of memory. Cohorts are smaller, and no bit
    differs.
    """
    net = Network(partial(as_module, Mlp((9,)), IMAGE, 3), IMAGE, Objective("classification"))
    each = job_bytes(net, 8, 0)
    device = Posing(8.5 * each / COHORT_SHARE, free_bytes=(jobs + 0.5) * each)
    remote = on_posing(net, device, partial(numeric_platform, shapes=[(8, 0)]), share)
    recipe = Recipe(LocalTraining(epochs=1, batch_size=8))
    there, here = (
        [submit(one, client, recipe) for client in range(len(SIZES))]
        for one in (remote, BatchedTrainer(net, shards(), plain_loss))
    )

    for future, expected in zip(there, here, strict=True):
        assert_same_bits(future.result(), expected.result())
    assert cohort_jobs(net.placed(device.part(share)), 8, 0) == jobs
    assert "halved_cohorts" not in {one.kind for one in remote.notices()}


def test_a_cap_on_cohorts_holds_at_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more jobs than that are trained together there."""
    sizes = []
    train = BatchedTrainer.train

    def counted(self: BatchedTrainer, tasks: Sequence[Task]) -> list[Update]:
        sizes.append(len(tasks))
        return train(self, tasks)

    monkeypatch.setattr(BatchedTrainer, "train", counted)
    _, remote = trainers(partial(as_module, Mlp((4,)), IMAGE, 3), cohort_cap=2)
    recipe = Recipe(LocalTraining(epochs=1, batch_size=8))
    futures = [submit(remote, client, recipe) for client in range(len(SIZES))]

    assert [future.result().client for future in futures] == list(range(len(SIZES)))
    assert sum(sizes) == len(SIZES) and max(sizes) == 2


def test_small_updates_are_sent_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where their sum is not foreseen. What all of them come to in bytes is what counts."""
    model = 4 * sum(one.numel() for one in spread_out()[2][0].payload.values())
    for least, small in ((40 * model, False), (40 * model + 1, True)):
        monkeypatch.setattr("simfl.learning.workers.remote.LEAST_HELD_BYTES", least)
        remote, there, *_ = spread_out()
        assert all(isinstance(update.payload, Elsewhere) for update in there)
        mean(there, [1.0] * len(there))
        there = one_round(remote, 1)
        assert all(isinstance(update.payload, Elsewhere) != small for update in there)


def test_a_payload_that_is_looked_at_comes_here_and_the_next_ones_too() -> None:
    """It is a dict like any other; what nobody needs any more is forgotten at its worker."""
    remote, there, here, cluster = spread_out()
    payload, expected = there[3].payload, here[3].payload
    assert all_finite(payload) and isinstance(payload, Elsewhere) and not payload.here

    for found in ({**payload}, dict(payload), payload.copy(), payload | {}, {} | payload):
        assert_same_bits(replace(there[3], payload=found), here[3])
    copied = pickle.loads(pickle.dumps(payload))
    assert type(copied) is dict and list(copied) == list(payload.keys()) == list(expected)
    assert len(payload) == len(expected) and payload.get("no such name") is None
    assert torch.equal(payload["1.weight"], expected["1.weight"])
    assert all(torch.equal(one, expected[name]) for name, one in payload.items())
    worker = cluster.lines[0]._worker
    assert len(worker._held) == 1

    del there, payload, found
    future = submit(remote, 0, Recipe(LocalTraining(epochs=1, batch_size=8)), number=1)

    assert not isinstance(future.result().payload, Elsewhere)
    assert not worker._held
