"""Runs ordinary blocking code as a simulated process: the code and the clock take turns.

The code runs in its own thread and calls `Program.wait` for everything that takes simulated time;
it blocks until it has the answer, and the clock stands still while it computes. The two never run
at once, so the order of events is that of the code, and a run is as deterministic as the code is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from simfl.protocols.clock import Process

Steps = Callable[[], Process]
"""An activity in simulated time: makes a generator of SimPy events when its turn comes."""


LAST_WORDS_S = 5.0
"""Wall seconds that the code may take to end after the run is over."""


class Ended(BaseException):
    """The run is over: raised in the code at its next wait; not caught by `except Exception`."""


class Program:
    """A function without arguments that blocks while simulated time passes."""

    def __init__(self, code: Callable[[], None]) -> None:
        self._code = code
        self._asked: SimpleQueue[Steps | BaseException | None] = SimpleQueue()
        self._answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._over = False
        self._thread = threading.Thread(target=self._run, name="program", daemon=True)

    def wait(self, steps: Steps) -> Any:
        """For the code: runs `steps` on the clock, and returns its result.

        Raises `Ended` once the run is over, and RuntimeError in a thread started by the code.
        """
        if self._over:
            raise Ended
        if threading.current_thread() is not self._thread:
            raise RuntimeError(
                "called from a thread started by the code: only the code's own thread may wait;"
                " accepted: one call for all messages, such as one send_and_receive"
            )
        self._asked.put(steps)
        value, error = self._answers.get()
        if error is not None:
            raise error
        return value

    def is_running_this(self) -> bool:
        """Whether the caller is the code, in its own thread, and the run is not over."""
        return threading.current_thread() is self._thread and not self._over

    def process(self) -> Process:
        """Runs the code to its end; raises errors of the code and of `steps`, but not `Ended`."""
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
        """Ends the code: at its next wait, or in the current one.

        Waits a little for its own cleanup.
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
