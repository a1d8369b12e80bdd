"""The simulated clock for apps: available while a run is in progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Present:
    """The interface of the current run to an app: its clock, and a way to report metrics."""

    now_s: Callable[[], float]
    tell: Callable[[str, Mapping[str, float]], None]


_runs: list[Present] = []


@contextmanager
def present(one: Present) -> Iterator[None]:
    """Makes a run the current one within the block."""
    _runs.append(one)
    try:
        yield
    finally:
        _runs.remove(one)


def now() -> float:
    """Simulated seconds since the run began; outside of a run, those of the machine's own clock."""
    return _runs[-1].now_s() if _runs else time.monotonic()


def record(**metrics: float) -> None:
    """The server has measured its latest model: `accuracy`, `loss`, or any other figures.

    For servers with a loop of their own; what Flower's strategies evaluate is known without it.
    Outside of a run it does nothing.
    """
    if _runs:
        _runs[-1].tell("server", {name: float(one) for name, one in metrics.items()})
