"""Ordinary blocking code as a process of simulated time: the code and the clock take turns.

The code runs in a thread of its own and asks for what takes time (`Program.wait`); until it has its
answer it stands still, and while it computes the clock does. Never do both run at once, so that the
order of events is that of the code, and a run is as deterministic as the code is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from simfl.protocols.clock import Process

Steps = Callable[[], Process]
"""What takes simulated time: a generator of SimPy events, to be made when its turn comes."""


LAST_WORDS_S = 5.0
"""So many seconds of this machine code may take to come to its end when the run is over."""


class Ended(BaseException):
    """The run is over: raised in the code at its next question, and past its `except Exception`."""


class Program:
    """A function without arguments that blocks while simulated time passes."""

    def __init__(self, code: Callable[[], None]) -> None:
        self._code = code
        self._asked: SimpleQueue[Steps | BaseException | None] = SimpleQueue()
        self._answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._over = False
        self._thread = threading.Thread(target=self._run, name="program", daemon=True)

    def wait(self, steps: Steps) -> Any:
        """For the code: what `steps` returns, once the clock has gone through it.

        Raises `Ended` once the run is over, and RuntimeError in a thread that the code has made.
        """
        if self._over:
            raise Ended
        if threading.current_thread() is not self._thread:
            raise RuntimeError("asked by a thread of the code's own: there is one order of events")
        self._asked.put(steps)
        value, error = self._answers.get()
        if error is not None:
            raise error
        return value

    def process(self) -> Process:
        """Run the code to its end. What it raises is raised here, and so is what `steps` do.

        `Ended` among them is the end of the run.
        """
        self._thread.start()
        try:
            while True:
                asked = self._asked.get()
                if asked is None:
                    return
                if isinstance(asked, BaseException):
                    raise asked
                value = yield from asked()
                self._answers.put((value, None))
        except Ended:
            return
        finally:
            self.end()

    def end(self) -> None:
        """Let go of the code: it ends at its next question, or where it waits for an answer.

        What it still does by itself (its own clearing up) is waited for a little.
        """
        if not self._over:
            self._over = True
            self._answers.put((None, Ended()))
            if self._thread.is_alive():
                self._thread.join(LAST_WORDS_S)

    def _run(self) -> None:
        try:
            self._code()
        except Ended:
            self._asked.put(None)
        except BaseException as error:  # noqa: BLE001  # it belongs to the process
            self._asked.put(error)
        else:
            self._asked.put(None)
