"""Letters to clients: messages from outside simfl, each answered by a client round.

The server of another framework (`bridges/`) decides which client gets which message. A letter is
sent to its client, which works on it and sends an answer: a round like any other, through the same
dispatcher. A client that is busy or away gets its letters afterwards, one by one, in the order in
which they were posted; expired letters are not delivered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import simpy

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.common.model_work import ModelWork
from simfl.protocols.clock import Clock
from simfl.protocols.dispatched import Dispatched
from simfl.protocols.dispatcher import Computed, Dispatcher, Workload
from simfl.protocols.observations import Observations
from simfl.system.moments import Moment
from simfl.system.presence import Presence


@dataclass(frozen=True)
class LetterLoad:
    """The load of a letter: bytes in each direction, before the codec, and the work in between.

    Training passes over `examples` in `steps` steps, for a model with this `work`, with
    `memory_bytes` held at once (0: not known).
    """

    down_bytes: int
    up_bytes: int
    examples: float
    steps: float
    work: ModelWork
    memory_bytes: float


class Letter(ABC):
    """A message to one client, and its outcome; `trains`: its answer is an update.

    `version` and `round_number` go into the rows. A client that can take it only at `expires_s` or
    later never gets it.
    """

    client: int
    expires_s: float
    version: int
    round_number: int
    trains: bool

    @abstractmethod
    def load(self) -> LetterLoad:
        """Its load: called once, when its client begins."""

    @abstractmethod
    def computed(self, *, ended: bool) -> None:
        """Whether its computation ends is known, before the clock gets there."""

    @abstractmethod
    def arrived(self) -> None:
        """The answer arrives now."""


Begin = Callable[[IntArray, Workload, int, int, Computed], Dispatched]
"""Starts clients with a workload, at a version and in a round, and calls `Computed`."""


class Exchanges:
    """Delivers letters, and reports changes."""

    def __init__(
        self,
        begin: Begin,
        dispatcher: Dispatcher,
        presence: Presence,
        observations: Observations,
        clock: Clock,
        frequency_hz: Callable[[IntArray, int], FloatArray],
    ) -> None:
        self._begin = begin
        self._dispatcher = dispatcher
        self._presence = presence
        self._observations = observations
        self._clock = clock
        self._frequency_hz = frequency_hz
        self._waiting: dict[int, deque[Letter]] = {}
        self._changed = clock.env.event()

    def there(self, clients: IntArray) -> BoolArray:
        """Which clients are available now, busy or not."""
        return self._presence.there(clients, self._clock.now_s)

    def post(self, letters: Sequence[Letter]) -> None:
        """Sends letters now to clients that are free and available; the others get theirs later."""
        now_s = self._clock.now_s
        clients = np.array([one.client for one in letters], dtype=np.int64)
        first = np.zeros(clients.size, dtype=bool)
        first[np.unique(clients, return_index=True)[1]] = True
        free = first & (self._dispatcher.free_s(clients) <= now_s) & self.there(clients)
        free &= np.array([one.client not in self._waiting for one in letters], dtype=bool)
        self._dispatch([one for one, now in zip(letters, free, strict=True) if now])
        for one, now in zip(letters, free, strict=True):
            if now:
                continue
            if one.client in self._waiting:
                self._waiting[one.client].append(one)
            else:
                self._waiting[one.client] = deque([one])
                self._clock.env.process(self._deliver(one.client))

    def change(self, until_s: float, clients: IntArray) -> Generator[simpy.Event, Any, None]:
        """Waits for the next answer, or until one of the absent `clients` may be back.

        Waits at most until `until_s`. If nothing can come, the clock raises the stall.
        """
        back_s = self._presence.next_s(clients, self._clock.now_s)
        ahead = back_s[np.isfinite(back_s) & (back_s > self._clock.now_s)]
        until_s = min(until_s, float(ahead.min(initial=np.inf)))
        alarm = [self._clock.until(until_s)] if np.isfinite(until_s) else []
        yield self._clock.env.any_of([self._changed, *alarm])
        yield self._clock.now(Moment.DECISION)

    def _deliver(self, client: int) -> Generator[simpy.Event, Any, None]:
        """Sends a client its letters, one by one, whenever it can take the next."""
        who, letters = np.array([client]), self._waiting[client]
        while letters:
            free_s = float(self._dispatcher.free_s(who)[0])
            if free_s > self._clock.now_s:
                known = np.isfinite(free_s)
                yield self._clock.until(free_s) if known else self._dispatcher.freed
                continue
            if not self.there(who)[0]:
                back_s = float(self._presence.next_s(who, self._clock.now_s)[0])
                if not np.isfinite(back_s):
                    break  # nobody will ever take them
                yield self._clock.until(max(back_s, np.nextafter(self._clock.now_s, np.inf)))
                continue
            yield self._clock.now(Moment.DECISION)
            if (first := letters.popleft()).expires_s > self._clock.now_s:
                self._dispatch([first])
        del self._waiting[client]

    def _dispatch(self, letters: Sequence[Letter]) -> None:
        """Starts clients that are free and available; clients with the same work start together."""
        together: dict[tuple[Any, ...], list[tuple[Letter, LetterLoad]]] = {}
        for one in letters:
            load = one.load()
            about = load.work, one.version, one.round_number
            together.setdefault(about, []).append((one, load))
        for (work, version, round_number), cohort in together.items():
            self._dispatch_alike(cohort, work, version, round_number)

    def _dispatch_alike(
        self,
        cohort: Sequence[tuple[Letter, LetterLoad]],
        work: ModelWork,
        version: int,
        round_number: int,
    ) -> None:
        letters, loads = zip(*cohort, strict=True)
        clients = np.array([one.client for one in letters], dtype=np.int64)
        workload = Workload(
            np.array([one.examples for one in loads], dtype=float),
            np.array([one.steps for one in loads], dtype=float),
            work,
            np.array([one.down_bytes for one in loads], dtype=np.int64),
            np.array([one.up_bytes for one in loads], dtype=np.int64),
            self._frequency_hz(clients, round_number),
            np.array([one.memory_bytes for one in loads], dtype=float),
        )

        def computed(places: IntArray, times_s: FloatArray) -> None:
            for place, time_s in zip(places.tolist(), times_s.tolist(), strict=True):
                letters[place].computed(ended=bool(np.isfinite(time_s)))

        dispatched = self._begin(clients, workload, version, round_number, computed)

        def tell(which: BoolArray) -> None:
            for place in np.flatnonzero(which).tolist():
                alarm = self._clock.until(float(dispatched.arrives_s[place]))
                alarm.callbacks.append(partial(arrived, place))

        def arrived(place: int, _: simpy.Event) -> None:
            if letters[place].trains:
                only = np.arange(clients.size) == place
                self._observations.finished(dispatched.reports(only))
            letters[place].arrived()
            changed, self._changed = self._changed, self._clock.env.event()
            changed.succeed()

        dispatched.follow(-np.inf, tell)
