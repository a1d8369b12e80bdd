"""The batched trainer on a cluster, whose workers train all cohorts.

Neither the number of workers nor the loss of some of them changes any bit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from simfl.common.notices import Notice
from simfl.learning.cohort_size import LARGEST_COHORT
from simfl.learning.datasets.base import Examples
from simfl.learning.devices import ComputeDevice, device_of
from simfl.learning.job import Update
from simfl.learning.network import Network
from simfl.learning.padded_cohorts import notices_of
from simfl.learning.parameters import Elsewhere, Parameters, all_finite
from simfl.learning.sums import FAN, PartialSum
from simfl.learning.task import Task
from simfl.learning.trainer import Augmentation, Loss
from simfl.learning.workers.early_sums import Foreseen, ForeseenSums
from simfl.learning.workers.remote_pool import Cluster, Held, RemotePool
from simfl.learning.workers.spread import Outcome, Setup, SpreadTrainer, answered, requests
from simfl.learning.workers.tally import WorkerShare

Describe = Callable[[Network], Mapping[str, Any]]
"""Describes the numeric platform of a network where it is called."""

LEAST_HELD_BYTES = 2**22
"""Bytes of all updates in a training from which summing them at the workers is worthwhile if it was
not foreseen: it takes one more request to every worker, which costs as much as sending megabytes.
"""


class RemoteTrainer(SpreadTrainer):
    """Trains cohorts in `workers` workers of a cluster (0: as many as there is room for), on
    `device`, regardless of this process's device; each may use `memory_share` of the device's
    memory.

    Network, loss and augmentation must be picklable; raises ValueError if they are not. See
    `RemotePool` for other arguments; further ones are the trainer's.
    """

    def __init__(
        self,
        network: Network,
        shards: Sequence[Examples],
        loss: Loss,
        *,
        cluster: Cluster,
        workers: int,
        device: ComputeDevice | str,
        memory_share: float = 1.0,
        describe: Describe,
        platform: Mapping[str, Any],
        give_up_s: float,
        prepare: Sequence[Callable[[], object]] = (),
        augmentation: Augmentation | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(network, shards, loss, augmentation=augmentation, **settings)
        self.pool = RemotePool(
            cluster,
            workers,
            Setup(network, loss, augmentation, device, memory_share, self.cohort_cap),
            self.shards,
            describe=partial(described, describe, network, device, memory_share),
            platform=platform,
            device=device,
            split=split,
            prepare=prepare,
            give_up_s=give_up_s,
        )
        self._accelerated = device != "cpu"
        self._payloads = Payloads(self.pool)

    def cut(self, tasks: Sequence[Task]) -> list[list[int]]:
        """Parts with neighbours in canonical order and about equal work, one or two per worker.

        Jobs are ordered by state, so that their updates can be summed at the workers. A worker cuts
        its part into cohorts. There are two parts per worker, the second trained while the first
        one's answer is sent, if both fill cohorts of the largest size; jobs in smaller cohorts take
        longer.
        """
        sent: dict[int, list[int]] = {}
        for place in sorted(range(len(tasks)), key=lambda place: tasks[place].client):
            sent.setdefault(id(tasks[place].state), []).append(place)
        order = [place for places in sent.values() for place in places]
        many = len(tasks) >= 2 * self.pool.count * max(FAN * FAN, self._whole_cohort)
        parts = min(2 * self.pool.count if many else self.pool.count, len(tasks))
        unit = FAN if len(tasks) >= FAN * FAN * parts else 1
        flops = [max(1.0, self.flops(tasks[place])) for place in order]
        ends = list(accumulate(flops))
        # A part may end after complete branches of the sum of a state's updates.
        starts = accumulate(map(len, sent.values()), initial=0)
        whole = [
            start + done
            for start, places in zip(starts, sent.values(), strict=False)
            for done in [*range(unit, len(places), unit), len(places)]
        ]
        cuts = {len(order)}
        for part in range(1, parts):
            after = bisect_left(ends, ends[-1] * part / parts) + 1
            cuts.add(min(whole, key=lambda end: abs(end - after)))
        edges = [0, *sorted(cuts)]
        return [order[start:end] for start, end in pairwise(edges)]

    @property
    def _whole_cohort(self) -> int:
        """The number of jobs that a worker trains together if it has enough."""
        if self._accelerated:
            return LARGEST_COHORT
        return self.on_a_processor() if self.network.kernel_family == "stacked" else 1

    def train_each(self, cohorts: Sequence[Sequence[Task]]) -> Iterator[list[Update]]:
        """Each cohort's updates, in the order of the cohorts."""
        costs = [sum(map(self.flops, tasks)) for tasks in cohorts]
        large = sum(map(len, cohorts)) * self.network.size_bytes >= LEAST_HELD_BYTES
        # If single updates were needed before, they will be needed again: then they are sent at
        # once.
        summed = self._payloads.fetched_ones <= self._payloads.summed_ones
        wanted = self._payloads.foreseen_ones >= self._payloads.other_ones
        if not (self.store is None and summed and (large or wanted)):
            yield from answered(cohorts, self.pool.map(requests(cohorts), costs))
            return
        foreseen = ForeseenSums(cohorts, wanted=wanted)
        answers = self.pool.map(requests(cohorts), costs, hold=True, foreseen=foreseen)
        yield from answered(cohorts, self._payloads.seen(answers, foreseen))

    def close(self) -> None:
        """End the workers, which frees their resources in the cluster."""
        self.pool.close()

    def trained_where(self) -> list[WorkerShare]:
        """Shares of the cluster's workers."""
        return self.pool.tally.shares()

    def notices(self) -> list[Notice]:
        """Warnings about cohorts at workers, and about lost or refused workers."""
        return [*notices_of(self.pool.remarks), *self.pool.notices()]


class Lies(NamedTuple):
    """Where a payload is: at a worker, by its index in what it holds; and its place in a mean."""

    held: Held
    place: int
    foreseen: Foreseen
    member: int


class Payloads:
    """Payloads at workers; counts those sent individually, and those summed as foreseen or
    otherwise.
    """

    def __init__(self, pool: RemotePool) -> None:
        self._pool = pool
        self.fetched_ones = 0
        self.foreseen_ones = 0
        self.other_ones = 0

    @property
    def summed_ones(self) -> int:
        """The number of payloads summed, as foreseen or otherwise."""
        return self.foreseen_ones + self.other_ones

    def seen(
        self, answers: Iterable[Sequence[Any]], foreseen: ForeseenSums
    ) -> Iterator[list[Outcome]]:
        """Answers whose payloads are elsewhere."""
        for places, (*outcomes, finite, held) in zip(foreseen.places, answers, strict=True):
            yield [
                one._replace(payload=Elsewhere(self, Lies(held, place, mean, member), finite=ok))
                for place, (one, ok, (mean, member)) in enumerate(
                    zip(outcomes, finite, places, strict=True)
                )
            ]

    def has(self, one: Elsewhere) -> bool:
        """Whether its worker still exists."""
        return self._pool.has(one.at.held)

    def fetched(self, one: Elsewhere) -> Parameters:
        """The payload itself."""
        held = one.at.held
        self.fetched_ones += 1
        if held.fetched is None:  # whoever needs one needs its neighbours too
            held.fetched = self._pool.fetch(held)
        payload: Parameters = held.fetched[one.at.place]
        return payload

    def partial_sums(
        self, weights: Sequence[float], members: Mapping[int, Elsewhere]
    ) -> Sequence[PartialSum]:
        """Parts of a sum: the foreseen one if it is already here, or one per worker."""
        lie: dict[int, Lies] = {place: one.at for place, one in members.items()}
        foreseen = next(iter(lie.values())).foreseen
        own = {place: one.member for place, one in lie.items() if one.foreseen is foreseen}
        if foreseen.is_the(weights, own):
            self.foreseen_ones += len(members)
            if (found := foreseen.taken()) is not None:
                return [found]
        else:
            self.other_ones += len(members)
        return self._pool.partial_sums(
            weights, {place: (one.held, one.place) for place, one in lie.items()}
        )


def split(outcomes: Sequence[Outcome]) -> tuple[list[Any], list[Parameters]]:
    """The outcomes without payloads and whether these are finite; and the payloads."""
    payloads = [{name: one.cpu() for name, one in each.payload.items()} for each in outcomes]
    shown = [one._replace(payload={}) for one in outcomes]
    return [*shown, list(map(all_finite, payloads))], payloads


def described(
    describe: Describe, network: Network, device: ComputeDevice | str, memory_share: float
) -> Mapping[str, Any]:
    """The numeric platform of a worker that trains on this device."""
    return describe(network.placed(device_of(device).part(memory_share)))
