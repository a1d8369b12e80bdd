"""Batteries of clients in turns whose course nobody knows: who runs empty is stopped at once."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import simpy

from simfl.common.arrays import FloatArray, IntArray
from simfl.protocols.clock import Clock
from simfl.system.charge import Charge


class Drains:
    """What clients draw, from change to change, and an alarm for the next battery to be empty.

    Between two changes a load is constant, so that the moment is known, as of then; rivals on the
    medium, and the supplies, may change it.
    """

    def __init__(self, clock: Clock, charge: Charge) -> None:
        self._clock = clock
        self._charge = charge
        self._stop: dict[int, Callable[[], None]] = {}
        # Per client when its battery is empty, and when that is to be looked at again.
        self._empty_s: dict[int, float] = {}
        self._look_s: dict[int, float] = {}
        self._watts: dict[int, float] = {}
        self._armed_s = np.inf

    def begin(self, client: int, stop: Callable[[], None]) -> None:
        """A turn begins; `stop` is called when its battery is empty, after messages of then end."""
        self._stop[client] = stop
        self.draw(client, 0.0)

    def end(self, client: int) -> None:
        """It is over, and the client rests from now on."""
        for known in (self._stop, self._empty_s, self._look_s, self._watts):
            known.pop(client, None)
        self._charge.release(np.array([client]), self._clock.now_s)

    def covers(self, client: int) -> bool:
        """Whether it has a battery."""
        return self._charge.on_battery(client)

    def draw(self, client: int, active_w: float) -> None:
        """From now on it draws so much beyond idle power."""
        self._drawn(np.array([client]), np.array([active_w]))

    def draw_on_medium(self, clients: IntArray, active_w: FloatArray) -> None:
        """What radios take from now on of transfers under way; some may be nobody's turn."""
        other = self._charge.draws_otherwise(clients, active_w)
        if other.any():
            self._drawn(clients[other], active_w[other])

    def compute(self, client: int, active_w: float, until_s: float) -> float:
        """It draws so much until then, come what may: when it is empty before (or inf)."""
        self._look_s.pop(client, None)
        who, load_w = np.array([client]), np.array([active_w])
        return float(self._charge.draw(who, self._clock.now_s, load_w, until_s)[0][0])

    def unmet_j(self, client: int) -> float:
        """What its battery has not given since its turn, or a message, began."""
        return self._charge.missed_j(client, self._clock.now_s)

    def run_empty(self, client: int) -> None:
        """Its battery is empty now."""
        self._charge.run_empty(client, self._clock.now_s)

    def _drawn(self, clients: IntArray, active_w: FloatArray) -> None:
        empty_s, ahead_s = self._charge.draw(clients, self._clock.now_s, active_w)
        who = clients.tolist()
        self._watts.update(zip(who, active_w.tolist(), strict=True))
        self._empty_s.update(zip(who, empty_s.tolist(), strict=True))
        self._look_s.update(zip(who, np.minimum(empty_s, ahead_s).tolist(), strict=True))
        self._arm()

    def _arm(self) -> None:
        soonest_s = min(self._look_s.values(), default=np.inf)
        if soonest_s < self._armed_s:
            self._armed_s = soonest_s
            self._clock.env.process(self._alarm(soonest_s))

    def _alarm(self, time_s: float) -> Generator[simpy.Event, Any, None]:
        yield self._clock.until(time_s)
        yield self._clock.gathered()
        if time_s != self._armed_s:
            return
        self._armed_s = np.inf
        for client in sorted(one for one, look_s in self._look_s.items() if look_s <= time_s):
            if self._empty_s[client] <= time_s:
                del self._look_s[client]
                self._stop[client]()
            else:
                self.draw(client, self._watts[client])
        self._arm()
