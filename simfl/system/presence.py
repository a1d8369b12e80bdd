"""Which clients are there, and which turns are cut short: absences, crashes, empty batteries.

All that can befall a turn is known when it begins: absences and crashes are fixed by the seed, and
a battery's course by the turn's own load. A turn is therefore cut when it is planned. Over a shared
medium, where nobody knows a turn's course, the same comes to light on the way.

Choices
1. A client that leaves in mid-turn goes on (`ignore`), goes on when it is back (`pause`: work
   continues only while it is there, as in FLASH, WWW 2021), or drops its turn (`abort`).
2. A crash ends the turn, and so does a battery that runs empty. The server notices at once.
3. A message that is cut off is lost, every attempt begun so far; a paused one goes on where it was.
4. The joules of a paused stage are spread evenly over its time; but for messages over a shared
   medium, which draw nothing while their client is away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.streams import Streams
from simfl.system.availability.base import MOST_PAUSES, Availability, UnusableAvailability
from simfl.system.battery import Batteries
from simfl.system.charge import Charge
from simfl.system.checked_availability import CheckedAvailability
from simfl.system.failures import Failures
from simfl.system.turn_plan import TurnPlan

Leaving = Literal["ignore", "pause", "abort"]
STAGES = ("download", "compute", "upload")
CAUSES = ("unavailable", "crash", "battery_empty")


@dataclass(frozen=True)
class Mishap:
    """What befalls a client in mid-turn: one of `CAUSES`, when, in which stage.

    `lasts_s` is how long it is away, NaN for an empty battery. Unless the turn `goes_on`, it ends
    there.
    """

    client: int
    cause: str
    time_s: float
    stage: str
    lasts_s: float
    goes_on: bool


@dataclass(frozen=True, eq=False)
class Outcome:
    """What becomes of planned turns: the plan, cut where it is, and when each is cut (inf: never).

    `computed` says whose computation comes to its end, `stays_s` how long each client is there.
    """

    plan: TurnPlan
    stops_s: FloatArray
    computed: BoolArray
    stays_s: FloatArray
    mishaps: list[Mishap]


class Presence:
    """Availability, crashes and batteries of clients, as one; `batteries` None is mains power.

    `idle_w` is what each client draws while it does nothing. `charge` is that of the batteries.
    """

    def __init__(
        self,
        availability: Availability,
        leaving: Leaving,
        failures: Failures,
        batteries: Batteries | None,
        idle_w: FloatArray,
        streams: Streams,
    ) -> None:
        self._availability = CheckedAvailability(availability)
        self._leaving = leaving
        self._failures = failures
        self.charge = None if batteries is None else Charge(batteries, idle_w)
        self._num_clients = idle_w.size
        self._streams = streams
        self._untroubled = leaving == "ignore" and failures.never and batteries is None

    @property
    def told_by(self) -> str:
        """The class that says who is available."""
        return self._availability.name

    def there(self, clients: IntArray, now_s: float) -> BoolArray:
        """Which clients could begin a turn now, were they free."""
        there = self._availability.available(clients, now_s, self._streams)
        if not self._failures.never:
            there = there & self._failures.at(clients, now_s)[0]
        if self.charge is not None:
            there = there & self.charge.can_take_part(clients, now_s)
        return there

    def next_s(self, clients: IntArray, now_s: float) -> FloatArray:
        """Before when none of `clients`, not there now, will be; inf: never.

        What keeps it away may change then for another reason: ask again.
        """
        next_s = np.full(clients.size, now_s)
        away = ~self._availability.available(clients, now_s, self._streams)
        if away.any():
            next_s[away] = self._availability.next_s(clients[away], now_s, self._streams)
        if not self._failures.never:
            working, until_s = self._failures.at(clients, now_s)
            next_s = np.where(working, next_s, np.maximum(next_s, until_s))
        if self.charge is not None:
            next_s = np.maximum(next_s, self.charge.ready_s(clients, now_s))
        return next_s

    def anybody(self, now_s: float) -> bool:
        """Whether any client at all is there, or ever will be."""
        clients = np.arange(self._num_clients)
        there, next_s = self.there(clients, now_s), self.next_s(clients, now_s)
        return bool((there | np.isfinite(next_s)).any())

    def level(self, clients: IntArray) -> FloatArray:
        """Charge over capacity when each was last looked at; NaN for mains power."""
        if self.charge is None:
            return np.full(clients.size, np.nan)
        return self.charge.level(clients)

    def turns(
        self, clients: IntArray, plan: TurnPlan, now_s: float, server_fails_s: float
    ) -> Outcome:
        """What becomes of turns that begin now; batteries are discharged by them.

        Messages under way when their server fails, at `server_fails_s`, are lost.
        """
        never = np.full(clients.size, np.inf)
        if self._untroubled and server_fails_s == np.inf:
            return Outcome(plan, never, ~plan.download_failed, never, [])
        planned = plan
        plan, leaves_s, stays_s, mishaps = self._with_absences(clients, planned, now_s)
        if np.isfinite(server_fails_s):
            plan = plan.unheard_after(server_fails_s, now_s)
            if (plan.download_failed & ~planned.download_failed).any():
                # Nothing follows their downloads, and nothing that does not happen is paused.
                planned = replace(
                    planned, download_failed=plan.download_failed, radio_idle_s=plan.radio_idle_s
                )
                plan, leaves_s, stays_s, mishaps = self._with_absences(clients, planned, now_s)
                plan = plan.unheard_after(server_fails_s, now_s)
        times_s = np.stack(plan.times_s(now_s))
        # After a failed download nothing follows, and takes no time.
        times_s[2:] = np.where(plan.download_failed, times_s[1], times_s[2:])
        # A model may round at its boundary: every turn lasts for the last bit at least.
        soon_s = np.nextafter(now_s, np.inf)
        fails_s = np.maximum(self._failures.at(clients, now_s)[1], soon_s)
        stops_s = np.minimum(leaves_s, fails_s)
        stays_s = np.minimum(stays_s, fails_s)
        empty_s = never
        if self.charge is not None:
            empty_s = self.charge.discharge(clients, plan, times_s, stops_s)
        causes_s = np.stack([leaves_s, fails_s, empty_s])
        stops_s, cause = causes_s.min(axis=0), causes_s.argmin(axis=0)
        stage = (times_s[1:] <= stops_s).sum(axis=0)
        cut = np.flatnonzero(stage < len(STAGES))
        if not cut.size:
            return Outcome(plan, never, ~plan.download_failed, stays_s, mishaps)
        share = np.ones(clients.size)
        begun_s, done_s = times_s[stage[cut], cut], times_s[stage[cut] + 1, cut]
        share[cut] = (stops_s[cut] - begun_s) / (done_s - begun_s)
        stops_s = np.where(stage < len(STAGES), stops_s, np.inf)
        until_s = dict(zip(clients.tolist(), stops_s.tolist(), strict=True))
        mishaps = [one for one in mishaps if one.time_s < until_s[one.client]]
        for place in cut.tolist():
            befallen = int(clients[place]), int(cause[place]), float(stops_s[place])
            mishaps.append(self.mishap(*befallen, int(stage[place])))
        computed = ~plan.download_failed & (stage >= 2)
        return Outcome(plan.cut(stage, share), stops_s, computed, stays_s, mishaps)

    def stops_s(self, clients: IntArray, now_s: float) -> tuple[FloatArray, IntArray]:
        """When turns that begin now end, if they are not over by then (inf), by which of `CAUSES`.

        For turns whose own course is not known. Who leaves in between, and when a battery is empty,
        comes to light on the way.
        """
        # A model may round at its boundary: every turn lasts for the last bit at least.
        soon_s = np.nextafter(now_s, np.inf)
        leaves_s = np.full(clients.size, np.inf)
        if self._leaving == "abort":
            leaves_s = self._availability.until_s(clients, now_s, self._streams)
        stops_s = np.stack([leaves_s, self._failures.at(clients, now_s)[1]])
        return np.maximum(stops_s.min(axis=0), soon_s), stops_s.argmin(axis=0)

    def pauses_s(self, client: int, at_s: float) -> float:
        """When a turn pauses next of which a client works from `at_s` on; inf: never."""
        return self._leaves_s(client, at_s) if self._leaving == "pause" else np.inf

    def pause(self, client: int, time_s: float, stage: int) -> Mishap:
        """What keeps a client away that has left at `time_s`, when `pauses_s` said."""
        away_s = self._away_s(client, "unavailable", time_s)
        goes_on = away_s < np.inf
        return Mishap(client, "unavailable", time_s, STAGES[stage], away_s, goes_on)

    def computing(
        self, client: int, lasts_s: float, now_s: float
    ) -> tuple[float, float, list[Mishap]]:
        """Seconds of a computation that begins now and takes `lasts_s` of work, absences included.

        Then when it ends because its client leaves for good (inf), and every pause.
        """
        pauses, stages_s = list[Mishap](), np.array([lasts_s])
        if self._leaving != "pause":
            return lasts_s, np.inf, pauses
        leaves_s, _ = self._stretch(client, stages_s, now_s, pauses, STAGES[1:2])
        return float(stages_s[0]), leaves_s, pauses

    def mishap(self, client: int, cause: int, time_s: float, stage: int) -> Mishap:
        """A turn ends in one of `STAGES`, by one of `CAUSES`."""
        name = CAUSES[cause]
        away_s = self._away_s(client, name, time_s)
        return Mishap(client, name, time_s, STAGES[stage], away_s, goes_on=False)

    def _with_absences(
        self, clients: IntArray, plan: TurnPlan, now_s: float
    ) -> tuple[TurnPlan, FloatArray, FloatArray, list[Mishap]]:
        """The plan with its pauses, when clients leave for good, and next, and every pause."""
        leaves_s, pauses = np.full(clients.size, np.inf), list[Mishap]()
        if self._leaving == "ignore":
            return plan, leaves_s, leaves_s, pauses
        until_s = self._availability.until_s(clients, now_s, self._streams)
        until_s = np.maximum(until_s, np.nextafter(now_s, np.inf))
        if self._leaving == "abort":
            return plan, until_s, until_s, pauses
        stages_s = np.stack([plan.download_s, plan.compute_s, plan.upload_s])
        stages_s[1:] *= ~plan.download_failed
        for place in np.flatnonzero(now_s + stages_s.sum(axis=0) > until_s).tolist():
            client = int(clients[place])
            for_good_s, next_s = self._stretch(client, stages_s[:, place], now_s, pauses)
            leaves_s[place], until_s[place] = for_good_s, next_s
        download_s, compute_s, upload_s = stages_s
        failed = plan.download_failed
        paused = replace(
            plan,
            download_s=download_s,
            compute_s=np.where(failed, plan.compute_s, compute_s),
            upload_s=np.where(failed, plan.upload_s, upload_s),
        )
        return paused, leaves_s, until_s, pauses

    def _stretch(
        self,
        client: int,
        stages_s: FloatArray,
        now_s: float,
        pauses: list[Mishap],
        names: Sequence[str] = STAGES,
    ) -> tuple[float, float]:
        """Add a client's absences to its stages; when it leaves never to come back, and next."""
        at_s = leaves_s = now_s
        departures = 0
        for stage, lasts_s in enumerate(stages_s.tolist()):
            begun_s, left_s = at_s, lasts_s
            while True:
                leaves_s = self._leaves_s(client, at_s)
                if at_s + left_s <= leaves_s:
                    break
                departures += 1
                if departures > MOST_PAUSES:
                    raise self.restless(client, leaves_s)
                left_s -= leaves_s - at_s
                away_s = self._away_s(client, "unavailable", leaves_s)
                if away_s == np.inf:
                    stages_s[stage] = leaves_s + left_s - begun_s
                    return leaves_s, leaves_s
                if away_s > 0:
                    pause = Mishap(client, "unavailable", leaves_s, names[stage], away_s, True)
                    pauses.append(pause)
                at_s = leaves_s + away_s
            at_s += left_s
            stages_s[stage] = at_s - begun_s
        return np.inf, leaves_s

    def restless(self, client: int, time_s: float) -> UnusableAvailability:
        """The error of a client that has left more than `MOST_PAUSES` times in one turn."""
        return UnusableAvailability(
            f"client {client} has left {MOST_PAUSES:,} times in one turn by {time_s:g} s, says"
            f" {self.told_by}; what is the population's availability?"
        )

    def _leaves_s(self, client: int, at_s: float) -> float:
        """When a client that is there at `at_s` leaves."""
        leaves_s = self._availability.until_s(np.array([client]), at_s, self._streams)
        return max(float(leaves_s[0]), float(np.nextafter(at_s, np.inf)))

    def _away_s(self, client: int, cause: str, time_s: float) -> float:
        """How long a client that is stopped at `time_s` is away."""
        if cause == "crash":
            return self._failures.works_s(client, time_s) - time_s
        if cause == "battery_empty":
            return float(np.nan)
        who = np.array([client])
        if self._availability.available(who, time_s, self._streams)[0]:
            return 0.0
        return float(self._availability.next_s(who, time_s, self._streams)[0]) - time_s
