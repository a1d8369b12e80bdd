"""Ordinary blocking code in simulated time: it and the clock take turns."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from simfl.protocols.clock import Clock, Process, Stalled
from simfl.protocols.program import Ended, Program


def test_code_and_clock_take_turns() -> None:
    """What the code asks for takes time; between two questions there is none."""
    clock, told = Clock(), []

    def asleep(seconds: float) -> Process:
        yield clock.until(clock.now_s + seconds)
        return clock.now_s

    def code() -> None:
        told.extend(program.wait(partial(asleep, seconds)) for seconds in (2.0, 3.0))

    program = Program(code)
    clock.run(clock.env.process(program.process()))

    assert told == [2.0, 5.0]


def test_what_the_code_raises_is_raised_by_the_run() -> None:
    """As if it had been called."""

    def code() -> None:
        raise KeyError("mine")

    clock = Clock()

    with pytest.raises(KeyError, match="mine"):
        clock.run(clock.env.process(Program(code).process()))


def test_the_code_ends_where_the_run_does() -> None:
    """Whether what it asked for ends the run, or the clock says that nothing will happen."""
    clock, told = Clock(), []

    def over() -> Process:
        yield clock.until(1.0)
        raise Ended

    def never() -> Process:
        yield clock.env.event()

    def asking(steps: object) -> Program:
        def code() -> None:
            try:
                program.wait(steps)  # type: ignore[arg-type]
            except Exception:  # noqa: BLE001  # servers do that
                told.append("not past this")
            finally:
                told.append("ended")

        program = Program(code)
        return program

    clock.run(clock.env.process(asking(over).process()))
    stuck = asking(never)
    process = stuck.process()
    with pytest.raises(Stalled):
        clock.run(clock.env.process(process))
    stuck.end()
    with pytest.raises(Ended):
        stuck.wait(never)

    assert told[:1] == ["ended"] and "not past this" not in told


def test_threads_of_the_code_are_refused() -> None:
    """Which of two would be first is not the code's to say."""

    def nothing() -> Process:
        yield clock.until(1.0)

    def code() -> None:
        with ThreadPoolExecutor() as pool:
            pool.submit(program.wait, nothing).result()

    clock, program = Clock(), Program(code)
    with pytest.raises(RuntimeError, match="only the code's own thread may wait"):
        clock.run(clock.env.process(program.process()))
