"""The local engine: runs points in long-lived processes of this machine.

A process that dies (out of memory, killed) is replaced and its point is tried again, a few times.
Worker processes end with the process that started them, for whatever reason it ends.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from types import FrameType, ModuleType
from typing import Any

from simfl.protocols.publication import Progress
from simfl.study.worker import Outcome, Task, work

MOST_DEATHS = 3
"""How many deaths of its process make a point count as failed."""

GRACE_SECONDS = 20.0
"""How long an interrupted process may take to leave a resumable run folder."""

Watch = Callable[[str, Progress], None]


def run_locally(
    tasks: Sequence[Task], workers: int, watch: Watch | None = None
) -> Iterator[Outcome]:
    """Yields each task's outcome as soon as it is available.

    `watch` is called with the task's name and progress at every new version of a run. If this ends
    early (also by Ctrl-C), the processes are interrupted and leave folders that can be resumed.
    """
    waiting, deaths = deque(tasks), Counter[str]()
    crew = [_Worker() for _ in range(min(workers, len(tasks)))]
    try:
        while True:
            for worker in crew:
                if worker.task is None and waiting:
                    worker.give(waiting.popleft())
            busy = {worker.connection: worker for worker in crew if worker.task is not None}
            if not busy:
                return
            for connection in wait(list(busy)):
                worker = busy[connection]  # type: ignore[index]  # connections come back as passed
                assert worker.task is not None
                name = worker.task.name
                try:
                    message = worker.connection.recv()
                except (EOFError, OSError):
                    crew[crew.index(worker)] = _Worker()
                    deaths[name] += 1
                    code = worker.end()
                    if deaths[name] < MOST_DEATHS:
                        waiting.append(worker.task)
                    else:
                        yield Outcome(name, "failed", f"its process died ({code}) {deaths[name]}x")
                    continue
                if isinstance(message, Outcome):
                    worker.task = None
                    yield message
                elif watch is not None:
                    watch(name, message)
    finally:
        for worker in crew:
            worker.interrupt()
        for worker in crew:
            worker.end(GRACE_SECONDS)


class _Worker:
    """One process, the connection to it, and its current task."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: Any = context.Process(target=_serve, args=(theirs,), name="simfl-study")
        with _no_script():
            self.process.start()
        theirs.close()
        self.task: Task | None = None

    def give(self, task: Task) -> None:
        self.task = task
        with suppress(OSError):  # a dead process is noticed when its answer is awaited
            self.connection.send(task)

    def interrupt(self) -> None:
        """Ask the process to stop its work in good order."""
        self.connection.close()
        if self.task is not None:
            self.process.terminate()

    def end(self, seconds: float = 0.0) -> int | None:
        """Give the process this many seconds to end by itself, then kill it; returns the exit
        code.
        """
        self.process.join(seconds)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        code: int | None = self.process.exitcode
        return code


@contextmanager
def _no_script() -> Iterator[None]:
    """Processes started within this block do not run the calling script, as they would otherwise.

    They need nothing from it, and a script without `if __name__ == "__main__"` would start the
    study again in each process.
    """
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _serve(connection: Connection) -> None:
    """The main function of a worker process: runs tasks until nobody sends any."""

    def report(progress: Progress) -> None:
        try:
            connection.send(progress)
        except OSError:
            raise KeyboardInterrupt from None  # nobody listens any more: stop in good order

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent process
    signal.signal(signal.SIGTERM, _interrupted)
    with suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            task = connection.recv()
            connection.send(work(task, report))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
