"""The batched trainer on a cluster: all cohorts go to its workers, none is computed here.

How many workers there are, and which of them are lost on the way, changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from simfl.common.notices import Notice
from simfl.learning.datasets.base import Examples
from simfl.learning.job import Update
from simfl.learning.network import Network
from simfl.learning.task import Task
from simfl.learning.trainer import Augmentation, Loss
from simfl.learning.workers.remote_pool import Cluster, RemotePool
from simfl.learning.workers.spread import Setup, SpreadTrainer, answered, requests

Describe = Callable[[Network], Mapping[str, Any]]
"""Says on what numeric platform a network is computed where it is called."""


class RemoteTrainer(SpreadTrainer):
    """Trains cohorts in `workers` workers of a cluster (0: as many as there is room for), on
    `device`, wherever this process computes.

    Network, loss and augmentation must be picklable: raises ValueError where they are not. See
    `RemotePool` for the others; further arguments are the trainer's.
    """

    def __init__(
        self,
        network: Network,
        shards: Sequence[Examples],
        loss: Loss,
        *,
        cluster: Cluster,
        workers: int,
        device: str,
        describe: Describe,
        platform: Mapping[str, Any],
        give_up_s: float,
        prepare: Sequence[Callable[[], object]] = (),
        augmentation: Augmentation | None = None,
        **settings: Any,
    ) -> None:
        self._device = device
        super().__init__(network, shards, loss, augmentation=augmentation, **settings)
        self.pool = RemotePool(
            cluster,
            workers,
            Setup(network, loss, augmentation, device),
            self.shards,
            describe=partial(described, describe, network, device),
            platform=platform,
            device=device,
            prepare=prepare,
            give_up_s=give_up_s,
        )

    def largest_cohort(self) -> int | None:
        """As many jobs as there are where workers have accelerators."""
        return super().largest_cohort() if self._device == "cpu" else None

    def pieces(self, tasks: Sequence[Task]) -> int:
        """As many cohorts as keep every worker busy."""
        return self.spread(tasks, self.pool.count)

    def train_each(self, cohorts: Sequence[Sequence[Task]]) -> Iterator[list[Update]]:
        """Each cohort's updates, in the order of the cohorts."""
        costs = [sum(map(self.flops, tasks)) for tasks in cohorts]
        yield from answered(cohorts, self.pool.map(requests(cohorts), costs))

    def close(self) -> None:
        """End the workers: what they occupy of the cluster is free for others."""
        self.pool.close()

    def notices(self) -> list[Notice]:
        """What befell workers."""
        return self.pool.notices()


def described(describe: Describe, network: Network, device: str) -> Mapping[str, Any]:
    """The numeric platform of a worker that trains on this device."""
    return describe(network.placed(device))
