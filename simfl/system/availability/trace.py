"""Availability replayed from a trace of real devices."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.common.files import TracePath
from simfl.streams import Streams
from simfl.system.availability.base import Availability, place_among
from simfl.system.traces.convert import IntervalFormat, intervals_in
from simfl.system.traces.tables import Intervals


@dataclass(frozen=True)
class Trace(Availability):
    """Clients come and go like those of a trace, which repeats after its period.

    The file is made by `simfl convert-trace`, or has a format that it reads. Intervals are
    half-open: at its end, a client is gone.
    """

    file: Annotated[TracePath, "table of availability intervals, made by simfl convert-trace"]
    order: Annotated[
        Literal["drawn", "listed"],
        "the trace's client that each one replays: random, or in the file's order",
    ] = "drawn"
    offset_s: Annotated[float, ">= 0", "time of the trace at midnight; see hardware.md"] = 0.0
    format: Annotated[
        IntervalFormat | None, "format of another project's file; null: made by simfl convert-trace"
    ] = None

    _intervals: Intervals = field(init=False, repr=False, compare=False)
    _first: IntArray = field(init=False, repr=False, compare=False)
    _members: IntArray | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        try:
            intervals = intervals_in(self.file, self.format)
        except ValueError as error:
            raise ValueError(f"file: {error}") from error
        object.__setattr__(self, "_intervals", intervals)
        first = np.searchsorted(intervals.client, np.arange(intervals.clients + 1))
        object.__setattr__(self, "_first", first)

    @property
    def clients(self) -> int:
        """How many clients the trace has."""
        return self._intervals.clients

    def begun(self, start_s: float, members: IntArray | None) -> Trace:
        """With the run's clock."""
        one = copy.copy(self)
        object.__setattr__(one, "offset_s", self.offset_s + start_s)
        object.__setattr__(one, "_members", members)
        return one

    def available(self, clients: IntArray, time_s: float, streams: Streams) -> BoolArray:
        """Whether the replayed client was present."""
        who, at_s = self._replayed(clients, time_s, streams)
        return self._within(who, at_s)[0]

    def next_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """The start of the replayed client's next interval, in this period or the next."""
        who, at_s = self._replayed(clients, time_s, streams)
        there, row = self._within(who, at_s)
        one, following = self._intervals, row + 1
        later_today = following < self._first[who + 1]
        never = self._first[who] == self._first[who + 1]
        padded_s = np.append(one.start_s, np.nan)
        wait_s = np.where(
            later_today,
            padded_s[np.minimum(following, one.client.size)] - at_s,
            one.period_s[who] - at_s + padded_s[self._first[who]],
        )
        wait_s = np.where(never, np.inf, wait_s)
        return np.where(there, time_s, time_s + wait_s)

    def until_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """The end of the interval that the replayed client is in."""
        who, at_s = self._replayed(clients, time_s, streams)
        there, row = self._within(who, at_s)
        one, opening = self._intervals, self._first[who]
        period_s = one.period_s[who]
        if not one.client.size:
            return np.full(clients.size, time_s)
        inside = np.maximum(row, 0)
        left_s = one.end_s[inside] - at_s
        # An interval up to the period's end continues in one at the start of the next period.
        first = np.minimum(opening, one.client.size - 1)
        goes_on = (one.end_s[inside] >= period_s) & (one.start_s[first] <= 0)
        left_s = np.where(goes_on, left_s + one.end_s[first], left_s)
        left_s = np.where(goes_on & (first == inside), np.inf, left_s)
        return np.where(there, time_s + left_s, time_s)

    def _replayed(
        self, clients: IntArray, time_s: float, streams: Streams
    ) -> tuple[IntArray, FloatArray]:
        """The client of the trace that each client replays, and the time in its trace."""
        count = self.clients
        if self.order == "listed":
            who = place_among(self._members, clients) % count
        else:
            drawn = streams.uniform("availability.trace", clients)
            who = np.minimum((drawn * count).astype(np.int64), count - 1)
        return who, (time_s + self.offset_s) % self._intervals.period_s[who]

    def _within(self, who: IntArray, at_s: FloatArray) -> tuple[BoolArray, IntArray]:
        """Whether each is in an interval, and the row of its last interval that has begun."""
        one = self._intervals
        # All clients on one axis, one after another, so that a single search finds all intervals.
        apart = 2.0 * float(one.period_s.max())
        row = np.searchsorted(one.client * apart + one.start_s, who * apart + at_s, "right") - 1
        own = row >= self._first[who]
        padded_s = np.append(one.end_s, -np.inf)
        return own & (at_s < padded_s[row]), row
