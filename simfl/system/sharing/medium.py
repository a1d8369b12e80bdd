"""A shared medium in simulated time: fluid transfers that slow one another down.

Rates change only when a transfer begins or ends. Between such changes, every transfer's remaining
bits decrease by rate * time, so that ends are known exactly, without polling. All events at one
moment make one change, in an order that does not depend on the order of calls.
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
_FIGURES, _CHANNEL, _RATE = slice(0, 5), 5, 0
_POWER, _SLOPE, _BITS, _LEFT, _START, _AIRTIME, _SLOWED, _CLIENT = range(6, 14)
_ROWS = 14

_ROUNDING = 1e-9
"""Tolerance for a share of time on air: below it, a radio has its full rate."""

Draw = Callable[[IntArray, FloatArray], None]


class _Transfers:
    """Current transfers, one column each, and the `events` of their ends.

    `state` has the rows named above, `route` the hops of each; `rates_bps` and `duty` hold since
    the last change, `slowed` is the part of the duty that a sender with its full rate would not
    need, `ending` tells which of them end next.
    """

    def __init__(self) -> None:
        self.state = np.empty((_ROWS, 0))
        self.route: IntArray = np.empty((0, 0), dtype=np.int64)
        self.rates_bps = self.duty = self.slowed = np.empty(0)
        self.ending = np.empty(0, dtype=bool)
        self.events: list[simpy.Event] = []

    @property
    def flows(self) -> Flows:
        """The transfers as seen by a sharing rule."""
        rate_bps, weight, snr, efficiency_max, behind_bps = self.state[_FIGURES]
        channel = self.state[_CHANNEL].astype(np.int64)
        return Flows(rate_bps, weight, snr, efficiency_max, self.route, behind_bps, channel)

    def add(self, arrivals: Sequence[tuple[Sender, float, simpy.Event]], now_s: float) -> None:
        """Begin transfers now, given by sender, bits and the event of the end."""
        senders = [sender for sender, _, _ in arrivals]
        flows = Flows.of(senders)
        fresh = np.zeros((_ROWS, len(arrivals)))
        fresh[_FIGURES] = (
            flows.rate_bps,
            flows.weight,
            flows.snr,
            flows.spectral_efficiency_max,
            flows.behind_bps,
        )
        fresh[_CHANNEL] = flows.channel
        fresh[_POWER] = [sender.power_w for sender in senders]
        fresh[_SLOPE] = [sender.slope_w for sender in senders]
        fresh[_BITS] = fresh[_LEFT] = [bits for _, bits, _ in arrivals]
        fresh[_START] = now_s
        fresh[_CLIENT] = [sender.client for sender in senders]
        self.state = np.concatenate([self.state, fresh], axis=1)
        self.route = _stacked(self.route, flows.route)
        self.events += [event for _, _, event in arrivals]

    def remove(self, places: Sequence[int]) -> None:
        """Remove those at `places`, ascending."""
        kept = np.ones(len(self.events), dtype=bool)
        kept[places] = False
        rest = np.flatnonzero(kept)
        self.state, self.route = self.state.take(rest, axis=1), self.route.take(rest, axis=0)
        self.rates_bps, self.duty = self.rates_bps[rest], self.duty[rest]
        self.slowed = self.slowed[rest]
        self.ending = self.ending[rest]
        for place in reversed(places):
            del self.events[place]

    def share(self, rates_bps: FloatArray, duty: FloatArray) -> None:
        """Set the rates and duties that hold from now on."""
        beyond = duty - np.minimum(rates_bps / self.state[_RATE], 1.0)
        self.rates_bps, self.duty = rates_bps, duty
        self.slowed = np.where(beyond > _ROUNDING, beyond, 0.0)

    @property
    def power_w(self) -> FloatArray:
        """Mean watts of each radio."""
        watts: FloatArray = self.state[_POWER] * self.duty - self.state[_SLOPE] * self.slowed
        return watts

    def pass_by(self, elapsed_s: float) -> None:
        """Account for this much elapsed time."""
        self.state[_LEFT] -= self.rates_bps * elapsed_s
        self.state[_AIRTIME] += self.duty * elapsed_s
        self.state[_SLOWED] += self.slowed * elapsed_s

    def carried(self, place: int, now_s: float, elapsed_s: float = 0.0) -> Carried:
        """What a transfer has carried by now, `elapsed_s` after the last update of `state`."""
        power_w, slope_w, bits, left, start_s, airtime_s, slowed_s = self.state[
            _POWER : _SLOWED + 1, place
        ].tolist()
        if elapsed_s:
            left -= float(self.rates_bps[place]) * elapsed_s
            airtime_s += float(self.duty[place]) * elapsed_s
            slowed_s += float(self.slowed[place]) * elapsed_s
        active_j = power_w * airtime_s - slope_w * slowed_s
        return Carried(start_s, now_s, bits - max(left, 0.0), airtime_s, active_j)


class Medium:
    """Transfers over one medium; see `transfer`.

    `draw` is called with clients and their radios' mean watts whenever rates may have changed.
    """

    def __init__(self, env: simpy.Environment, sharing: Sharing, draw: Draw | None = None) -> None:
        self._env = env
        self._draw = draw
        self._sharing = sharing
        self._under_way = _Transfers()
        self._arrivals: list[tuple[Sender, float, simpy.Event]] = []
        self._since_s = float(env.now)
        self._next_s = math.inf
        self._changing: set[Moment] = set()
        self._timer: simpy.Event | None = None

    @property
    def active(self) -> int:
        """The number of current transfers, including those that begin at this moment."""
        return len(self._under_way.events) + len(self._arrivals)

    def transfer(self, sender: Sender, size_bytes: float) -> simpy.Event:
        """Begin a transfer now; returns the event of its end, whose value is a `Carried`.

        Without bits, it ends at once. Raises ValueError for a size that is negative or not finite.
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
        """Stop a transfer now; returns what it has carried so far. Its event never happens.

        Raises ValueError if the event belongs to no current transfer.
        """
        carried = self.so_far(event)
        waiting = [arrival for arrival in self._arrivals if arrival[-1] is not event]
        if len(waiting) < len(self._arrivals):
            self._arrivals = waiting
        else:
            self._advance(float(self._env.now))
            self._under_way.remove([self._under_way.events.index(event)])
            self._change(Moment.CHANNEL)
        return carried

    def so_far(self, event: simpy.Event) -> Carried:
        """What a transfer has carried by now, without stopping it.

        Raises ValueError if the event belongs to no current transfer.
        """
        now_s = float(self._env.now)
        if any(waiting is event for _, _, waiting in self._arrivals):
            return Carried(now_s, now_s, 0.0, 0.0, 0.0)
        if event not in self._under_way.events:
            raise ValueError("no such transfer is under way")
        place = self._under_way.events.index(event)
        return self._under_way.carried(place, now_s, now_s - self._since_s)

    def _change(self, moment: Moment) -> None:
        """Recompute everything once, after all events that precede this moment."""
        if moment in self._changing:
            return
        self._changing.add(moment)
        event = self._env.event()
        event._ok, event._value = True, None
        event.callbacks = [lambda _: self._settle(moment)]
        self._env.schedule(event, priority=EventPriority(moment))

    def _settle(self, moment: Moment) -> None:
        """Remove completed transfers, add new ones, and give all of them their new rates."""
        self._changing.discard(moment)
        now_s = float(self._env.now)
        self._advance(now_s)
        transfers = self._under_way
        done = np.flatnonzero(transfers.state[_LEFT] <= 0.0).tolist()
        ended = [(transfers.events[place], transfers.carried(place, now_s)) for place in done]
        if done:
            transfers.remove(done)
        if self._arrivals and moment == Moment.JOIN:
            self._join(now_s)
        self._share(now_s)
        for event, carried in ended:
            event.succeed(carried)

    def _advance(self, now_s: float) -> None:
        """Account for the time since the last change; transfers predicted to end now are done."""
        elapsed_s, self._since_s = now_s - self._since_s, now_s
        transfers = self._under_way
        transfers.pass_by(elapsed_s)
        if now_s == self._next_s:
            transfers.state[_LEFT, transfers.ending] = 0.0

    def _join(self, now_s: float) -> None:
        """Add simultaneous arrivals in the order of their clients."""
        arrivals = sorted(self._arrivals, key=lambda arrival: arrival[0].client)
        self._arrivals = []
        self._under_way.add(arrivals, now_s)

    def _share(self, now_s: float) -> None:
        """Compute new rates, and schedule the next end of a transfer."""
        self._next_s = math.inf
        if self._timer is not None:
            self._timer.callbacks = []  # cancels the scheduled end
            self._timer = None
        transfers = self._under_way
        if not transfers.events:
            return
        transfers.share(*rates_and_duty(self._sharing, transfers.flows))
        state = transfers.state
        if self._draw is not None:
            self._draw(state[_CLIENT].astype(np.int64), transfers.power_w)
        with np.errstate(divide="ignore"):
            wait_s: FloatArray = state[_LEFT] / transfers.rates_bps
        soonest_s = float(wait_s.min())
        transfers.ending = wait_s == soonest_s
        self._next_s = now_s + soonest_s
        if math.isfinite(soonest_s):
            self._timer = self._env.timeout(soonest_s)
            self._timer.callbacks.append(lambda _: self._ring())

    def _ring(self) -> None:
        """Called when a transfer ends."""
        self._timer = None
        self._change(Moment.CHANNEL)


def rates_and_duty(sharing: Sharing, flows: Flows) -> tuple[FloatArray, FloatArray]:
    """Bit/s and duty of each transfer; `PartMisbehaves` for invalid results of a user's rule."""
    if not is_users_own(sharing):
        rates_bps = sharing.rates_bps(flows)
        return rates_bps, sharing.duty(flows, rates_bps)
    columns = {field.name: getattr(flows, field.name).copy() for field in fields(flows)}
    shown, shape = replace(flows, **columns), flows.rate_bps.shape
    with at_work(sharing, "rates_bps"):
        rates = sharing.rates_bps(shown)
    rates_bps = amounts(rates, shape, sharing, "rates_bps")
    if not rates_bps.any():
        raise misbehaves(sharing, "rates_bps", rates, "a rate above 0 for somebody")
    if (rates_bps > flows.rate_bps * (1.0 + 1e-9)).any():
        raise misbehaves(sharing, "rates_bps", rates, "for each at most the rate that it has alone")
    with at_work(sharing, "duty"):
        duties = sharing.duty(shown, rates_bps.copy())
    duty = amounts(duties, shape, sharing, "duty")
    if (duty > 1.0 + 1e-9).any():
        raise misbehaves(sharing, "duty", duties, "shares of the time, at most 1")
    return rates_bps, duty


def _stacked(upper: IntArray, lower: IntArray) -> IntArray:
    """Two tables of routes, one below the other, padded with -1."""
    hops = max(upper.shape[1], lower.shape[1])
    routes = np.full((len(upper) + len(lower), hops), -1)
    routes[: len(upper), : upper.shape[1]] = upper
    routes[len(upper) :, : lower.shape[1]] = lower
    return routes


Place = tuple[int, ...]
"""An access point and a medium there; () is the common backhaul."""


class Channels:
    """One channel per place, and per direction unless both share one.

    `draw` gets the watts of radios, as in `Medium`.
    """

    def __init__(self, sharing: Sharing, env: simpy.Environment, draw: Draw | None = None) -> None:
        self._sharing = sharing
        self._env = env
        self._draw = draw
        self._channels: dict[tuple[Place, bool], Medium] = {}

    def of(self, place: Place, uplink: bool) -> Medium:
        """The channel of a place."""
        key = () if self._sharing.spans_points else place, uplink or self._sharing.half_duplex
        if key not in self._channels:
            self._channels[key] = Medium(self._env, self._sharing, self._draw)
        return self._channels[key]
