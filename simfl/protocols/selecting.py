"""Choosing the clients of a round: who is there, who is asked, who is picked."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from simfl.decisions.base import QueryingSelection, Selection
from simfl.protocols.choice import numbers_among
from simfl.protocols.clock import Clock
from simfl.protocols.departures import Departures
from simfl.protocols.observations import Observations
from simfl.protocols.queries import Queries
from simfl.protocols.state_ref import StateRef
from simfl.protocols.timing_only import TimingOnly
from simfl.protocols.values import Values
from simfl.streams import Streams
from simfl.system.availability.base import Availability

IntArray = NDArray[np.int64]


class Selecting:
    """Drives the selection rule, one memory and one count of choices per server."""

    def __init__(
        self,
        selection: Selection,
        availability: Availability,
        values: Values | TimingOnly,
        observations: Observations,
        departures: Departures,
        queries: Queries,
        streams: Streams,
        clock: Clock,
    ) -> None:
        self._selection = selection
        self._availability = availability
        self._values = values
        self._observations = observations
        self._departures = departures
        self._queries = queries
        self._streams = streams
        self._clock = clock
        self._memory: dict[int, Any] = {}
        self._count: dict[int, int] = {}

    def choose(
        self, ref: StateRef, clients: IntArray, round_number: int, edge: int | None
    ) -> Generator[simpy.Event, Any, tuple[IntArray, dict[str, Any]]]:
        """Which of `clients` take part, and what the log says of the choice."""
        tier, selection = -1 if edge is None else edge, self._selection
        players = yield from self._available(self._values.players(ref, clients), tier)
        memory = self._memory[tier] if tier in self._memory else selection.initial()
        count = self._count.get(tier, 0)
        self._count[tier] = count + 1
        asked = {}
        if isinstance(selection, QueryingSelection):
            memory, answered = yield from self._queries.ask(
                selection, memory, players, ref, round_number, edge, count
            )
            asked = {"asked": answered}
        rng = self._streams.generator("selection", tier + 1, count)
        view = self._observations.clients(players, self._clock.now_s, round_number, tier)
        self._memory[tier], decision = selection.decide(memory, view, rng)
        chosen = numbers_among(players, decision, type(selection).__name__)
        detail = {"eligible": int(players.size), "selected": chosen[:50].tolist(), **asked}
        return chosen, detail

    def _available(self, players: IntArray, tier: int) -> Generator[simpy.Event, Any, IntArray]:
        """Those of `players` that are there, as soon as there are any."""
        who = "the server" if tier < 0 else f"edge-{tier}"
        while True:
            now_s = self._clock.now_s
            free_s = self._departures.free_s(players)  # later: stragglers of closed rounds
            there = self._availability.available(players, now_s, self._streams) & (free_s <= now_s)
            if there.any():
                return players[there]
            later_s = np.maximum(self._availability.next_s(players, now_s, self._streams), free_s)
            next_s = float(later_s.min(initial=np.inf))
            with self._clock.waiting(who, f"one of {players.size} clients to become available"):
                # A model may round at its boundary: time moves on by at least the last bit.
                least_s = float(np.nextafter(now_s, np.inf))
                alarm = [self._clock.until(max(next_s, least_s))] if next_s < np.inf else []
                yield self._clock.env.any_of([self._departures.freed, *alarm])
