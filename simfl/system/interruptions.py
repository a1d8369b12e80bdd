"""Interruptions of clients at work: absences, crashes, empty batteries.

Absences and crashes are fixed by the seed; a battery's course follows from what the client does.

Choices
1. A client that leaves in mid-round continues (`ignore`), continues when it is back (`pause`: it
   works only while it is present, as in FLASH, WWW 2021), or drops its round (`abort`).
2. A crash ends the round, and so does a battery that runs empty. The server notices that after
   `population.noticed_after_s`.
3. An interrupted message is lost, with all attempts begun so far; a paused one continues where it
   stopped.
4. An absent client draws its idle power, whatever it was doing.
5. An activity that ends at the moment of an interruption is complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.streams import Streams
from simfl.system.availability.base import MOST_PAUSES, UnusableAvailability
from simfl.system.checked_availability import CheckedAvailability
from simfl.system.failures import Failures
from simfl.system.segments import STAGES, Kind, Segments

Leaving = Literal["ignore", "pause", "abort"]
CAUSES = ("unavailable", "crash", "battery_empty")
UNAVAILABLE, CRASH, EMPTY = range(3)


@dataclass(frozen=True)
class Interruption:
    """The interruption of a client at work: its cause (one of `CAUSES`), time and stage.

    `lasts_s` is how long the client is absent, NaN for an empty battery. Unless it `goes_on`, its
    round ends there.
    """

    client: int
    cause: str
    time_s: float
    stage: str
    lasts_s: float
    goes_on: bool


@dataclass(frozen=True, eq=False)
class Paused:
    """Segments including their clients' absences, and when each begins and ends.

    `times_s` has shape (segments + 1, clients): row i is when segment i begins. Clients leave for
    good at `leaves_s` (inf: never), and next, at work or not, at `present_until_s`.
    """

    segments: Segments
    times_s: FloatArray
    leaves_s: FloatArray
    present_until_s: FloatArray
    pauses: Sequence[Interruption]


class Interruptions:
    """Absences and crashes of clients; see the choices above."""

    def __init__(
        self,
        availability: CheckedAvailability,
        leaving: Leaving,
        failures: Failures,
        streams: Streams,
    ) -> None:
        self._availability = availability
        self._leaving = leaving
        self._failures = failures
        self._streams = streams

    @property
    def pausing(self) -> bool:
        """Whether absences pause rounds, instead of ending them."""
        return self._leaving == "pause"

    def stops_s(self, clients: IntArray, now_s: float) -> tuple[FloatArray, IntArray]:
        """When absences or crashes end what clients begin now (inf: never), and which of the two.

        Both (clients,); the second is an index into `CAUSES`. Empty batteries are not considered.
        """
        # Because of rounding in availability models, everything lasts at least one floating-point
        # step.
        soon_s = np.nextafter(now_s, np.inf)
        leaves_s = np.full(clients.size, np.inf)
        if self._leaving == "abort":
            leaves_s = self._availability.until_s(clients, now_s, self._streams)
        working, until_s = self._failures.at(clients, now_s)
        # For a client that has crashed, `until_s` is the repair; its work ends at once.
        stops_s = np.maximum([leaves_s, np.where(working, until_s, now_s)], soon_s)
        return stops_s.min(axis=0), stops_s.argmin(axis=0)

    def absent_from_s(self, clients: IntArray, now_s: float) -> FloatArray:
        """When clients leave next although what they begin now goes on (clients,); inf: never."""
        if self._leaving != "ignore" or not self._availability.leaves:
            return np.full(clients.size, np.inf)
        return self._availability.until_s(clients, now_s, self._streams)

    def with_pauses(self, clients: IntArray, segments: Segments, times_s: FloatArray) -> Paused:
        """The segments with pauses; `times_s` (segments + 1, clients) are those without."""
        never, pauses = np.full(clients.size, np.inf), list[Interruption]()
        if not self.pausing or not len(segments):
            return Paused(segments, times_s, never, never, pauses)
        now_s = float(times_s[0].min())
        present_until_s = self._availability.until_s(clients, now_s, self._streams)
        present_until_s = np.maximum(present_until_s, np.nextafter(now_s, np.inf))
        held_up = np.flatnonzero(times_s[-1] > present_until_s).tolist()
        if not held_up:
            return Paused(segments, times_s, never, present_until_s, pauses)
        courses = {}
        for place in held_up:
            course = _Course(self, int(clients[place]), now_s)
            course.follow(segments.stage, segments.seconds[:, place])
            courses[place] = course
            never[place], present_until_s[place] = course.leaves_s, course.present_until_s
            pauses += course.pauses
        return Paused(*_split(segments, times_s, courses), never, present_until_s, pauses)

    def leaves_s(self, client: int, at_s: float) -> float:
        """When the work of a client present at `at_s` is paused next; inf: never."""
        return self.gone_s(client, at_s) if self.pausing else np.inf

    def gone_s(self, client: int, at_s: float) -> float:
        """When a client present at `at_s` leaves next."""
        leaves_s = self._availability.until_s(np.array([client]), at_s, self._streams)
        return max(float(leaves_s[0]), float(np.nextafter(at_s, np.inf)))

    def interruption(self, client: int, cause: int, time_s: float, stage: int) -> Interruption:
        """The end of a client's work in one of `STAGES`, by one of `CAUSES`."""
        away_s = self.away_s(client, cause, time_s)
        return Interruption(client, CAUSES[cause], time_s, STAGES[stage], away_s, goes_on=False)

    def pause(self, client: int, time_s: float, stage: int, away_s: float) -> Interruption:
        """A pause of a client's work in one of `STAGES`, for `away_s` seconds."""
        cause = CAUSES[UNAVAILABLE]
        return Interruption(client, cause, time_s, STAGES[stage], away_s, goes_on=True)

    def away_s(self, client: int, cause: int, time_s: float) -> float:
        """How long a client that is interrupted at `time_s` is absent."""
        if cause == CRASH:
            return self._failures.works_s(client, time_s) - time_s
        if cause == EMPTY:
            return float(np.nan)
        who = np.array([client])
        if self._availability.available(who, time_s, self._streams)[0]:
            return 0.0
        return float(self._availability.next_s(who, time_s, self._streams)[0]) - time_s

    def restless(self, client: int, time_s: float) -> UnusableAvailability:
        """The error for a client that has left more than `MOST_PAUSES` times in one round."""
        return UnusableAvailability(
            f"client {client} has left more than {MOST_PAUSES:,} times in one round by {time_s:g}"
            f" s, says {self._availability.name}; check the population's availability"
        )


class _Course:
    """One client's segments with its absences: `parts` of each, as (begin, end)."""

    def __init__(self, source: Interruptions, client: int, now_s: float) -> None:
        self._source = source
        self._client = client
        self._at_s = now_s
        self.leaves_s = np.inf
        self.present_until_s = now_s
        self.pauses: list[Interruption] = []
        self.parts: list[list[tuple[float, float]]] = []

    def follow(self, stages: IntArray, seconds: FloatArray) -> None:
        """Follow segments in sequence; a last part beyond `leaves_s` belongs to one cut off."""
        departures = 0
        for stage, lasts_s in zip(stages.tolist(), seconds.tolist(), strict=True):
            parts, absent_from_s = list[tuple[float, float]](), lasts_s
            while self.leaves_s == np.inf:
                self.present_until_s = self._source.gone_s(self._client, self._at_s)
                if self._at_s + absent_from_s <= self.present_until_s:
                    break
                departures += 1
                if departures > MOST_PAUSES:
                    raise self._source.restless(self._client, self.present_until_s)
                away_s = self._source.away_s(self._client, UNAVAILABLE, self.present_until_s)
                if away_s == np.inf:
                    self.leaves_s = self.present_until_s
                    break
                parts.append((self._at_s, self.present_until_s))
                absent_from_s -= self.present_until_s - self._at_s
                if away_s > 0:
                    pause = self._source.pause(self._client, self.present_until_s, stage, away_s)
                    self.pauses.append(pause)
                self._at_s = self.present_until_s + away_s
            parts.append((self._at_s, self._at_s + absent_from_s))
            self._at_s += absent_from_s
            self.parts.append(parts)


def _split(
    segments: Segments, times_s: FloatArray, courses: dict[int, _Course]
) -> tuple[Segments, FloatArray]:
    """The table with as many rows per segment as any client needs, with absences between them."""
    rows = range(len(segments))
    counts = [max(len(course.parts[row]) for course in courses.values()) for row in rows]
    # For each new row, its segment and its part of it; every second part is an absence.
    source = np.repeat(rows, [2 * count - 1 for count in counts])
    part = np.concatenate([np.arange(2 * count - 1) for count in counts])
    first, away = part == 0, part % 2 == 1
    kind = segments.kind[source]
    kind = np.where((kind == Kind.FLOW) & ~first, int(Kind.RESUMED), kind)
    kind = np.where(away, int(Kind.AWAY), kind)
    shown = first[:, None]
    happens, seconds = segments.happens[source] & shown, segments.seconds[source] * shown
    joules, tail_j = segments.joules[source] * shown, segments.tail_j[source] * shown
    begins_s = np.concatenate([times_s[:1], times_s[source + 1]])
    for place, course in courses.items():
        at = 0
        for row in rows:
            parts, total_s = course.parts[row], float(segments.seconds[row, place])
            end_s = parts[-1][1]
            for number in range(2 * counts[row] - 1):
                which, gone = divmod(number, 2)
                there = which + gone < len(parts)
                if not there:
                    span = end_s, end_s
                elif gone:
                    span = parts[which][1], parts[which + 1][0]
                else:
                    span = parts[which]
                lasts_s = span[1] - span[0]
                share = 0.0 if gone or not there else (lasts_s / total_s if total_s else 1.0)
                begins_s[at, place], begins_s[at + 1, place] = span
                happens[at, place] = there and bool(segments.happens[row, place])
                seconds[at, place] = lasts_s
                joules[at, place] = share * segments.joules[row, place]
                tail_j[at, place] = share * segments.tail_j[row, place]
                at += 1
    table = Segments(segments.stage[source], kind, happens, seconds, joules, tail_j)
    return table, begins_s
