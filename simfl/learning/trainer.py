"""The trainer: jobs are submitted, futures are read, and work is done in between.

A protocol submits a job when a client is dispatched and reads its future when the upload arrives.
Reading one future trains all pending jobs with available inputs together. A job's result depends
neither on when that happens nor on the other jobs.
"""

from __future__ import annotations

import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from torch import Tensor

from simfl.common.notices import Notice
from simfl.learning.codecs.base import ValueCodec
from simfl.learning.datasets.base import Examples
from simfl.learning.job import Brief, Memory, Update
from simfl.learning.minibatch import Minibatch
from simfl.learning.network import Network
from simfl.learning.parameters import Elsewhere, Parameters, all_finite
from simfl.learning.placing import placed_shards
from simfl.learning.task import Task, alike
from simfl.learning.workers.tally import WorkerShare

Loss = Callable[[Parameters, Minibatch], Tensor]
"""An algorithm's loss: one value per job, shape (jobs,). See `Algorithm.loss`."""

Augmentation = Callable[[Tensor], Tensor]
"""Changes inputs (rows, ...), each on its own draw from torch's global generator."""


NOTHING_KEPT = Memory()
"""The memory of a client without an earlier job."""


class UpdateStore(Protocol):
    """Updates by key, kept for this run and others."""

    def get(self, key: str) -> Update | None:
        """The update of a key, if it is (still) stored; its brief has no tensors."""

    def put(self, key: str, value: Update) -> None:
        """Stores an update."""

    def __contains__(self, key: str) -> bool:
        """Whether the key is stored."""


def without_start(update: Update) -> Update:
    """An update without the tensors that its job started from."""
    return replace(update, brief=replace(update.brief, start={}, own={}, correction={}))


class Awaited(Protocol):
    """A value that jobs start from, perhaps not computed yet."""

    @property
    def known(self) -> bool:
        """Whether the value is available without training."""

    def when_known(self, call: Callable[[], None]) -> None:
        """Call once, as soon as the value is computed."""


@dataclass
class LocalJob:
    """One client's local training in one round, before it is done.

    `make_brief` is called once, when the job is trained; `awaits` is the value that it reads, None
    if that is available already. `previous` is the client's job whose memory this one takes.
    `make_common` returns the tensors that all jobs of a state share (`Algorithm.common`); jobs are
    trained together only if it returns the same object. `receive` converts the brief's start to
    what the client receives, and `uplink` is the codec of its upload; None: unchanged.
    """

    key: str
    client: int
    seed: int
    version: int
    make_brief: Callable[[], Brief]
    awaits: Awaited | None = None
    previous: Future | None = None
    make_common: Callable[[], Any] | None = None
    receive: Callable[[Brief], Parameters] | None = None
    uplink: ValueCodec | None = None


class Future:
    """The handle of a submitted job. While nothing refers to it, the job counts as withdrawn."""

    def __init__(self, trainer: Trainer, job: LocalJob) -> None:
        self.key = job.key
        self.client = job.client
        self.version = job.version
        self._trainer = trainer
        self._job: LocalJob | None = job
        self._update: Update | None = None
        self._memory: Memory | None = None
        self._followers: list[Callable[[], None]] = []

    @property
    def done(self) -> bool:
        """Whether the job needs no more training."""
        store = self._trainer.store
        return not self.unfulfilled or (store is not None and self.key in store)

    @property
    def unfulfilled(self) -> bool:
        """Whether neither the update nor, after its release, the memory is available."""
        return self._update is None and self._memory is None

    def result(self) -> Update:
        """The update; trained now if necessary, together with all other possible jobs."""
        if self._memory is not None:
            raise RuntimeError(f"the update of client {self.client} was released after its use")
        if self._update is None:
            self._trainer.resolve(self)
        assert self._update is not None
        return self._update

    def memory(self) -> Memory:
        """The client's memory after this job; stays available after `release`."""
        return self._memory if self._memory is not None else self.result().memory

    def release(self) -> None:
        """Frees the tensors of a used update, and keeps only the client's memory."""
        self._memory = self.memory()
        self._update = None

    def recall(self, updates: Mapping[str, Update], memories: Mapping[str, Memory]) -> None:
        """Takes the result, or only the memory, from those saved earlier, if present."""
        if self.key in updates:
            self.fulfil(updates[self.key])
        elif self.key in memories:
            self._memory = memories[self.key]
            self._settle()

    def save(self, updates: dict[str, Update], memories: dict[str, Memory]) -> None:
        """Saves the result, or only the memory, for `recall`."""
        if self._memory is not None:
            memories[self.key] = self._memory
        elif self._update is not None and not _out_of_reach(self._update):
            updates[self.key] = self._update

    @property
    def job(self) -> LocalJob:
        """The job that is still to be done."""
        assert self._job is not None
        return self._job

    def fulfil(self, update: Update) -> None:
        """Takes the result and frees everything that the job held."""
        self._update = update
        self._settle()

    def when_done(self, call: Callable[[], None]) -> None:
        """Call once, as soon as the result is here."""
        self._followers.append(call)

    def _settle(self) -> None:
        self._job = None
        followers, self._followers = self._followers, []
        for call in followers:
            call()


class Trainer(ABC):
    """Trains submitted jobs in cohorts; a subclass computes one cohort.

    `shards` are the clients' data by client number. `store` maps keys to updates that need no
    training, and is given those of every job trained here. `cohort_cap` limits how many
    jobs are trained together (None: the trainer chooses); it changes no bit of any result.

    Counters, for reports: `jobs_asked` (submitted), `trained` (jobs), `reused` (from the store),
    `cohorts` (their sizes), `seconds` of wall time spent training.
    """

    def __init__(
        self,
        network: Network,
        shards: Sequence[Examples],
        loss: Loss,
        *,
        augmentation: Augmentation | None = None,
        store: UpdateStore | None = None,
        cohort_cap: int | None = None,
        forget_non_finite: bool = False,
    ) -> None:
        self.network = network
        self.shards = placed_shards(shards, network)
        self.loss = loss
        self.augmentation = augmentation
        self.store = store
        self.cohort_cap = cohort_cap
        self._forget_non_finite = forget_non_finite
        self.jobs_asked = 0
        self.trained = 0
        self.reused = 0
        self.seconds = 0.0
        self.cohorts: list[int] = []
        # Pending futures with available inputs, by number of submission. The others register when
        # their inputs become available, so that a training examines only the jobs that it includes.
        # A future that nothing refers to any more is dropped by the next training.
        self._at_hand: dict[int, weakref.ref[Future]] = {}

    @abstractmethod
    def train(self, tasks: Sequence[Task]) -> list[Update]:
        """The updates of tasks of one cohort, in their order."""

    def train_each(self, cohorts: Sequence[Sequence[Task]]) -> Iterator[list[Update]]:
        """The updates of cohorts that do not depend on one another, in their order."""
        for tasks in cohorts:
            yield self.train(tasks)

    def close(self) -> None:  # noqa: B027  # most have none
        """Releases workers, if there are any; the next training starts new ones."""

    def trained_where(self) -> list[WorkerShare]:
        """The number of jobs trained by each worker, if there are any."""
        return []

    def notices(self) -> list[Notice]:
        """Warnings of the training itself, for the manifest."""
        return []

    def largest_cohort(self, task: Task) -> int | None:
        """The most jobs like this one to train together, without a `cohort_cap`."""
        return None

    def pieces(self, tasks: Sequence[Task]) -> int:
        """The number of cohorts into which to split tasks that could be trained together."""
        return -(-len(tasks) // (self.cohort_cap or self.largest_cohort(tasks[0]) or len(tasks)))

    def submit(self, job: LocalJob) -> Future:
        """Accepts a job. It is trained when its future is read, or with another one, or never."""
        future = Future(self, job)
        self._place(self.jobs_asked, weakref.ref(future))
        self.jobs_asked += 1
        return future

    def _place(self, number: int, handle: weakref.ref[Future]) -> None:
        """Adds a pending future to the available ones, now or when its inputs are available."""
        future = handle()
        if future is None or future.done:
            return
        waits = _what_it_waits_for(future.job)
        if waits is None:
            self._at_hand[number] = handle
        else:
            waits(partial(self._place, number, handle))

    def resolve(self, wanted: Future) -> None:
        """Trains `wanted`, the client's earlier jobs it needs, and all other available jobs."""
        chain = [wanted]
        while not self._recalled(chain[-1]) and (previous := chain[-1].job.previous) is not None:
            chain.append(previous)
        for future in reversed(chain):
            if future.unfulfilled:
                self._train_with_company(future)

    def _recalled(self, future: Future) -> bool:
        """Whether the future is fulfilled, possibly from the store."""
        if not future.unfulfilled:
            return True
        kept = None if self.store is None else self.store.get(future.key)
        if kept is None:
            return False
        # The store keeps the results of training; the job provides their start again.
        future.fulfil(replace(kept, brief=future.job.make_brief()))
        self.reused += 1
        return True

    def _train_with_company(self, wanted: Future) -> None:
        first = self._task(wanted)
        if (
            not wanted.unfulfilled
        ):  # making its brief read another future, which trained this one, too
            return
        tasks = {wanted: first}
        for future in self._company():
            if future is not wanted:
                tasks[future] = self._task(future)
        futures, every = list(tasks), list(tasks.values())
        places = self.cut(every)
        cohorts = [[futures[place] for place in cohort] for cohort in places]
        work = [[every[place] for place in cohort] for cohort in places]
        began = time.perf_counter()
        with self.network.computing():
            for cohort, updates in zip(cohorts, self.train_each(work), strict=True):
                self._take(cohort, updates)
        self.seconds += time.perf_counter() - began

    def _take(self, cohort: Sequence[Future], updates: Sequence[Update]) -> None:
        self.trained += len(cohort)
        self.cohorts.append(len(cohort))
        for future, trained in zip(cohort, updates, strict=True):
            update = self._sound(trained)
            future.fulfil(update)
            if self.store is not None:
                self.store.put(future.key, without_start(update))

    def _sound(self, update: Update) -> Update:
        """The update, without a memory in which a NaN would persist."""
        if not self._forget_non_finite:
            return update
        sound = all_finite(update.payload) and all_finite(update.memory.private)
        return update if sound else replace(update, memory=NOTHING_KEPT)

    def _company(self) -> Iterator[Future]:
        """Takes out, in order of submission, the jobs that can be trained now."""
        for number in sorted(self._at_hand):
            handle = self._at_hand.pop(number, None)
            future = None if handle is None else handle()
            if future is None or handle is None or future.done:
                continue
            if _what_it_waits_for(future.job) is None:
                yield future
            else:  # a store has evicted an available input
                self._place(number, handle)

    def cut(self, tasks: Sequence[Task]) -> list[list[int]]:
        """The tasks of each cohort, by their places.

        Cohorts of one kind have equal sizes, with jobs of similar length together, to wait less for
        the longest.
        """
        lengths = [_length(task) for task in tasks]
        cohorts = []
        for group in alike(tasks):
            size = -(-len(group) // self.pieces([tasks[place] for place in group]))
            ordered = sorted(group, key=lengths.__getitem__, reverse=True)
            cohorts += [ordered[start : start + size] for start in range(0, len(ordered), size)]
        return cohorts

    def _task(self, future: Future) -> Task:
        job = future.job
        brief = job.make_brief()
        memory = NOTHING_KEPT if job.previous is None else job.previous.memory()
        received = None if job.receive is None else job.receive(brief)
        return Task(
            client=job.client,
            seed=job.seed,
            version=job.version,
            brief=brief,
            memory=memory,
            examples=self.shards[job.client],
            common=None if job.make_common is None else job.make_common(),
            received=received,
            uplink=job.uplink,
            state=job.awaits,
        )


def _length(task: Task) -> tuple[float, int]:
    """How long a job takes beside others: its steps, then its examples."""
    examples = len(task.examples)
    return float(task.brief.recipe.local.num_steps(examples)), examples


def _out_of_reach(update: Update) -> bool:
    """Whether its payload was at a lost worker, so that it would have to be trained again."""
    payload = update.payload
    return isinstance(payload, Elsewhere) and not (payload.here or payload.source.has(payload))


def _what_it_waits_for(job: LocalJob) -> Callable[[Callable[[], None]], None] | None:
    """The value or job to wait for next; None if all inputs are available."""
    if job.previous is not None and not job.previous.done:
        return job.previous.when_done
    if job.awaits is not None and not job.awaits.known:
        return job.awaits.when_known
    return None
