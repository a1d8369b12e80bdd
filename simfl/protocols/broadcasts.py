"""Messages that a server sends to clients as soon as a version exists, outside of rounds."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

import numpy as np
import simpy

from simfl.common.arrays import IntArray
from simfl.protocols.clock import Clock, Stalled
from simfl.protocols.dispatcher import Dispatcher
from simfl.protocols.learned_values import LearnedValues
from simfl.protocols.servers import MOST_FAILURES
from simfl.protocols.state_ref import StateRef
from simfl.system.moments import Moment
from simfl.system.world import World

FIRST_NUMBER = 2**40
"""Numbers of messages outside rounds start here, so that they share no round's noise."""


class Broadcasts:
    """Sends the algorithm's forwarded messages to clients (`Algorithm.forwards`)."""

    def __init__(
        self, world: World, values: LearnedValues, dispatcher: Dispatcher, clock: Clock
    ) -> None:
        self._world = world
        self._values = values
        self._dispatcher = dispatcher
        self._clock = clock
        self._sent: IntArray = np.zeros(world.num_clients, dtype=np.int64)

    def send(
        self, ref: StateRef, moved: IntArray, round_number: int
    ) -> Generator[simpy.Event, Any, None]:
        """Sends all messages at once; ends when the next players have theirs.

        `moved` are the clients whose updates made this version. A client that is busy takes its
        message afterwards, and is not waited for. The server does not give up: lost messages are
        sent again. Raises `Stalled` if that never ends.
        """
        clients = np.arange(self._sent.size)
        raw_bytes = self._values.forwards(ref, moved, clients.size)
        if raw_bytes is None:
            return
        now_s, receivers = self._clock.now_s, np.flatnonzero(raw_bytes)
        under_way = self._dispatcher.free_s(clients) > now_s
        if self._dispatcher.shared:
            about = {"version": ref.version, "round": round_number}
            waited_for = self._values.players(ref, clients)
            waited_for = waited_for[~under_way[waited_for]]
            yield from self._share(receivers, raw_bytes, about, waited_for)
            return
        for _ in range(MOST_FAILURES):
            numbers = FIRST_NUMBER + self._sent[receivers]
            self._sent[receivers] += 1
            message = self._world.access_transfer(
                receivers,
                numbers,
                raw_bytes[receivers],
                False,
                radio_idle_s=self._dispatcher.radio_idle_s(receivers),
            )
            self._dispatcher.receive(receivers, message, ref.version, round_number)
            receivers = receivers[message.failed]
            if not receivers.size:
                break
        else:
            raise Stalled(
                f"a message to client {receivers[0]} was lost {MOST_FAILURES} times in a row,"
                " after all attempts; check the population's message_loss"
            )
        players = self._values.players(ref, clients)
        ready_s = self._dispatcher.free_s(players[~under_way[players]])
        yield self._clock.until(float(ready_s.max(initial=now_s)))

    def _share(
        self, receivers: IntArray, raw_bytes: IntArray, about: dict[str, int], waited_for: IntArray
    ) -> Generator[simpy.Event, Any, None]:
        """The same over a shared medium, where arrival times are not known ahead."""
        arrivals = {
            client: self._dispatcher.take(
                client, int(raw_bytes[client]), partial(self._number, client), about
            )
            for client in receivers.tolist()
        }
        yield self._clock.env.all_of(
            [arrivals[one] for one in waited_for.tolist() if one in arrivals]
        )
        yield self._clock.now(Moment.CLOSE)

    def _number(self, client: int) -> int:
        """The number of the next message to a client."""
        self._sent[client] += 1
        return FIRST_NUMBER + int(self._sent[client]) - 1
