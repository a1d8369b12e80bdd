"""Availability over time of clients that come and go, computed on demand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.streams import Streams
from simfl.system.availability.base import MOST_CHANGES, UnusableAvailability
from simfl.system.availability.diurnal import Diurnal
from simfl.system.availability.sojourn import Sojourn


@dataclass(frozen=True, eq=False)
class _Sojourns:
    """One sojourn per row: its number from 0, whether the client is present, begin and end."""

    number: IntArray
    is_present: BoolArray
    start_s: FloatArray
    end_s: FloatArray

    @classmethod
    def none(cls) -> _Sojourns:
        """An empty table."""
        return cls(np.empty(0, dtype=np.int64), np.empty(0, dtype=bool), *np.empty((2, 0)))

    def grown(self, rows: int) -> _Sojourns:
        """With this many additional rows, to be filled in."""
        columns = (self.number, self.is_present, self.start_s, self.end_s)
        return _Sojourns(
            *(np.concatenate([column, np.zeros(rows, column.dtype)]) for column in columns)
        )

    def copy(self, other: _Sojourns, rows: IntArray) -> None:
        """Copy some rows from another table."""
        self.number[rows] = other.number[rows]
        self.is_present[rows] = other.is_present[rows]
        self.start_s[rows], self.end_s[rows] = other.start_s[rows], other.end_s[rows]


class SojournCache:
    """The sojourn of each client at the last queried time: a cache of what the seed determines.

    There is one row per client queried so far; `_row_of` maps clients to rows. Random draws are
    addressed by `component`, so that processes with different names are independent.
    """

    def __init__(
        self,
        streams: Streams,
        present: Sojourn,
        absent: Sojourn,
        share_beta: tuple[float, float] | None,
        diurnal: Diurnal | None,
        component: str = "availability",
    ) -> None:
        self._streams, self._component = streams, component
        self._present, self._absent = present, absent
        self._share_beta, self._diurnal = share_beta, diurnal
        self._row_of: IntArray = np.full(0, -1, dtype=np.int64)
        self._client: IntArray = np.empty(0, dtype=np.int64)
        self._absent_mean_s: FloatArray = np.empty(0)
        self._now = _Sojourns.none()
        # Each client's sojourn when it was last queried about an earlier time: a round is planned
        # far ahead, and its client is then queried about the present again.
        self._kept = _Sojourns.none()

    def at(self, clients: IntArray, time_s: float) -> tuple[BoolArray, FloatArray]:
        """Whether each client is present at `time_s`, and when its sojourn ends.

        Raises UnusableAvailability if there are too many sojourns since the last query.
        """
        rows = self._rows(clients)
        passed = rows[self._now.start_s[rows] > time_s]
        if passed.size:
            self._go_back(passed, time_s)
        over = np.unique(rows[self._now.end_s[rows] <= time_s])
        for _ in range(MOST_CHANGES):
            if not over.size:
                break
            self._advance(over)
            over = over[self._now.end_s[over] <= time_s]
        else:
            raise UnusableAvailability(
                f"{self._component}: at {time_s:g} s number {self._client[over[0]]} has changed"
                f" {MOST_CHANGES:,} times since it was last asked about, with sojourns of"
                f" {self._present.mean_s:g} s and {self._absent_mean_s[over[0]]:g} s on average"
            )
        if passed.size:
            self._keep(passed)
        return self._now.is_present[rows], self._now.end_s[rows]

    def _rows(self, clients: IntArray) -> IntArray:
        """The rows of clients; new clients get one."""
        if clients.size and clients.max() >= self._row_of.size:
            grown = np.full(max(int(clients.max()) + 1, 2 * self._row_of.size), -1, dtype=np.int64)
            grown[: self._row_of.size] = self._row_of
            self._row_of = grown
        new = np.unique(clients[self._row_of[clients] < 0])
        if new.size:
            rows = np.arange(self._client.size, self._client.size + new.size)
            self._row_of[new] = rows
            self._client = np.concatenate([self._client, new])
            self._absent_mean_s = np.concatenate([self._absent_mean_s, self._mean_absence_s(new)])
            self._now, self._kept = self._now.grown(new.size), self._kept.grown(new.size)
            self._begin(rows)
            self._keep(rows)
        return self._row_of[clients]

    def _keep(self, rows: IntArray) -> None:
        """Save the current sojourns, to return to for queries about earlier times."""
        self._kept.copy(self._now, rows)

    def _go_back(self, rows: IntArray, time_s: float) -> None:
        """Return to the saved sojourn, or to the first one if the saved one is too late."""
        late = self._kept.start_s[rows] > time_s
        if late.any():
            self._begin(rows[late])
        self._now.copy(self._kept, rows[~late])

    def _mean_absence_s(self, clients: IntArray) -> FloatArray:
        """The configured mean, or the one that gives each client its drawn availability."""
        if self._share_beta is None:
            return np.full(clients.size, self._absent.mean_s)
        share = self._streams.beta(*self._share_beta, f"{self._component}.share", clients)
        return self._present.mean_s * (1.0 - share) / share

    def _begin(self, rows: IntArray) -> None:
        """The stationary state at time 0."""
        clients, present_s, absent_s = self._client[rows], self._present.mean_s, self._absent_mean_s
        share = present_s / (present_s + absent_s[rows])
        there = self._streams.uniform(f"{self._component}.start", clients) < share
        left = np.where(
            there,
            present_s * self._present.residuals(self._streams, f"{self._component}.first", clients),
            absent_s[rows]
            * self._absent.residuals(self._streams, f"{self._component}.gone", clients),
        )
        self._now.number[rows] = 0
        self._now.is_present[rows] = there
        self._now.start_s[rows] = 0.0
        self._now.end_s[rows] = self._ends_s(np.zeros(rows.size), left, there)

    def _advance(self, rows: IntArray) -> None:
        """Move each client to its next sojourn."""
        self._now.number[rows] += 1
        there = ~self._now.is_present[rows]
        clients, number = self._client[rows], self._now.number[rows]
        lasts = np.empty(rows.size)
        for state, law, mean_s, component in (
            (
                there,
                self._present,
                np.full(rows.size, self._present.mean_s),
                f"{self._component}.stay",
            ),
            (~there, self._absent, self._absent_mean_s[rows], f"{self._component}.away"),
        ):
            own = np.flatnonzero(state)
            drawn = law.durations(self._streams, component, clients[own], number[own])
            lasts[own] = mean_s[own] * drawn
        start_s = self._now.end_s[rows]
        self._now.is_present[rows] = there
        self._now.start_s[rows] = start_s
        self._now.end_s[rows] = self._ends_s(start_s, lasts, there)

    def _ends_s(self, start_s: FloatArray, lasts: FloatArray, there: BoolArray) -> FloatArray:
        """When sojourns end: absences pass at the hourly rate, presences at rate 1.

        An exponential absence whose hazard is multiplied by the rate is a thinned Poisson process;
        the change of time generalises this to any distribution.
        """
        if self._diurnal is None:
            return start_s + lasts
        by_the_hour = self._diurnal.when(self._diurnal.elapsed(start_s) + lasts)
        return np.where(there, start_s + lasts, np.maximum(by_the_hour, start_s))
