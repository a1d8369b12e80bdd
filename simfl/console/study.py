"""Progress of a study in the terminal."""

from __future__ import annotations

import errno
import math
import os
import time
from collections import Counter, deque
from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from simfl.common.quantity import quantity
from simfl.console.live import LiveDisplay
from simfl.console.printable import printable
from simfl.console.terminal import Terminal
from simfl.protocols.publication import Progress
from simfl.study.figure_text import in_digits
from simfl.study.levels import short_names
from simfl.study.means import levels_told_apart
from simfl.study.on_ray import Resources
from simfl.study.plan import Point
from simfl.study.session import StudySession
from simfl.study.worker import Outcome

LAST_SHOWN = 8
"""Finished runs that the live table keeps visible."""


class StudyWatcher(LiveDisplay):
    """A live table while a study runs; a line per finished run if the output is not a terminal."""

    def __init__(
        self, name: str, points: list[Point], done: int, later: int = 0, *, quiet: bool = False
    ) -> None:
        super().__init__(quiet=quiet, transient=False)
        self._name = name
        self._points: list[Point] = []
        self._labels: dict[str, str] = {}
        self._before = done
        self._later = 0
        self._standing = ""
        self._counts = Counter(done=done)
        self._began = time.monotonic()
        self._running: dict[str, Progress | None] = {}
        self._last: deque[tuple[str, Outcome]] = deque(maxlen=LAST_SHOWN)
        self.more(points, later)

    def more(self, points: list[Point], later: int, standing: str = "") -> None:
        """Adds further runs, `later` of which are not chosen yet, and the progress of a search."""
        self._points += points
        self._labels = labels(self._points)
        self._later, self._standing = later, standing
        if standing:
            self._print(standing)
        self._redraw()

    @property
    def _total(self) -> int:
        return len(self._labels) + self._before + self._later

    def progress(self, name: str, progress: Progress) -> None:
        """Called when a run has reached a new version."""
        self._running[name] = progress
        self._redraw()

    def ended(self, outcome: Outcome) -> None:
        """Called when a run has ended."""
        self._running.pop(outcome.name, None)
        ran = outcome.status in ("completed", "diverged")
        self._counts["done" if ran else outcome.status] += 1
        self._last.append((self._labels[outcome.name], outcome))
        self._print(f"{self._status()}: {self._labels[outcome.name]}: {_ending(outcome)}")
        self._redraw()

    def _status(self) -> str:
        others = [f"{count} {kind}" for kind, count in self._counts.items() if kind != "done"]
        return ", ".join([f"{self._counts['done']} of {self._total} done", *filter(None, others)])

    def _line(self) -> str:
        elapsed_s = time.monotonic() - self._began
        text = f"{self._name}: {self._status()}, {elapsed_s:.0f} s"
        if self._last:
            ended = sum(self._counts.values()) - self._before
            rest_s = elapsed_s / max(ended, 1) * (self._total - self._before - ended)
            text += f", about {rest_s:.0f} s left"
        return f"{text}; {self._standing}" if self._standing else text

    def _content(self) -> Group:
        table = Table()
        told = (progress.accuracy_name for progress in self._running.values() if progress)
        accuracy = " or ".join(dict.fromkeys(told)) or "accuracy"
        for column in ("point", "state", "version", accuracy, "simulated"):
            table.add_column(column, justify="left" if column in ("point", "state") else "right")
        for label, outcome in self._last:
            table.add_row(label, _ending(outcome), "", "", "")
        for name, progress in self._running.items():
            table.add_row(self._labels[name], "running", *_reached(progress))
        return Group(Text(printable(self._line())), table)


def labels(points: Sequence[Point]) -> dict[str, str]:
    """A label for each run in one line, by the name of its folder.

    Keys are shortened to their last component if unambiguous; numbers have enough digits to differ.
    """
    factors = list(points[0].factors) if points else []
    names = short_names(factors)
    texts = [levels_told_apart(point.factors[factor] for point in points) for factor in factors]
    found = {}
    for point in points:
        levels = [its[one] for its, one in zip(texts, point.factors.values(), strict=True)]
        parts = [f"{name}={in_digits(one)}" for name, one in zip(names, levels, strict=True)]
        drawn = [] if point.draw is None else [f"draw={point.draw}"]
        found[point.folder_name] = ", ".join([*parts, f"seed={point.seed}", *drawn])
    return found


def _reached(progress: Progress | None) -> tuple[str, str, str]:
    if progress is None:
        return ("", "", "")
    known = progress.accuracy
    accuracy = "" if known is None or math.isnan(known) else f"{known:.3f}"
    return (str(progress.version), accuracy, quantity(progress.time_s, "s"))


def _ending(outcome: Outcome) -> str:
    return (
        outcome.status if outcome.status == "completed" else f"{outcome.status}: {outcome.message}"
    )


def failures(points: Sequence[Point], outcomes: Sequence[Outcome]) -> list[str]:
    """A line for each run that failed, for use without a live display."""
    called = labels(points)
    failed = [one for one in outcomes if one.status == "failed"]
    return [f"{called[one.name]}: {_ending(one)}" for one in failed]


def _no_space(session: StudySession, share: str | None) -> OSError:
    """The error that ends a study on a full disk, with what is missing and what to do."""
    missing = session.missing(share)
    return OSError(
        errno.ENOSPC,
        f"{os.strerror(errno.ENOSPC)}, and {missing} run{'s are' if missing > 1 else ' is'}"
        " missing; free some space and give the same command again",
        str(session.folder.path),
    )


def follow_study(
    session: StudySession,
    workers: int | None,
    share: str | None,
    resources: Resources | None,
    *,
    quiet: bool,
) -> list[Outcome]:
    """Run what a study has to do, here or (with `resources`) on Ray, and show progress.

    Returns how each run ended. Raises `OSError` as soon as a run fails because the disk is full.
    """
    outcomes = []
    todo = session.todo(share)
    done = session.size(share) - session.missing(share)
    cost = "" if quiet else session.cost(share)
    if cost:
        Terminal().print(cost)
    with StudyWatcher(session.study.name, todo, done, session.later, quiet=quiet) as watcher:
        while True:
            for outcome in session.run(todo, workers, watcher.progress, resources):
                watcher.ended(outcome)
                outcomes.append(outcome)
                if outcome.no_space:
                    raise _no_space(session, share)
            if not session.advance():
                break
            todo = session.todo()
            watcher.more(todo, session.later, session.standing)
    return outcomes
