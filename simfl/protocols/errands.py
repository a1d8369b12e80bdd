"""Messages to clients beside their turns, over media that clients share."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from simfl.protocols.clock import Clock, Stalled
from simfl.protocols.crossing import Bearer
from simfl.protocols.drains import Drains
from simfl.protocols.media import ALWAYS_THERE, Media
from simfl.protocols.servers import MOST_FAILURES
from simfl.system.world import World

Free = Callable[[int, float], None]


@dataclass(frozen=True, eq=False)
class Errand:
    """A message to a client: `number()` addresses the draws of each time that it is sent.

    `about` are columns of its rows; `done` happens when it has arrived.
    """

    raw_bytes: int
    number: Callable[[], int]
    about: dict[str, int]
    done: simpy.Event


class Errands:
    """Sends each client its messages one after another; `free(client, silent_s)` is told of each.

    The server does not give up: what is lost is sent again. A battery that is empty gives nothing,
    and ends no message.
    """

    def __init__(
        self, world: World, media: Media, drains: Drains | None, clock: Clock, free: Free
    ) -> None:
        self._world = world
        self._media = media
        self._drains = drains
        self._clock = clock
        self._free = free
        self._waiting: dict[int, deque[Errand]] = {}

    def add(self, client: int, errand: Errand) -> None:
        """A message that the client takes as soon as it is free: see `begin`."""
        self._waiting.setdefault(client, deque()).append(errand)

    def waits(self, client: int) -> bool:
        """Whether there is a message for it."""
        return client in self._waiting

    def begin(self, client: int, radio_idle_s: float) -> None:
        """A client is free, and busy with its next message from now on."""
        waiting = self._waiting[client]
        errand = waiting.popleft()
        if not waiting:
            del self._waiting[client]
        self._clock.env.process(self._run(client, errand, radio_idle_s))

    def _run(
        self, client: int, errand: Errand, radio_idle_s: float
    ) -> Generator[simpy.Event, Any, None]:
        """Raises `Stalled` where it never arrives."""
        silent_s = yield from self._sent(client, errand, radio_idle_s)
        self._free(client, silent_s)
        errand.done.succeed()

    def _sent(
        self, client: int, errand: Errand, radio_idle_s: float
    ) -> Generator[simpy.Event, Any, float]:
        """Send a message until it has arrived; how long its radio has been silent then."""
        world, who = self._world, np.array([client])
        (place,) = world.air(who, None)
        for _ in range(MOST_FAILURES):
            (message,) = world.messenger.shared_access(
                who, np.array([errand.number()]), errand.raw_bytes, False, None, radio_idle_s
            )
            bearer = self._bearer(client)
            yield from self._media.carry(client, place, message, False, errand.about, bearer=bearer)
            bearer.done()
            radio_idle_s = message.silent_s
            if not message.failed:
                return radio_idle_s
        raise Stalled(
            f"a message to client {client} was lost {MOST_FAILURES} times in a row, each time for"
            " good; what is the population's message_loss?"
        )

    def _bearer(self, client: int) -> Bearer:
        if self._drains is not None and self._drains.covers(client):
            return Spender(client, self._drains)
        return ALWAYS_THERE


class Spender(Bearer):
    """A client that receives for as long as it takes, and gives what its battery has."""

    def __init__(self, client: int, drains: Drains) -> None:
        self._client = client
        self._drains = drains
        drains.begin(client, self._run_empty)

    def draws(self, active_w: float) -> None:
        """Of its battery."""
        self._drains.draw(self._client, active_w)

    def unmet_j(self) -> float:
        """What the battery did not give."""
        return self._drains.unmet_j(self._client)

    def done(self) -> None:
        """The message is there."""
        self._drains.end(self._client)

    def _run_empty(self) -> None:
        """The message goes on."""
