"""Worker processes, one thread each, that stay until their pool is closed.

A worker that dies (out of memory, killed) is replaced, and what it was doing is done again. Workers
end with the process that made them, however it ends: they notice that nobody is left to ask them.
"""

from __future__ import annotations

import pickle
import signal
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
import torch.multiprocessing as multiprocessing
from torch import Tensor

from simfl.learning.packing import pack, unpack, write

MOST_DEATHS = 3
"""Times that one request may take its worker down before it is given up."""

Handler = Callable[[Any], Any]
"""Computes the answer to one request, in a worker."""


class WorkerDied(RuntimeError):
    """A request took one worker after another down."""


class WorkerPool:
    """`count` processes that answer requests.

    `make_handler(shared)` is called once in every worker and returns what answers requests there.
    The tensors of `shared` lie in memory that all processes share; the workers must not write to
    them. `prepare` is called before anything is unpickled, with nothing. Everything must be
    picklable: raises ValueError where it is not. Answers whose tensors take at most `answer_bytes`
    come through shared memory, which is faster than a pipe.
    """

    def __init__(
        self,
        count: int,
        make_handler: Callable[[Any], Handler],
        shared: Any,
        prepare: Sequence[Callable[[], object]] = (),
        answer_bytes: int = 0,
    ) -> None:
        self.count = count
        try:
            header, layout, tensors, size = pack(shared)
            setup = pickle.dumps((make_handler, header, layout))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ValueError(f"cannot be sent to worker processes: {error}") from error
        memory = _shared(size)
        write(memory, layout, tensors)
        self._arguments = (tuple(prepare), setup, memory)
        self._answer_bytes = answer_bytes
        self._workers: list[_Worker] = []
        self._stop = weakref.finalize(self, _stop, self._workers)

    def processes(self) -> list[int]:
        """The workers' process numbers; empty while none has been needed."""
        return [worker.process.pid for worker in self._workers]

    def close(self) -> None:
        """End all workers; the next request starts new ones."""
        _stop(self._workers)

    def map(self, requests: Sequence[Any]) -> Iterator[Any]:
        """The answers, in the order of the requests, each as soon as all before it are there.

        Raises what a handler raised, and WorkerDied. Whatever ends this early ends the workers.
        """
        done = False
        try:
            yield from self._answers(requests)
            done = True
        finally:
            if not done:
                self.close()

    def _answers(self, requests: Sequence[Any]) -> Iterator[Any]:
        waiting = list(reversed(range(len(requests))))
        deaths = dict.fromkeys(waiting, 0)
        answers: dict[int, Any] = {}
        following = 0
        self._fill(min(self.count, len(requests)))
        while following < len(requests):
            for worker in self._workers:
                if worker.place is None and waiting:
                    worker.place = waiting.pop()
                    with suppress(OSError):  # a dead worker is found out below
                        _send(worker.connection, requests[worker.place])
            busy = {one.connection: one for one in self._workers if one.place is not None}
            for connection in wait(list(busy)):
                worker = busy[connection]  # type: ignore[index]  # what went in comes out
                place = worker.place
                assert place is not None
                try:
                    failed, answers[place] = _receive(worker.connection, worker.answer)
                except (EOFError, OSError):
                    deaths[place] += 1
                    self._workers.remove(worker)
                    code = worker.end()
                    if deaths[place] == MOST_DEATHS:
                        raise WorkerDied(
                            f"{MOST_DEATHS} worker processes died of the same jobs (exit code "
                            f"{code}; -9 is killed, often for want of memory)"
                        ) from None
                    waiting.append(place)
                    self._workers.append(self._worker())
                    continue
                worker.place = None
                if failed:
                    raise answers[place]
            while following in answers:
                yield answers.pop(following)
                following += 1

    def _fill(self, count: int) -> None:
        while len(self._workers) < count:
            self._workers.append(self._worker())

    def _worker(self) -> _Worker:
        return _Worker(self._arguments, _shared(self._answer_bytes))


class _Worker:
    """One process, the line to it, and which request it has."""

    def __init__(self, arguments: tuple[Any, ...], answer: Tensor) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: Any = context.Process(
            target=_serve, args=(theirs, *arguments, answer), daemon=True, name="simfl-worker"
        )
        with _interrupts_held():
            self.process.start()
        theirs.close()
        self.answer = answer
        self.place: int | None = None

    def end(self) -> int | None:
        """Kill the process if it is alive; its exit code."""
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
    """A process started here never sees Ctrl-C, which is for the one that started it."""
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
    room: Tensor,
) -> None:
    """A worker's life: answer requests until nobody is there to ask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    for one in prepare:
        one()
    make_handler, header, layout = pickle.loads(setup)
    handle: Handler = make_handler(unpack(header, layout, memory, share=True))
    while True:
        try:
            request = _receive(connection)
        except (EOFError, OSError):
            return
        try:
            answer = (False, handle(request))
        except Exception as error:  # noqa: BLE001  # a user's loss may raise anything: passed on
            answer = (True, _sendable(error))
        try:
            _send(connection, answer, room)
        except OSError:
            return


def _sendable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001  # an exception class may do anything when it is copied
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _shared(size: int) -> Tensor:
    """So many bytes in memory that processes can share."""
    flat: Tensor = torch.empty(max(size, 1), dtype=torch.uint8)
    return flat.share_memory_()  # type: ignore[no-untyped-call,no-any-return]  # torch's gap


def _send(connection: Any, value: Any, room: Tensor | None = None) -> None:
    """Send a value; its tensors through `room`, where they find room there."""
    header, layout, tensors, size = pack(value)
    if room is not None and size <= len(room):
        write(room, layout, tensors)
        connection.send((header, layout, None))
        return
    flat = torch.empty(size, dtype=torch.uint8)
    write(flat, layout, tensors)
    connection.send((header, layout, size))
    if size:
        connection.send_bytes(flat.numpy().data)


def _receive(connection: Any, room: Tensor | None = None) -> Any:
    header, layout, size = connection.recv()
    if size is None:
        assert room is not None
        return unpack(header, layout, room)
    flat = torch.empty(size, dtype=torch.uint8)
    if size:
        connection.recv_bytes_into(flat.numpy().data)
    return unpack(header, layout, flat)
