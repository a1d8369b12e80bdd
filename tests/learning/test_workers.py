"""Workers answer in order, whatever befalls them, and leave with who made them."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from simfl.learning.workers import pool as worker_pool
from simfl.learning.workers.channel import shared_memory
from simfl.learning.workers.pool import WorkerPool

LONGEST_S = 600
"""Starting a worker takes a busy machine a minute: only a test that waits in vain takes so long."""


@pytest.fixture(autouse=True)
def _time_limit() -> Iterator[None]:
    """A lost request would be waited for without end: that fails instead."""

    def stop(*_: object) -> None:
        pytest.fail(f"not done after {LONGEST_S} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LONGEST_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def alive(process: int) -> bool:
    """Whether a process runs."""
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def wait_for_end(processes: list[int]) -> None:
    """Until none of the processes is running; otherwise the time limit fails the test."""
    while any(map(alive, processes)):
        time.sleep(0.05)


def echo(_: Any) -> Callable[[Any], Any]:
    """A handler that returns what it is given."""
    return lambda request: request


def shared_echo(shared: list[Any]) -> Callable[[Any], Any]:
    """A handler that answers everything with what is shared."""
    return lambda _: [one.clone() for one in shared]


def fatal_once(flag: Sequence[Path]) -> Callable[[list[int]], list[int]]:
    """A handler that echoes, but the first process that is asked for 13 is killed."""

    def handle(request: list[int]) -> list[int]:
        if 13 in request and not flag[0].exists():
            flag[0].touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return request

    return handle


def test_what_workers_share_is_copied_when_the_first_one_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pool that nothing is ever asked of costs no memory."""
    rooms: list[int] = []

    def counted(size: int) -> torch.Tensor:
        rooms.append(size)
        return shared_memory(size)

    monkeypatch.setattr(worker_pool, "shared_memory", counted)
    pool = WorkerPool(1, shared_echo, [torch.arange(10_000)])

    assert not rooms
    assert torch.equal(next(pool.map([[7]]))[0], torch.arange(10_000))
    assert max(rooms) >= 80_000


@pytest.mark.slow
def test_a_dead_worker_s_next_request_is_not_lost(tmp_path: Path) -> None:
    """A worker that dies already had its next request: both are answered, and order is kept."""
    pool = WorkerPool(1, fatal_once, [tmp_path / "flag"])

    answers = list(pool.map([[1], [13], [2], [3]]))

    assert answers == [[1], [13], [2], [3]]
    assert (tmp_path / "flag").exists()


@pytest.mark.grid(1)
@pytest.mark.parametrize("room", [0, 1 << 22], ids=["pipe", "shared memory"])
def test_answers_come_in_order_by_either_way_and_no_process_is_left(room: int) -> None:
    """More requests than workers, of sizes that need the pipe or fit the memory.

    Workers end when their pool is collected.
    """
    pool = WorkerPool(2, echo, [], tensor_bytes=room)
    requests = [[torch.full((500_000,), float(place)), place] for place in range(7)]

    answers = list(pool.map(requests))

    processes = pool.processes()
    del pool
    gc.collect()

    for place, (tensor, number) in enumerate(answers):
        assert number == place and tensor.eq(place).all()
    assert len(processes) == 2
    wait_for_end(processes)


# A process started in the background of a shell ignores SIGINT; these shall not.
SCRIPT = f"""
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.learning.test_workers import echo, sleepy
from simfl.learning.workers.channel import shared_memory
from simfl.learning.workers.pool import WorkerPool
if __name__ == "__main__":
    pool = WorkerPool(2, sleepy, [])
    answers = pool.map([[0], [0], [{2 * LONGEST_S}], [{2 * LONGEST_S}]])
    next(answers)
    print(*pool.processes(), flush=True)
    next(answers)
    next(answers)
"""


def sleepy(_: Any) -> Callable[[Any], Any]:
    """A handler that takes the requested number of seconds."""
    return lambda request: [time.sleep(request[0])]


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A process with two busy workers, in a session of its own; and the workers' numbers."""
    script = tmp_path / "busy.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stderr is not None
    workers = [int(number) for number in process.stdout.readline().split()]
    yield process, workers
    process.kill()
    process.communicate()


def test_an_interrupt_ends_the_workers(busy: tuple[subprocess.Popen[str], list[int]]) -> None:
    """Ctrl-C, which the whole group gets, ends all at once, and only the parent speaks of it."""
    process, workers = busy
    os.killpg(process.pid, signal.SIGINT)

    _, errors = process.communicate()

    assert len(workers) == 2
    wait_for_end(workers)
    assert errors.count("KeyboardInterrupt") == 1
    assert errors.count("Traceback") == 1


@pytest.mark.slow
def test_idle_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    """A parent that is killed cannot say goodbye; its workers notice."""
    script = tmp_path / "idle.py"
    text = SCRIPT.replace(f", [{2 * LONGEST_S}], [{2 * LONGEST_S}]", "")
    idle = f"    time.sleep({2 * LONGEST_S})\n"
    script.write_text(text.replace("    next(answers)\n    next(answers)\n", idle))
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    workers = [int(number) for number in process.stdout.readline().split()]
    process.kill()
    process.communicate()

    assert len(workers) == 2
    wait_for_end(workers)
