"""Workers of a cluster answer in order, whatever befalls them; strange ones are refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from simfl.learning.workers.pool import WorkerDied
from simfl.learning.workers.remote_pool import NoWorkers, RemotePool
from tests.learning.clusters import Cluster

PLATFORM = {"cpu": "AVX2", "torch": "2"}


def platform() -> Mapping[str, Any]:
    """What workers say of themselves."""
    return PLATFORM


def doubled(shared: list[Any]) -> Callable[[list[Any]], list[Any]]:
    """A handler that returns twice the request plus the shared value."""
    (bias,) = shared

    def handle(request: list[Any]) -> list[Any]:
        if request[0] is None:
            raise LookupError("nothing to double")
        return [2 * one + bias for one in request]

    return handle


def pool(cluster: Cluster, count: int, give_up_s: float = 60.0) -> RemotePool:
    """A pool that adds 1."""
    return RemotePool(
        cluster,
        count,
        doubled,
        [torch.ones(1)],
        describe=platform,
        platform=PLATFORM,
        give_up_s=give_up_s,
    )


def test_answers_come_in_the_order_of_the_requests_and_the_largest_are_handed_out_first() -> None:
    """At most two requests lie at a worker; who has less to do gets the next."""
    cluster = Cluster()
    workers = pool(cluster, 2)
    requests = [[torch.tensor([float(number)])] for number in range(7)]

    answers = workers.map(requests, [1, 9, 2, 8, 3, 7, 1])
    first = next(answers)

    assert [int(one[0]) for one in [first, *answers]] == [1, 3, 5, 7, 9, 11, 13]
    sent = [
        [int(packed.own.flat[:4].view("f4")[0]) for packed in one.asked] for one in cluster.lines
    ]
    # 9 and 8, then 7 to whom has 8, and 3; whoever has answered gets the next.
    assert [one[:2] for one in sent] == [[1, 4], [3, 5]]


def test_no_worker_has_more_than_two_requests() -> None:
    """What a worker that hangs has, beside what it does, is one request."""
    cluster = Cluster("hangs")
    workers = pool(cluster, 1, give_up_s=0.01)

    list(workers.map([[torch.ones(1)] for _ in range(9)]))

    assert [len(line.asked) for line in cluster.lines] == [2, 9]


def test_as_many_workers_as_there_is_room_for_and_no_more_than_requests() -> None:
    """0 asks the cluster."""
    cluster = Cluster(room=3)
    workers = pool(cluster, 0)

    assert workers.count == 3
    assert len(list(workers.map([[torch.ones(1)], [torch.ones(1)]]))) == 2
    assert len(cluster.lines) == 2


def test_what_several_requests_need_is_put_once() -> None:
    """Also when it is needed again later; what one request needs travels with it."""
    cluster, state, other = Cluster(), torch.arange(5.0), torch.arange(3.0)
    workers = pool(cluster, 2)

    answers = list(workers.map([[state, torch.ones(2)], [state, torch.zeros(2)]]))
    list(workers.map([[state, other]]))
    list(workers.map([[other]]))

    assert torch.equal(answers[1][0], 2 * state + 1) and answers[0][1].tolist() == [3, 3]
    sizes = [[shape.numel() for _, shape, _ in one.run] for one in cluster.put_bundles]
    assert sizes == [[5], [3]]
    own = [
        [shape.numel() for _, shape, _ in packed.own.run]
        for one in cluster.lines
        for packed in one.asked
    ]
    assert sorted(own) == [[], [2], [2], [3]]


@pytest.mark.parametrize("fate", ["killed", "hangs"])
def test_what_a_lost_worker_had_is_asked_of_others(fate: str) -> None:
    """It is ended and replaced; the manifest names it and says why."""
    cluster = Cluster("", fate)
    workers = pool(cluster, 2, give_up_s=0.05)

    answers = list(workers.map([[torch.tensor([float(number)])] for number in range(6)]))

    assert [int(answer[0]) for answer in answers] == [1, 3, 5, 7, 9, 11]
    assert [line.ended for line in cluster.lines] == [False, True, False]
    (found,) = workers.notices()
    assert (found.kind, found.count) == ("lost_workers", 1)
    assert "machine 1" in found.message
    assert ("killed" if fate == "killed" else "no answer in 0.05 s (--give-up-s)") in found.message


def test_jobs_that_take_one_worker_after_another_down_are_given_up() -> None:
    """Three times, and all workers are ended."""
    cluster = Cluster("killed", "killed", "killed")

    with pytest.raises(
        WorkerDied, match=r"3 workers were lost over the same jobs: machine 0 .*killed"
    ):
        list(pool(cluster, 1).map([[torch.ones(1)]]))

    assert all(line.ended for line in cluster.lines)


def test_a_worker_of_another_platform_is_refused_by_name() -> None:
    """The others go on; where there are none, all are named."""
    cluster = Cluster({"cpu": "AVX512"}, "", {"cpu": "AVX512"})
    workers = pool(cluster, 2)

    assert len(list(workers.map([[torch.ones(1)], [torch.ones(1)], [torch.ones(1)]]))) == 3

    (found,) = workers.notices()
    assert found.kind == "refused_workers"
    assert "machine 0 (cpu AVX512 instead of AVX2)" in found.message
    assert [bool(line.asked) for line in cluster.lines] == [False, True]
    with pytest.raises(
        NoWorkers, match=r"every worker was refused: machine 0 \(torch 3 instead of 2\)"
    ):
        list(pool(Cluster({"torch": "3"}), 1).map([[torch.ones(1)]]))


def test_a_cluster_without_room_is_told() -> None:
    """After the time that a worker has; while others work, one may wait for room."""
    with pytest.raises(NoWorkers, match=r"no worker has begun within 0.05 s .* needs 1 CPU"):
        list(pool(Cluster("absent"), 1, give_up_s=0.05).map([[torch.ones(1)]]))

    one_waits = pool(Cluster("", "absent"), 2, give_up_s=0.0)

    assert len(list(one_waits.map([[torch.ones(1)], [torch.ones(1)]]))) == 2


def test_who_waits_for_room_is_late_only_when_nobody_works_any_more() -> None:
    """Then it has all the time that the first one had."""
    cluster = Cluster("fades", "queues")

    answers = pool(cluster, 2, give_up_s=0.05).map([[torch.ones(1)], [torch.ones(1)]])

    assert [int(answer[0]) for answer in answers] == [3, 3]
    assert cluster.lines[0].ended and cluster.lines[1].asked


def test_who_waits_for_room_does_not_keep_anybody_from_waiting_for_answers() -> None:
    """However long it waits: it is not polled."""
    cluster = Cluster("", "absent")
    workers = pool(cluster, 2, give_up_s=0.05)
    list(workers.map([[torch.ones(1)]] * 2))
    time.sleep(0.06)
    cluster.waits_s.clear()

    list(workers.map([[torch.ones(1)]]))

    assert max(cluster.waits_s) > 0


def test_where_workers_die_as_they_begin_and_then_the_last_one_others_are_begun() -> None:
    """Three of them end the attempts only where others go on, and the run where none does."""
    cluster = Cluster("killed", *["stillborn"] * 3)

    answers = list(pool(cluster, 4).map([[torch.ones(1)]] * 4))

    assert [int(answer[0]) for answer in answers] == [3] * 4
    assert [line.ended for line in cluster.lines[:4]] == [True] * 4
    with pytest.raises(WorkerDied, match="3 workers were lost as they began"):
        list(pool(Cluster("killed", *["stillborn"] * 9), 4).map([[torch.ones(1)]] * 4))


def test_what_a_worker_raises_is_raised_here() -> None:
    """And ends all workers."""
    cluster = Cluster()
    workers = pool(cluster, 1)

    with pytest.raises(LookupError, match="nothing to double"):
        list(workers.map([[None]]))

    assert cluster.lines[0].ended


def test_what_cannot_be_sent_is_refused() -> None:
    """At once."""
    with pytest.raises(ValueError, match="cannot be sent to workers"):
        RemotePool(
            Cluster(),
            1,
            lambda shared: list,
            [],
            describe=platform,
            platform=PLATFORM,
            give_up_s=1.0,
        )
