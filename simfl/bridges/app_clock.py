"""The clock of a Flower app's own code: in its ServerApp, the module `time` is simulated.

A server with deadlines of its own, or one that sleeps between its questions, so waits for simulated
devices, not for this machine. Calls from other code (Flower, torch, Python's own modules) still get
this machine's time, as does a ClientApp: what it reads there is noted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from simfl.bridges.app_folder import is_own

READINGS = ("time", "monotonic", "perf_counter")
"""Clocks of the module `time`; `NAME_ns` are the same in nanoseconds."""

TICK_S = 1e-6
"""The least time between two readings: an app may divide by the time that something took."""

_REAL: dict[str, Callable[..., Any]] = {
    name: getattr(time, name) for name in ("sleep", *READINGS, *(f"{one}_ns" for one in READINGS))
}


class AppClock:
    """The clock of the app in `folder`, whose server begins at simulated time 0.

    `now_s` and `sleep` are those of simulated time; `serving` tells whether the caller is the
    ServerApp, `answering` whether a ClientApp is at work.
    """

    def __init__(
        self,
        folder: Path,
        now_s: Callable[[], float],
        sleep: Callable[[float], None],
        serving: Callable[[], bool],
        answering: Callable[[], bool],
    ) -> None:
        self._folder = folder.absolute()  # the app may change the working directory
        self._now_s = now_s
        self._sleep = sleep
        self._serving = serving
        self._answering = answering
        self._last_s = -TICK_S
        self.read_at: str | None = None
        """Where a ClientApp first read this machine's clock, or slept."""
        self.slept_s = 0.0
        """How long ClientApps slept."""

    def owns(self, file: str) -> bool:
        """Whether a file is the app's."""
        return is_own(file, self._folder)

    def read(self, name: str, place: str) -> Any:
        """What the app reads at a place in its code."""
        if self._serving():
            self._last_s = max(self._now_s(), self._last_s + TICK_S)
            return round(self._last_s * 1e9) if name.endswith("_ns") else self._last_s
        self._note(place)
        return _REAL[name]()

    def sleep(self, seconds: float, place: str) -> None:
        """The app sleeps at a place in its code."""
        if self._serving() and seconds >= 0:
            self._sleep(seconds)
            return
        if self._answering():
            self.slept_s += seconds
        self._note(place)
        _REAL["sleep"](seconds)

    def _note(self, place: str) -> None:
        if self.read_at is None and self._answering():
            self.read_at = place


_clocks: list[AppClock] = []


@contextmanager
def app_clock(one: AppClock) -> Iterator[None]:
    """Puts the clock into effect within the block, for names that are imported there, too."""
    _clocks.append(one)
    for name in _REAL:
        setattr(time, name, _sleep if name == "sleep" else _reading(name))
    try:
        yield
    finally:
        _clocks.remove(one)
        if not _clocks:
            for name, real in _REAL.items():
                setattr(time, name, real)


def _reading(name: str) -> Callable[[], Any]:
    def read() -> Any:
        frame = sys._getframe(1)
        for one in _clocks:
            if one.owns(frame.f_code.co_filename):
                return one.read(name, _place(frame))
        return _REAL[name]()

    return read


def _sleep(seconds: float, /) -> None:
    frame = sys._getframe(1)
    for one in _clocks:
        if one.owns(frame.f_code.co_filename):
            one.sleep(seconds, _place(frame))
            return
    _REAL["sleep"](seconds)


def _place(frame: Any) -> str:
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
