"""Workers of a cluster, which may be lost, hang, or compute different bits.

A lost worker's requests are given to another one; so are those of a worker that hangs, which is
given up. A worker whose numeric platform differs from that of the run is refused.
"""

from __future__ import annotations

import pickle
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any, Protocol

import torch

from simfl.common.notices import Notice, notice
from simfl.learning.devices import ComputeDevice
from simfl.learning.sums import PartialSum
from simfl.learning.workers.answering import Split
from simfl.learning.workers.early_sums import Wanted
from simfl.learning.workers.packed_requests import Bytes, PackedValues, Sender
from simfl.learning.workers.packing import pack, write
from simfl.learning.workers.pool import AHEAD, MOST_DEATHS, Handler, WorkerDied
from simfl.learning.workers.tally import Tally

LONGEST_WAIT_S = 5.0
"""Maximum time to wait for answers before checking other events."""

Platform = Mapping[str, Any]


class WorkerLost(Exception):
    """A worker, or the connection to it, is gone; the message says how."""


class NoWorkers(RuntimeError):
    """The cluster has no worker on which this run could continue."""


class Line(Protocol):
    """One worker as seen by its client. Handles represent future answers."""

    def begin(self, prepare: Sequence[Any], setup: Any, shared: Any) -> Any:
        """Have the worker prepared; returns the handle of its platform. `setup` and `shared` are
        handles.
        """

    def ask(
        self, packed: PackedValues, held: int | None, forgotten: Sequence[int], wanted: Wanted
    ) -> Any:
        """Send a request; returns the handle of the answer, packed. See `Answering.answer`."""

    def fetch(self, held: int) -> Any:
        """The handle of what it holds of a request, packed."""

    def partial_sum(self, weights: Sequence[float], members: Mapping[int, tuple[int, int]]) -> Any:
        """The handle of a part of a sum, packed. See `Answering.partial_sum`."""

    def where(self) -> str:
        """The worker's machine, as text."""

    def end(self) -> None:
        """End the worker, whatever it is doing."""


class Sums(Protocol):
    """Sums over what is held of all answers, whose parts come with the answers."""

    def of(self, number: int) -> Wanted:
        """The sums to be sent with the answer to this request."""

    def take(self, number: int, parts: Sequence[PartialSum]) -> None:
        """Add what came with this answer, as soon as it has arrived."""


class Cluster(Protocol):
    """Where workers are started."""

    def room(self) -> int:
        """How many workers the cluster has room for now."""

    def line(self) -> Line:
        """A new worker, which starts as soon as there is room for it."""

    def put(self, value: Any) -> Any:
        """Store a value so that every machine of the cluster gets it only once; returns its
        handle.
        """

    def wait(self, handles: Sequence[Any], longest_s: float) -> list[Any]:
        """The finished handles, after waiting for the first of them."""

    def get(self, handle: Any) -> Any:
        """The value of a finished handle; raises WorkerLost, or the exception raised there."""

    def what_is_asked(self) -> str:
        """What each worker needs, as text."""


@dataclass(eq=False)
class Worker:
    """A worker, its requests in order, and since when it has had the first of them."""

    line: Line
    beginning: Any
    since: float
    asked: deque[tuple[int, Any]] = field(default_factory=deque)
    ready: bool = False
    name: str = ""
    forgotten: list[int] = field(default_factory=list)

    @property
    def busy(self) -> bool:
        return not self.ready or bool(self.asked)

    @property
    def awaited(self) -> Any:
        """The handle of its next answer."""
        return self.asked[0][1] if self.ready else self.beginning


class Held:
    """What a worker holds of its answer to one request, until this object is released.

    Answering took so many wall `seconds`.
    """

    def __init__(self, worker: Worker, number: int, request: Sequence[Any], seconds: float) -> None:
        self.request = request
        self.fetched: list[Any] | None = None
        self._take(worker, number, seconds)

    def _take(self, worker: Worker, number: int, seconds: float) -> None:
        self.worker, self.number, self.seconds = worker, number, seconds
        self._forget = weakref.finalize(self, worker.forgotten.append, number)
        self._forget.atexit = False

    def moved(self, other: Held) -> None:
        """Another worker has answered the request again and now holds the answer."""
        self._forget.detach()
        other._forget.detach()
        self._take(other.worker, other.number, other.seconds)


class RemotePool:
    """`workers` workers of a cluster (0: as many as there is room for), with the interface of
    `WorkerPool`.

    `describe` returns a worker's numeric platform, and `platform` is the required one. A request
    that is not answered within `give_up_s` after its worker got to it is given up there. `remarks`
    are the handlers' remarks with the answers that were used (`Remarking`); the `tally` counts the
    values that each worker has answered, without those lost with it.
    """

    def __init__(
        self,
        cluster: Cluster,
        workers: int,
        make_handler: Callable[[list[Any]], Handler],
        shared: Sequence[Any],
        *,
        describe: Callable[[], Platform],
        platform: Platform,
        device: ComputeDevice | str = "cpu",
        split: Split | None = None,
        prepare: Sequence[Callable[[], object]] = (),
        give_up_s: float,
    ) -> None:
        self.cluster = cluster
        self.count = workers or max(1, cluster.room())
        self.platform = dict(platform)
        self.give_up_s = give_up_s
        self.remarks: list[Any] = []
        self.tally = Tally()
        self.lost: list[str] = []
        self.refused: list[str] = []
        try:
            header, layout, tensors, size = pack(shared)
            setup = pickle.dumps((describe, make_handler, split, device, header, layout))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ValueError(f"cannot be sent to workers: {error}") from error
        self._prepare, self._setup = tuple(prepare), setup
        self._shared = layout, tensors, size
        self._sender = Sender(cluster.put)
        self._numbers = count(1)
        self._workers: list[Worker] = []
        self._stop = weakref.finalize(self, _stop, self._workers)

    def close(self) -> None:
        """End all workers; the next request starts new ones."""
        _stop(self._workers)

    def map(
        self,
        requests: Sequence[Sequence[Any]],
        costs: Sequence[float] | None = None,
        *,
        hold: bool = False,
        foreseen: Sums | None = None,
    ) -> Iterator[list[Any]]:
        """The answers in the order of the requests, each as soon as all before it have arrived.

        `costs` are the requests' amounts of work: the largest are assigned first, each to the
        worker with the least to do. With `hold`, a part of each answer stays at its worker, and the
        answer's last value is a `Held`; parts of sums that are `foreseen` come along. Raises the
        exceptions of handlers, WorkerDied and NoWorkers. If it ends early, for any reason, the
        workers are ended.
        """
        done = False
        try:
            yield from self._answers(requests, costs or [1.0] * len(requests), hold, foreseen)
            done = True
        finally:
            if not done:
                self.close()

    def notices(self) -> list[Notice]:
        """Warnings about lost and refused workers, for the manifest."""
        found = []
        for kind, what, each in (
            ("lost_workers", "lost or given up", self.lost),
            ("refused_workers", "refused", self.refused),
        ):
            if each:
                message = f"workers {what}: {'; '.join(dict.fromkeys(each))}"
                found.append(notice(kind, message, len(each)))
        return found

    def has(self, held: Held) -> bool:
        """Whether the worker that holds it still exists."""
        return held.worker in self._workers

    def fetch(self, held: Held) -> list[Any]:
        """What is held, transferred here; computed again if its worker is lost."""
        for _ in range(MOST_DEATHS):
            try:
                return self._waited(held.worker.line.fetch(held.number))
            except WorkerLost as loss:
                self._again([held], held.worker, str(loss))
        raise WorkerDied(f"{MOST_DEATHS} workers were lost with the same answers")

    def partial_sums(
        self, weights: Sequence[float], members: Mapping[int, tuple[Held, int]]
    ) -> list[PartialSum]:
        """Parts of a sum of what is held, one per worker; `members`: by place, what and index
        within it.
        """
        parts, left = [], dict(members)
        for _ in range(MOST_DEATHS):
            asked = []
            for worker in {id(held.worker): held.worker for held, _ in left.values()}.values():
                own = {place: one for place, one in left.items() if one[0].worker is worker}
                where = {place: (held.number, number) for place, (held, number) in own.items()}
                asked.append((worker, own, worker.line.partial_sum(weights, where)))
            for worker, own, handle in asked:
                try:
                    parts += self._waited(handle)
                except WorkerLost as loss:
                    self._again([held for held, _ in own.values()], worker, str(loss))
                else:
                    left = {place: one for place, one in left.items() if place not in own}
            if not left:
                return parts
        raise WorkerDied(f"{MOST_DEATHS} workers were lost with the same answers")

    def _waited(self, handle: Any) -> list[Any]:
        """The packed values that a worker sends outside of `map`; raises WorkerLost."""
        until = time.monotonic() + self.give_up_s
        while not self.cluster.wait([handle], min(LONGEST_WAIT_S, self.give_up_s)):
            if time.monotonic() >= until:
                raise WorkerLost(f"no answer in {self.give_up_s:g} s (--give-up-s)")
        values: list[Any]
        _, *values = self.cluster.get(handle).unpacked(torch.device("cpu"))
        return values

    def _again(self, lost: Sequence[Held], worker: Worker, reason: str) -> None:
        """Have other workers compute, and hold, what a lost worker held."""
        if worker in self._workers:
            self.lost.append(f"{worker.line.where()} ({reason})")
            self._end(worker)
        for held in {id(one): one for one in lost}.values():
            ((*_, other),) = self.map([held.request], hold=True)
            self.tally.add(held.worker.name, -len(held.request), -held.seconds)
            held.moved(other)

    def _answers(
        self,
        requests: Sequence[Sequence[Any]],
        costs: Sequence[float],
        hold: bool,
        foreseen: Sums | None,
    ) -> Iterator[list[Any]]:
        pack = self._sender.packer(requests)
        waiting = deque(sorted(range(len(requests)), key=lambda place: -costs[place]))
        deaths: Counter[int | None] = Counter()
        numbers = [next(self._numbers) if hold else None for _ in requests]
        wanted = [foreseen.of(place) if foreseen else () for place in range(len(requests))]
        answers: dict[int, list[Any]] = {}
        following = 0
        while following < len(requests):
            self._recruit(len(requests), deaths)
            for worker in self._heard(self._beginning(), 0.0):
                self._begun(worker, waiting, deaths)
            self._hand_out(waiting, pack, costs, numbers, wanted)
            for worker in self._heard([one for one in self._workers if one.busy], LONGEST_WAIT_S):
                if not worker.ready:
                    self._begun(worker, waiting, deaths)
                    continue
                try:
                    found = self.cluster.get(worker.awaited)
                except WorkerLost as loss:
                    self._dismiss(worker, str(loss), waiting, deaths)
                    continue
                worker.since = time.monotonic()
                place, _ = worker.asked.popleft()
                failed, said, *values = found.unpacked(torch.device("cpu"))
                if failed:
                    raise said
                self.remarks += said
                seconds, *answers[place] = values
                self.tally.add(worker.name, len(requests[place]), seconds)
                if foreseen is not None and wanted[place]:
                    foreseen.take(place, answers[place].pop())
                if (number := numbers[place]) is not None:
                    answers[place].append(Held(worker, number, requests[place], seconds))
            self._give_up(waiting, deaths)
            while following in answers:
                yield answers.pop(following)
                following += 1

    def _recruit(self, requests: int, deaths: Counter[int | None]) -> None:
        """Start workers if there are too few.

        Refused workers are not replaced; nor are workers that were lost while starting, after
        several such losses, as long as there are others.
        """
        wanted = min(self.count - len(self.refused), requests)
        if deaths[None] >= MOST_DEATHS and self._workers:
            return
        if self.refused and wanted <= 0:
            raise NoWorkers(f"every worker was refused: {'; '.join(self.refused)}")
        while len(self._workers) < wanted:
            line = self.cluster.line()
            beginning = line.begin(self._prepare, *self._handles)
            self._workers.append(Worker(line, beginning, time.monotonic()))

    @cached_property
    def _handles(self) -> tuple[Any, Any]:
        """What all workers start with: stored once, when the first one starts."""
        layout, tensors, size = self._shared
        flat = torch.empty(max(size, 1), dtype=torch.uint8)
        write(flat, layout, tensors)
        shared: Bytes = flat.numpy()
        return self.cluster.put(self._setup), self.cluster.put(shared)

    def _beginning(self) -> list[Worker]:
        return [worker for worker in self._workers if not worker.ready]

    def _begun(self, worker: Worker, waiting: deque[int], deaths: Counter[int | None]) -> None:
        """Accept a worker that has started, or refuse it because of its platform."""
        try:
            platform = self.cluster.get(worker.beginning)
        except WorkerLost as loss:
            self._dismiss(worker, str(loss), waiting, deaths)
            return
        differing = [
            f"{name} {platform.get(name)} instead of {wanted}"
            for name, wanted in self.platform.items()
            if platform.get(name) != wanted
        ]
        if not differing:
            worker.ready, worker.name = True, worker.line.where()
            return
        self.refused.append(f"{worker.line.where()} ({', '.join(differing)})")
        self._end(worker)

    def _end(self, worker: Worker) -> None:
        """End a worker. Others may have waited for its room; their time limit begins now."""
        self._workers.remove(worker)
        worker.line.end()
        if not any(one.ready for one in self._workers):
            for one in self._workers:
                one.since = time.monotonic()

    def _hand_out(
        self,
        waiting: deque[int],
        pack: Callable[[int], PackedValues],
        costs: Sequence[float],
        numbers: Sequence[int | None],
        wanted: Sequence[Wanted],
    ) -> None:
        """Give every worker its next request, and one ahead, unless others will soon be free."""
        for ahead in range(AHEAD):
            if ahead and len(waiting) <= len(self._beginning()):
                return
            free = [one for one in self._workers if one.ready and len(one.asked) == ahead]
            free.sort(key=lambda one: sum(costs[place] for place, _ in one.asked))
            for worker in free:
                if not waiting:
                    return
                if not worker.asked:
                    worker.since = time.monotonic()
                place = waiting.popleft()
                forgotten, worker.forgotten[:] = list(worker.forgotten), []
                handle = worker.line.ask(pack(place), numbers[place], forgotten, wanted[place])
                worker.asked.append((place, handle))

    def _heard(self, workers: Sequence[Worker], longest_s: float) -> list[Worker]:
        """The workers that have answered, after waiting for at least one."""
        if not workers:
            return []
        now = time.monotonic()
        someone = any(worker.ready for worker in self._workers)
        awaited = [worker for worker in workers if worker.ready or not someone]
        left = [worker.since + self.give_up_s - now for worker in awaited]
        done = self.cluster.wait(
            [worker.awaited for worker in workers], max(0.0, min([longest_s, *left]))
        )
        return [worker for worker in workers if worker.awaited in done]

    def _give_up(self, waiting: deque[int], deaths: Counter[int | None]) -> None:
        """Give up workers that have not answered for too long."""
        late = time.monotonic() - self.give_up_s
        someone = any(worker.ready for worker in self._workers)
        for worker in [one for one in self._workers if one.busy and one.since <= late]:
            if worker.ready:
                reason = f"no answer in {self.give_up_s:g} s (--give-up-s)"
                self._dismiss(worker, reason, waiting, deaths)
            elif not someone:  # else it may wait for room while others work
                raise NoWorkers(
                    f"no worker has begun within {self.give_up_s:g} s (--give-up-s); each needs"
                    f" {self.cluster.what_is_asked()}"
                )

    def _dismiss(
        self, worker: Worker, reason: str, waiting: deque[int], deaths: Counter[int | None]
    ) -> None:
        """Drop a worker; its requests go to others, unless one of them repeatedly loses its
        worker.
        """
        place = worker.asked[0][0] if worker.asked else None
        deaths[place] += 1
        self.lost.append(f"{worker.line.where()} ({reason})")
        self._end(worker)
        goes_on = place is None and any(one.ready for one in self._workers)
        if deaths[place] >= MOST_DEATHS and not goes_on:
            what = "were lost over the same jobs" if worker.asked else "were lost as they began"
            raise WorkerDied(f"{MOST_DEATHS} workers {what}: {'; '.join(self.lost[-MOST_DEATHS:])}")
        waiting.extendleft(number for number, _ in reversed(worker.asked))


def _stop(workers: list[Worker]) -> None:
    while workers:
        workers.pop().line.end()
