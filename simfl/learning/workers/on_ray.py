"""Workers of one run on a Ray cluster."""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch

from simfl.common.ray_cluster import GIVE_UP_S, connect
from simfl.learning.workers.answering import Answering
from simfl.learning.workers.early_sums import Wanted
from simfl.learning.workers.packed_requests import Bundle, PackedValues
from simfl.learning.workers.remote_pool import Line, NoWorkers, WorkerLost

ROUNDING = 1e-6
"""Tolerance in workers when computing the available room, since 0.3 / 0.1 < 3."""


@dataclass(frozen=True)
class RayWorkers:
    """Where a run's workers are: on the Ray cluster at `address`.

    "auto" is the cluster that this machine belongs to, "local" a new one on this machine. Each
    worker occupies so many CPU cores and GPUs (may be fractional); with GPUs it trains on one. A
    worker that does not answer for `give_up_s` is given up, and its jobs are given to another one.
    """

    address: str = "auto"
    cpus_per_worker: float = 1.0
    gpus_per_worker: float = 0.0
    give_up_s: float = GIVE_UP_S

    @property
    def device(self) -> str:
        """The kind of device that workers train on."""
        return "cuda" if self.gpus_per_worker else "cpu"

    @property
    def memory_share(self) -> float:
        """The share of a GPU's memory that each worker may use."""
        return min(1.0, self.gpus_per_worker or 1.0)


class RayCluster:
    """The cluster for `RemotePool`. Raises `MissingRay`."""

    def __init__(self, workers: RayWorkers) -> None:
        self._ray = connect(workers.address)
        self._needs = {"CPU": workers.cpus_per_worker, "GPU": workers.gpus_per_worker}
        self._options = {
            "num_cpus": workers.cpus_per_worker,
            "num_gpus": workers.gpus_per_worker,
        }
        self._actor = self._ray.remote(**self._options)(_Actor)

    def room(self) -> int:
        """How many workers the cluster has room for now."""
        free = self._ray.available_resources()
        return min(
            int(free.get(what, 0) / each + ROUNDING) for what, each in self._needs.items() if each
        )

    def line(self) -> Line:
        """A new worker, which starts as soon as there is room for it."""
        return RayLine(self._ray, self._actor.remote())

    def put(self, value: Any) -> Any:
        """Put a value into the object store: each machine gets it once, shared by all its
        workers.
        """
        return self._ray.put(value)

    def wait(self, handles: Sequence[Any], longest_s: float) -> list[Any]:
        """The finished handles, after waiting for the first of them."""
        done, rest = self._ray.wait(list(handles), timeout=longest_s)
        more, _ = self._ray.wait(rest, num_returns=len(rest), timeout=0) if rest else ([], [])
        return [*done, *more]

    def get(self, handle: Any) -> Any:
        """The value of a finished handle; raises WorkerLost, or the exception raised there."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(handle)
        except errors.RayTaskError as error:
            raise error.cause from error
        except errors.RayError as error:
            said = str(error).strip().partition("\n")[0].rstrip(".")
            raise WorkerLost(f"{type(error).__name__}: {said}") from error

    def what_is_asked(self) -> str:
        """What each worker needs, as text."""
        each = " and ".join(f"{amount:g} {what}" for what, amount in self._needs.items() if amount)
        free = self._ray.available_resources()
        there = ", ".join(f"{free.get(what, 0):g} {what}" for what in self._needs)
        return f"{each}; free in the cluster: {there}"

    def asked(
        self, what: Callable[[], Any], prepare: Sequence[Callable[[], object]], longest_s: float
    ) -> Any:
        """The answer of a worker started only for this question; raises `NoWorkers`."""
        remote = self._ray.remote(**self._options)(_said)
        handle = remote.remote(tuple(prepare), pickle.dumps(what))
        try:
            if self.wait([handle], longest_s):
                return self.get(handle)
        except WorkerLost as loss:
            raise NoWorkers(f"the first worker was lost: {loss}") from loss
        self._ray.cancel(handle, force=True)
        raise NoWorkers(
            f"no worker has begun within {longest_s:g} s (--give-up-s); each needs"
            f" {self.what_is_asked()}"
        )


def _said(prepare: Sequence[Callable[[], object]], what: bytes) -> Any:
    torch.set_num_threads(1)
    for one in prepare:
        one()
    return pickle.loads(what)()


class _Actor(Answering):
    """A worker, as started by Ray."""

    def __init__(self) -> None:
        self._brought: dict[str, Bundle] = {}
        super().__init__(lambda name: self._brought[name])

    def answer_with(self, names: Sequence[str], request: PackedValues, *rest: Any) -> PackedValues:
        """See `answer`. Its arguments are followed by bundles with these names."""
        count = len(rest) - len(names)
        self._brought = dict(zip(names, rest[count:], strict=True))
        try:
            return self.answer(request, *rest[:count])
        finally:
            self._brought = {}

    def where(self) -> str:
        """The name of its machine, and its process ID."""
        return f"{socket.gethostname()}, process {os.getpid()}"


class RayLine:
    """A worker as seen by its client (`Line`)."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray = ray
        self._actor = actor
        self._where = actor.where.remote()
        self._there: set[str] = set()

    def begin(self, prepare: Sequence[Any], setup: Any, shared: Any) -> Any:
        """Have the worker prepared; returns the handle of its platform."""
        return self._actor.begin.remote(prepare, setup, shared)

    def ask(
        self, packed: PackedValues, held: int | None, forgotten: Sequence[int], wanted: Wanted
    ) -> Any:
        """Send a request; returns the handle of the answer."""
        # Ray delivers arguments. If they were nested handles, the worker would have to ask for
        # them, and Ray would track their users.
        fetched = {one.hex(): one for one in packed.fetched}
        new = {name: one for name, one in fetched.items() if name not in self._there}
        self._there = set(fetched)  # which is what `Answering` keeps
        request = replace(packed, fetched=list(fetched))
        return self._actor.answer_with.remote(
            list(new), request, held, forgotten, wanted, *new.values()
        )

    def fetch(self, held: int) -> Any:
        """The handle of what it holds of a request."""
        return self._actor.fetch.remote(held)

    def partial_sum(self, weights: Sequence[float], members: Mapping[int, tuple[int, int]]) -> Any:
        """The handle of a part of a sum."""
        return self._actor.partial_sum.remote(weights, members)

    def where(self) -> str:
        """The worker's machine and process."""
        try:
            return f"{self._ray.get(self._where, timeout=0)}"
        except self._ray.exceptions.RayError:
            return "one that never began"

    def end(self) -> None:
        """End the worker."""
        # When the process exits, Ray may be gone, and a call to it would start another cluster.
        if self._ray.is_initialized():
            with suppress(self._ray.exceptions.RayError):
                self._ray.kill(self._actor)
