"""A shared medium in simulated time: fluid transfers that slow one another down.

Rates change only when a transfer begins or ends; between two such moments every transfer loses
rate * time of its remaining bits, so that ends are known exactly and nothing is polled. What
happens at one moment is one change, in an order that does not depend on who was called first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace

import numpy as np
import simpy
from simpy.events import EventPriority

from simfl.common.amounts import amounts
from simfl.common.arrays import FloatArray, IntArray
from simfl.common.contract import at_work, is_users_own, misbehaves
from simfl.system.moments import Moment
from simfl.system.sharing.base import Carried, Flows, Sender, Sharing

# Rows of a medium's state: a sender's figures as in `Flows`, then those of its transfer.
_FIGURES = slice(0, 4)
_POWER, _BITS, _LEFT, _START, _AIRTIME, _CLIENT = range(4, 10)

Draw = Callable[[IntArray, FloatArray], None]


class Medium:
    """Transfers over one medium; see `transfer`.

    `draw` is told the mean watts of all radios whenever rates may have changed: clients and powers.
    """

    def __init__(self, env: simpy.Environment, sharing: Sharing, draw: Draw | None = None) -> None:
        self._env = env
        self._draw = draw
        self._sharing = sharing
        self._users_own = is_users_own(sharing)
        self._state = np.empty((10, 0))
        self._route = np.empty((0, 0), dtype=np.int64)
        self._rates_bps = self._duty = np.empty(0)
        self._ending = np.empty(0, dtype=bool)
        self._events: list[simpy.Event] = []
        self._arrivals: list[tuple[Sender, float, simpy.Event]] = []
        self._since_s = float(env.now)
        self._next_s = math.inf
        self._changing: set[Moment] = set()
        self._timer: simpy.Event | None = None

    @property
    def active(self) -> int:
        """How many transfers are under way, those that begin at this moment included."""
        return len(self._events) + len(self._arrivals)

    def transfer(self, sender: Sender, size_bytes: float) -> simpy.Event:
        """Begin a transfer now; the event happens when it ends, its value is a `Carried`.

        Nothing to send ends at once. Raises ValueError for a size that is negative or not finite.
        """
        if not 0 <= size_bytes < math.inf:
            raise ValueError(f"size_bytes: found {size_bytes}, accepted: a finite number >= 0")
        event = self._env.event()
        if size_bytes == 0:
            now_s = float(self._env.now)
            return event.succeed(Carried(now_s, now_s, 0.0, 0.0, 0.0))
        self._arrivals.append((sender, 8.0 * size_bytes, event))
        self._change(Moment.JOIN)
        return event

    def cancel(self, event: simpy.Event) -> Carried:
        """Break off a transfer now, and what it has carried so far; its event never happens.

        Raises ValueError for an event of no transfer that is under way.
        """
        carried = self.so_far(event)
        waiting = [arrival for arrival in self._arrivals if arrival[-1] is not event]
        if len(waiting) < len(self._arrivals):
            self._arrivals = waiting
        else:
            self._advance(float(self._env.now))
            self._remove([self._events.index(event)])
            self._change(Moment.CHANNEL)
        return carried

    def so_far(self, event: simpy.Event) -> Carried:
        """What a transfer has carried by now; it goes on.

        Raises ValueError for an event of no transfer that is under way.
        """
        now_s = float(self._env.now)
        if any(waiting is event for _, _, waiting in self._arrivals):
            return Carried(now_s, now_s, 0.0, 0.0, 0.0)
        if event not in self._events:
            raise ValueError("no such transfer is under way")
        place, elapsed_s = self._events.index(event), now_s - self._since_s
        power_w, bits, left, start_s, airtime_s = self._state[_POWER : _AIRTIME + 1, place].tolist()
        left -= float(self._rates_bps[place]) * elapsed_s
        airtime_s += float(self._duty[place]) * elapsed_s
        return Carried(start_s, now_s, bits - max(left, 0.0), airtime_s, power_w * airtime_s)

    def _change(self, moment: Moment) -> None:
        """Recompute everything once what happens before this moment has happened."""
        if moment in self._changing:
            return
        self._changing.add(moment)
        event = self._env.event()
        event._ok, event._value = True, None
        event.callbacks = [lambda _: self._settle(moment)]
        self._env.schedule(event, priority=EventPriority(moment))

    def _settle(self, moment: Moment) -> None:
        """Those who are done leave, those who have come join, and all get their new rates."""
        self._changing.discard(moment)
        now_s = float(self._env.now)
        self._advance(now_s)
        done = np.flatnonzero(self._state[_LEFT] <= 0.0).tolist()
        ended = [(self._events[place], self._carried(place, now_s)) for place in done]
        if done:
            self._remove(done)
        if self._arrivals and moment == Moment.JOIN:
            self._join(now_s)
        self._share(now_s)
        for event, carried in ended:
            event.succeed(carried)

    def _advance(self, now_s: float) -> None:
        """What has been carried since the last change; those predicted to end now have ended."""
        elapsed_s, self._since_s = now_s - self._since_s, now_s
        state = self._state
        state[_LEFT] -= self._rates_bps * elapsed_s
        state[_AIRTIME] += self._duty * elapsed_s
        if now_s == self._next_s:
            state[_LEFT, self._ending] = 0.0

    def _join(self, now_s: float) -> None:
        """Arrivals of one moment queue by client."""
        arrivals = sorted(self._arrivals, key=lambda arrival: arrival[0].client)
        self._arrivals = []
        senders = [sender for sender, _, _ in arrivals]
        flows = Flows.of(senders)
        fresh = np.zeros((10, len(arrivals)))
        fresh[_FIGURES] = flows.rate_bps, flows.weight, flows.snr, flows.spectral_efficiency_max
        fresh[_POWER] = [sender.power_w for sender in senders]
        fresh[_BITS] = fresh[_LEFT] = [bits for _, bits, _ in arrivals]
        fresh[_START] = now_s
        fresh[_CLIENT] = [sender.client for sender in senders]
        self._state = np.concatenate([self._state, fresh], axis=1)
        self._route = _stacked(self._route, flows.route)
        self._events += [event for _, _, event in arrivals]

    def _share(self, now_s: float) -> None:
        """New rates, and an appointment with the next transfer to end."""
        self._next_s = math.inf
        if self._timer is not None:
            self._timer.callbacks = []  # what was to happen then does not
            self._timer = None
        if not self._events:
            return
        rate_bps, weight, snr, spectral_efficiency_max = self._state[_FIGURES]
        flows = Flows(rate_bps, weight, snr, spectral_efficiency_max, self._route)
        if self._users_own:
            self._rates_bps, self._duty = rates_and_duty(self._sharing, flows)
        else:
            self._rates_bps = self._sharing.rates_bps(flows)
            self._duty = self._sharing.duty(flows, self._rates_bps)
        if self._draw is not None:
            self._draw(self._state[_CLIENT].astype(np.int64), self._state[_POWER] * self._duty)
        with np.errstate(divide="ignore"):
            wait_s: FloatArray = self._state[_LEFT] / self._rates_bps
        soonest_s = float(wait_s.min())
        self._ending = wait_s == soonest_s
        self._next_s = now_s + soonest_s
        if math.isfinite(soonest_s):
            self._timer = self._env.timeout(soonest_s)
            self._timer.callbacks.append(lambda _: self._ring())

    def _ring(self) -> None:
        """A transfer ends now."""
        self._timer = None
        self._change(Moment.CHANNEL)

    def _remove(self, places: Sequence[int]) -> None:
        """Take out those at `places`, ascending."""
        kept = np.ones(len(self._events), dtype=bool)
        kept[places] = False
        rest = np.flatnonzero(kept)
        self._state, self._route = self._state.take(rest, axis=1), self._route.take(rest, axis=0)
        self._rates_bps, self._duty = self._rates_bps[rest], self._duty[rest]
        self._ending = self._ending[rest]
        for place in reversed(places):
            del self._events[place]

    def _carried(self, place: int, now_s: float) -> Carried:
        power_w, bits, left, start_s, airtime_s = self._state[_POWER : _AIRTIME + 1, place].tolist()
        return Carried(start_s, now_s, bits - max(left, 0.0), airtime_s, power_w * airtime_s)


def rates_and_duty(sharing: Sharing, flows: Flows) -> tuple[FloatArray, FloatArray]:
    """Bit/s and duty of each transfer by a user's own rule; raises `PartMisbehaves`."""
    columns = {field.name: getattr(flows, field.name).copy() for field in fields(flows)}
    shown, shape = replace(flows, **columns), flows.rate_bps.shape
    with at_work(sharing, "rates_bps"):
        rates = sharing.rates_bps(shown)
    rates_bps = amounts(rates, shape, sharing, "rates_bps")
    if not rates_bps.any():
        raise misbehaves(sharing, "rates_bps", rates, "a rate above 0 for somebody")
    with at_work(sharing, "duty"):
        duties = sharing.duty(shown, rates_bps.copy())
    duty = amounts(duties, shape, sharing, "duty")
    if (duty > 1.0 + 1e-9).any():
        raise misbehaves(sharing, "duty", duties, "shares of the time, at most 1")
    return rates_bps, duty


def _stacked(upper: IntArray, lower: IntArray) -> IntArray:
    """Routes below one another, the shorter ones filled up with -1."""
    hops = max(upper.shape[1], lower.shape[1])
    routes = np.full((len(upper) + len(lower), hops), -1)
    routes[: len(upper), : upper.shape[1]] = upper
    routes[len(upper) :, : lower.shape[1]] = lower
    return routes
