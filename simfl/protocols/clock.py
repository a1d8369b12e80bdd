"""The simulation clock: exact event times, and a record of who waits for what."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import simpy
from simpy.events import EventPriority

from simfl.common.limits import LATEST_S
from simfl.system.moments import Moment

Process = Generator[simpy.Event, Any, Any]

MOST_QUIET = 10_000_000
"""The most events in a row without a row in the log: a million clients need a few each to begin."""


class Stalled(RuntimeError):
    """Nothing can happen any more that would finish the run, or simulated time does not advance."""


class _Until(float):
    """A delay that ends at exactly `time_s`.

    SimPy adds it to the current time. There may be no float whose sum is exact: with rounding half
    to even, some sums cannot be reached.
    """

    time_s: float

    def __new__(cls, time_s: float, now_s: float) -> _Until:
        """The delay from `now_s` on."""
        delay = super().__new__(cls, time_s - now_s)
        # Another float type, such as numpy's, would be used in all later sums.
        delay.time_s = float(time_s)
        return delay

    def __radd__(self, now_s: float) -> float:
        """Returns the end time, exactly."""
        return self.time_s


class Clock:
    """A SimPy environment with exact event times and named waits."""

    def __init__(self, env: simpy.Environment | None = None) -> None:
        self.env = env or simpy.Environment()
        # Keeps a reference to the waiting process, which otherwise may be garbage-collected.
        self._waits: dict[int, tuple[str, simpy.Process | None]] = {}
        self._next = 0

    @property
    def now_s(self) -> float:
        """Simulated seconds since the start."""
        return float(self.env.now)

    def until(self, time_s: float, moment: Moment = Moment.END) -> simpy.Event:
        """An event at exactly `time_s`, without rounding error; now, if that has passed.

        Rows computed ahead and the clock agree bit for bit. Raises `Stalled` for a time that is not
        finite, such as the end of a round with a NaN cost.
        """
        if not math.isfinite(time_s):
            raise self._stalled(f"an appointment needs a finite time, found {time_s} s; ")
        delay = _Until(max(time_s, self.now_s), self.now_s)
        if moment == Moment.END:
            return self.env.timeout(delay)
        event = self.env.event()
        event._ok, event._value = True, None
        self.env.schedule(event, priority=EventPriority(moment), delay=delay)
        return event

    def now(self, moment: Moment) -> simpy.Event:
        """An event now, after everything before `moment` that happens at this time."""
        return self.until(self.now_s, moment)

    @contextmanager
    def waiting(self, who: str, what: str) -> Iterator[None]:
        """Notes that `who` waits for `what`, for the report of a stall."""
        ticket, self._next = self._next, self._next + 1
        self._waits[ticket] = f"{who} waits for {what}", self.env.active_process
        try:
            yield
        finally:
            del self._waits[ticket]

    def run(
        self,
        finished: simpy.Event,
        limit_s: float | None = None,
        booked: Callable[[], int] | None = None,
    ) -> Any:
        """Runs until `finished`, or to `limit_s`, including all other events at that time.

        Returns the value of `finished`, or None at the limit. Raises `Stalled`, naming every wait,
        if nothing can happen any more, or nothing before `LATEST_S` (a limit ahead is not an
        event), or if events keep happening while `booked` stays the same.
        """

        def to_the_end_of_the_moment() -> Process:
            value = yield finished
            yield self.now(Moment.END_OF_RUN)
            return value

        ended = self.env.process(to_the_end_of_the_moment())
        ended.callbacks.append(_defuse)
        rows = -1
        for number in count():
            if ended.processed:
                break
            if booked is not None and number % MOST_QUIET == 0:
                if booked() == rows:
                    raise self._stalled(
                        f"{MOST_QUIET:,} events in a row without an entry in the log: a protocol"
                        " that only waits makes no version; "
                    )
                rows = booked()
            next_s = self._next_s()
            if next_s == math.inf:
                raise self._stalled()
            if limit_s is not None and next_s > limit_s:
                return self.env.run(until=self.until(limit_s))
            if next_s > LATEST_S:
                raise self._stalled(f"nothing happens before {next_s:g} s; ")
            self.env.step()
        outcome: Any = ended.value
        if not ended.ok:
            if finished.triggered and not finished.ok:
                outcome = finished.value
            raise _as_raised(outcome)
        return outcome

    def _next_s(self) -> float:
        """When something happens next; ignores events that nothing waits for any more."""
        queue = self.env._queue
        while queue and queue[0][0] > self.env.now and not queue[0][-1].callbacks:
            heapq.heappop(queue)
        return self.env.peek()

    def _stalled(self, why: str = "") -> Stalled:
        waits = "; ".join(dict.fromkeys(text for text, _ in self._waits.values()))
        return Stalled(f"stalled at {self.now_s:g} s: {why}{waits or 'nothing is waited for'}")


def _as_raised(error: BaseException) -> BaseException:
    """The error that a process raised: SimPy re-raises a copy that lacks its file."""
    while type(error.__cause__) is type(error) and error.__cause__.args == error.args:
        error = error.__cause__
    return error


def _defuse(event: simpy.Event) -> None:
    """Its failure is raised by its waiter, not by the step in which it failed."""
    event.defused = True


class Mailbox:
    """Messages for one receiver; simultaneous ones are delivered by `order`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._messages: list[tuple[float, int, Any]] = []
        self._bell: simpy.Event | None = None

    def put(self, order: int, message: Any) -> None:
        """A message arrives now; `order` is unique among simultaneous ones."""
        heapq.heappush(self._messages, (self._clock.now_s, order, message))
        if self._bell is not None and not self._bell.triggered:
            self._bell.succeed()

    @property
    def waiting(self) -> int:
        """The number of messages that have arrived and were not taken."""
        return len(self._messages)

    def get(self) -> Process:
        """Waits for the first message."""
        if not self._messages:
            self._bell = self._clock.env.event()
            yield self._bell
        yield self._clock.now(Moment.DECISION)
        return heapq.heappop(self._messages)[2]
