"""An alarm for empty batteries of clients that send over shared channels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import simpy

from simfl.common.arrays import FloatArray, IntArray
from simfl.protocols.clock import Clock
from simfl.system.charge import Charge
from simfl.system.moments import Moment


@dataclass
class _Load:
    """The power draw of a client: `active_w` watts above idle power.

    At that power its battery is empty at `empty_s`, when the event `empty` happens. The forecast
    holds until `look_s`, when it is recomputed.
    """

    empty: simpy.Event
    active_w: float = 0.0
    empty_s: float = np.inf
    look_s: float = np.inf


class BatteryDepletion:
    """Tells clients that send over shared channels when their batteries are empty.

    A client's power changes whenever its share of the channel does. Between two changes it is
    constant, and the time when its battery is empty can be computed; one alarm is set for the
    earliest of all clients.
    """

    def __init__(self, clock: Clock, charge: Charge) -> None:
        self._clock = clock
        self._charge = charge
        self._loads: dict[int, _Load] = {}
        self._armed_s = np.inf
        self._alarm: simpy.Event | None = None

    def begin(self, client: int) -> simpy.Event | None:
        """A client begins a flow; returns the event of an empty battery (None: mains power)."""
        if not self._charge.on_battery(np.array([client]))[0]:
            return None
        load = self._loads[client] = _Load(self._clock.env.event())
        self.draw(client, 0.0)
        return load.empty

    def end(self, client: int, *, empty: bool) -> None:
        """A client's flow ends; `empty`: because its battery is empty."""
        if self._loads.pop(client, None) is not None:
            release = self._charge.run_empty if empty else self._charge.release
            release(np.array([client]), self._clock.now_s)
            self._arm()

    def draw(self, client: int, active_w: float) -> None:
        """Sets the power that a client draws from now on, in watts above idle power."""
        if client in self._loads:
            self._drawn(np.array([client]), np.array([active_w]))

    def draw_on_medium(self, clients: IntArray, active_w: FloatArray) -> None:
        """Sets the power that radios draw from now on; includes clients on mains power."""
        other = self._charge.draws_otherwise(clients, active_w)
        if other.any():
            self._drawn(clients[other], active_w[other])

    def unmet_j(self, client: int) -> float:
        """Joules that a client's battery has not given since its flow began."""
        if client not in self._loads:
            return 0.0
        return self._charge.missed_j(client, self._clock.now_s)

    def _drawn(self, clients: IntArray, active_w: FloatArray) -> None:
        empty_s, ahead_s = self._charge.draw(clients, self._clock.now_s, active_w)
        look_s = np.minimum(empty_s, ahead_s)
        columns = zip(
            clients.tolist(), active_w.tolist(), empty_s.tolist(), look_s.tolist(), strict=True
        )
        for client, watts, dry_s, again_s in columns:
            load = self._loads[client]
            load.active_w, load.empty_s, load.look_s = watts, dry_s, again_s
        self._arm()

    def _arm(self) -> None:
        soonest_s = min((load.look_s for load in self._loads.values()), default=np.inf)
        if soonest_s == self._armed_s:
            return
        if self._alarm is not None:
            self._alarm.callbacks = []
            self._alarm = None
        self._armed_s = soonest_s
        if soonest_s < np.inf:
            self._alarm = self._clock.until(soonest_s, Moment.INTERRUPTION)
            self._alarm.callbacks.append(lambda _: self._ring())

    def _ring(self) -> None:
        """The alarm: some batteries are empty now, or need a new forecast."""
        time_s, self._armed_s, self._alarm = self._armed_s, np.inf, None
        for client in sorted(one for one, its in self._loads.items() if its.look_s <= time_s):
            load = self._loads[client]
            if load.empty_s <= time_s:
                load.look_s = np.inf
                if not load.empty.triggered:
                    load.empty.succeed()
            else:
                self.draw(client, load.active_w)
        self._arm()
