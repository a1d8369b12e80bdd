"""Worker processes with one thread each, which live until their pool is closed.

A worker that dies (out of memory, killed) is replaced, and its work is done again. Workers end with
the process that started them, for whatever reason it ends: they notice that nobody is left to ask
them.
"""

from __future__ import annotations

import pickle
import signal
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
import torch.multiprocessing as multiprocessing
from torch import Tensor

from simfl.learning.workers.channel import Channel, Parcel, shared_memory
from simfl.learning.workers.packing import pack, unpack, write
from simfl.learning.workers.tally import Tally

MOST_DEATHS = 3
"""How often a worker may die with the same request before the request is given up."""

AHEAD = 2
"""Requests that a worker has at a time: when it has answered one, the next is ready."""

REST_BYTES = 1 << 20
"""Bytes for everything except tensors in a request or an answer."""

Handler = Callable[[list[Any]], Sequence[Any]]
"""Computes the answers to one request, a list of arbitrary values, in a worker."""


class WorkerDied(RuntimeError):
    """A request caused several workers to die."""


class WorkerPool:
    """`count` processes that answer requests.

    `make_handler(shared)` is called once in every worker and returns the function that answers
    requests. The tensors of `shared` are in memory that all processes share; workers must not write
    to them. The functions `prepare` are called, without arguments, before anything is unpickled.
    Everything must be picklable; raises ValueError otherwise. Requests and answers whose tensors
    take at most `tensor_bytes` go through shared memory, which is faster than a pipe. The `tally`
    counts the values that each process has answered.
    """

    def __init__(
        self,
        count: int,
        make_handler: Callable[[list[Any]], Handler],
        shared: Sequence[Any],
        prepare: Sequence[Callable[[], object]] = (),
        tensor_bytes: int = 0,
    ) -> None:
        self.count = count
        self.tally = Tally()
        try:
            header, layout, tensors, size = pack(shared)
            setup = pickle.dumps((make_handler, header, layout))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ValueError(f"cannot be sent to worker processes: {error}") from error
        self._prepare, self._setup = tuple(prepare), setup
        self._shared = layout, tensors, size
        self._room_bytes = tensor_bytes + REST_BYTES
        self._workers: list[_Worker] = []
        self._stop = weakref.finalize(self, _stop, self._workers)

    def processes(self) -> list[int]:
        """The workers' process IDs; empty if none has been needed yet."""
        return [worker.process.pid for worker in self._workers]

    def close(self) -> None:
        """End all workers; the next request starts new ones."""
        _stop(self._workers)

    def map(self, requests: Sequence[Sequence[Any]]) -> Iterator[list[Any]]:
        """The answers in the order of the requests, each as soon as all before it have arrived.

        Raises the exceptions of handlers, and WorkerDied. If it ends early, for any reason, the
        workers are ended.
        """
        done = False
        try:
            yield from self._answers(requests)
            done = True
        finally:
            if not done:
                self.close()

    def _answers(self, requests: Sequence[Sequence[Any]]) -> Iterator[list[Any]]:
        waiting = deque(range(len(requests)))
        deaths = dict.fromkeys(waiting, 0)
        answers: dict[int, list[Any]] = {}
        following = 0
        self._fill(min(self.count, len(requests)))
        while following < len(requests):
            self._hand_out(waiting, requests)
            busy = {worker.connection: worker for worker in self._workers if worker.places}
            for connection in wait(list(busy)):
                worker = busy[connection]  # type: ignore[index]  # connections come back as passed
                place = worker.places[0]
                try:
                    failed, *found = worker.channel.receive()
                except (EOFError, OSError):
                    deaths[place] += 1
                    self._workers.remove(worker)
                    code = worker.end()
                    if deaths[place] == MOST_DEATHS:
                        raise WorkerDied(
                            f"{MOST_DEATHS} worker processes died of the same jobs (exit code "
                            f"{code}; -9 is killed, often for want of memory)"
                        ) from None
                    waiting.extendleft(reversed(worker.places))
                    self._workers.append(self._worker())
                    continue
                worker.places.popleft()
                if failed:
                    raise found[0]
                seconds, *answers[place] = found
                self.tally.add(worker.name, len(requests[place]), seconds)
            while following in answers:
                yield answers.pop(following)
                following += 1

    def _hand_out(self, waiting: deque[int], requests: Sequence[Sequence[Any]]) -> None:
        """Give every worker its next request, then one ahead to those whose requests fit shared
        memory.
        """
        for ahead in range(AHEAD):
            for worker in self._workers:
                if not waiting or len(worker.places) != ahead:
                    continue
                parcel = Parcel.of(requests[waiting[0]])
                if ahead and not worker.channel.has_room(parcel):
                    return
                worker.places.append(waiting.popleft())
                with suppress(OSError):  # a dead worker is noticed when its answer is read
                    worker.channel.send(parcel)

    def _fill(self, count: int) -> None:
        while len(self._workers) < count:
            self._workers.append(self._worker())

    def _worker(self) -> _Worker:
        return _Worker((self._prepare, self._setup, self._memory), self._room_bytes)

    @cached_property
    def _memory(self) -> Tensor:
        """The tensors that all workers share: a copy, made when the first worker starts."""
        layout, tensors, size = self._shared
        memory = shared_memory(size)
        write(memory, layout, tensors)
        return memory


class _Worker:
    """One process, the connection to it, and its requests in order."""

    def __init__(self, arguments: tuple[Any, ...], room_bytes: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        asked, answered = ([shared_memory(room_bytes) for _ in range(AHEAD)] for _ in range(2))
        self.process: Any = context.Process(
            target=_serve,
            args=(theirs, *arguments, asked, answered),
            daemon=True,
            name="simfl-worker",
        )
        with _interrupts_held():
            self.process.start()
        theirs.close()
        self.channel = Channel(self.connection, outgoing=asked, incoming=answered)
        self.places: deque[int] = deque()
        self.name = f"process {self.process.pid}"

    def end(self) -> int | None:
        """Kill the process if it is alive; returns its exit code."""
        self.connection.close()
        self.process.kill()
        self.process.join()
        code: int | None = self.process.exitcode
        return code


def _stop(workers: list[_Worker]) -> None:
    while workers:
        workers.pop().end()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Processes started here never receive Ctrl-C, which is handled by their parent."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(
    connection: Connection,
    prepare: Sequence[Callable[[], object]],
    setup: bytes,
    memory: Tensor,
    asked: Sequence[Tensor],
    answered: Sequence[Tensor],
) -> None:
    """The main function of a worker: answers requests until nobody is there to ask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    for one in prepare:
        one()
    make_handler, header, layout = pickle.loads(setup)
    handle: Handler = make_handler(unpack(header, layout, memory, share=True))
    channel = Channel(connection, outgoing=answered, incoming=asked)
    while True:
        try:
            request = channel.receive()
        except (EOFError, OSError):
            return
        try:
            began = time.perf_counter()
            answers = handle(request)
            answer = [False, time.perf_counter() - began, *answers]
        except Exception as error:  # noqa: BLE001  # a user's loss may raise anything
            answer = [True, sendable(error)]
        try:
            channel.send(Parcel.of(answer))
        except OSError:
            return


def sendable(error: Exception) -> Exception:
    """The error, or one with the same text if it cannot be copied to another process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001  # an exception class may do anything when it is copied
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
