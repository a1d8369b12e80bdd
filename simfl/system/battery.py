"""Batteries: charging, discharging, losses, and when a battery runs empty.

While load and supply are constant, the charge changes linearly, E(t) = clip(E + (P_in - P_load) t,
0, capacity), so that going through the steps of the supply is exact. Supply beyond the capacity is
spilled, load that an empty battery cannot serve is unmet, and over any interval

    change of charge = charged - drawn,  charged = supply - spilled,  drawn = load - unmet.

A client takes part if it is charged to `lowest` or is plugged in. A client whose battery has run
empty is off: it draws nothing, all its load is unmet and all supply charges it, until it has
`lowest` again. Then it is on, and runs empty again if its load exceeds the supply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.system.series import StepSeries

_ROUNDING = 1e-9
"""Tolerance, as a share of the capacity, for reaching a level."""
_FORESEEN_S = 366 * 86_400.0
"""How far ahead the search for a client's return looks."""


@dataclass(frozen=True, eq=False)
class Supply:
    """A power supply: client i gets scale[i] * series(t + shift_s[i]) watts at time t.

    A client with `charger` is plugged in while it gives power; a harvest only charges.
    """

    series: StepSeries
    scale: FloatArray
    shift_s: FloatArray
    charger: bool = True

    def power_w(self, clients: IntArray, time_s: FloatArray) -> FloatArray:
        """The supplied watts at each client's time."""
        return self.scale[clients] * self.series.at(time_s + self.shift_s[clients])

    def next_change_s(self, clients: IntArray, time_s: FloatArray) -> FloatArray:
        """When the supply changes next; inf for a client that gets nothing."""
        shift_s = self.shift_s[clients]
        later_s = self.series.next_change_s(time_s + shift_s) - shift_s
        later_s = np.where(self.scale[clients] == 0, np.inf, later_s)
        return np.maximum(later_s, np.nextafter(time_s, np.inf))

    def only(self, clients: IntArray) -> Supply:
        """The supply of these clients; all others get nothing from it."""
        scale = np.zeros_like(self.scale)
        scale[clients] = self.scale[clients]
        return replace(self, scale=scale)


@dataclass(frozen=True, eq=False)
class Flow:
    """Joules of each client over an interval, and when its battery first ran empty (inf: never).

    For a client that is off at the start, that is the start.
    """

    charged_j: FloatArray
    drawn_j: FloatArray
    spilled_j: FloatArray
    unmet_j: FloatArray
    empty_s: FloatArray


class Batteries:
    """The charge of every client's battery, each at a time of its own.

    Columns over clients: `capacity_j`, inf for mains power; `charge_j` at `time_s`; the share
    `lowest` of the capacity; and whether the client is `off`. A query takes time for the steps of
    the supplies since the client's last one.
    """

    def __init__(
        self,
        capacity_j: ArrayLike,
        charge_j: ArrayLike,
        supplies: Sequence[Supply] = (),
        lowest: ArrayLike = 0.2,
    ) -> None:
        self.capacity_j = np.asarray(capacity_j, dtype=float)
        charge = np.broadcast_to(np.asarray(charge_j, dtype=float), self.capacity_j.shape)
        if (self.capacity_j <= 0).any():
            raise ValueError(f"capacity_j: found {self.capacity_j.min():g}, accepted: > 0")
        wrong = (charge < 0) | (charge > self.capacity_j)
        if wrong.any():
            raise ValueError(
                f"charge_j: found {charge[wrong][0]:g}, accepted: 0 to"
                f" {self.capacity_j[wrong][0]:g}, the capacity"
            )
        self.charge_j = np.where(np.isinf(self.capacity_j), np.inf, charge)
        self.time_s = np.zeros(self.capacity_j.shape)
        self.off = self.charge_j == 0
        self.supplies = tuple(supplies)
        periods_s = {one.series.period_s for one in supplies}
        self._period_s = periods_s.pop() if len(periods_s) == 1 else None
        self.lowest = np.broadcast_to(np.asarray(lowest, dtype=float), self.capacity_j.shape)

    def advance(self, clients: IntArray, until_s: ArrayLike, load_w: ArrayLike) -> Flow:
        """Let clients (each once) draw `load_w` from their own time to `until_s`; the flows.

        Raises ValueError if that is in a client's past.
        """
        end_s = np.broadcast_to(np.asarray(until_s, dtype=float), clients.shape)
        load = np.broadcast_to(np.asarray(load_w, dtype=float), clients.shape)
        if (end_s < self.time_s[clients]).any():
            raise ValueError("a battery is advanced into its past")
        charge_j, off, flow = self._walk(clients, end_s, load)
        self.charge_j[clients], self.off[clients], self.time_s[clients] = charge_j, off, end_s
        return flow

    def switch_off(self, clients: IntArray) -> None:
        """Treat these batteries as empty, apart from rounding errors."""
        self.charge_j[clients], self.off[clients] = 0.0, True

    def foresee(self, clients: IntArray, until_s: ArrayLike, load_w: ArrayLike) -> Flow:
        """The result of `advance` without the change: does the battery last for a round?"""
        end_s = np.broadcast_to(np.asarray(until_s, dtype=float), clients.shape)
        load = np.broadcast_to(np.asarray(load_w, dtype=float), clients.shape)
        return self._walk(clients, end_s, load)[2]

    def level(self, clients: IntArray) -> FloatArray:
        """Charge divided by capacity at each client's own time; NaN for mains power."""
        with np.errstate(invalid="ignore"):
            shares: FloatArray = self.charge_j[clients] / self.capacity_j[clients]
        return shares

    def supply_w(
        self, clients: IntArray, time_s: ArrayLike, *, chargers_only: bool = False
    ) -> FloatArray:
        """The supplied watts at a time."""
        at_s = np.broadcast_to(np.asarray(time_s, dtype=float), clients.shape)
        chosen = (one for one in self.supplies if one.charger or not chargers_only)
        return sum((supply.power_w(clients, at_s) for supply in chosen), np.zeros(clients.shape))

    def plugged_in(self, clients: IntArray, time_s: FloatArray) -> BoolArray:
        """Whether a charger gives each client power at a time."""
        plugged: BoolArray = self.supply_w(clients, time_s, chargers_only=True) > 0
        return plugged

    def can_take_part(self, clients: IntArray) -> BoolArray:
        """Whether each, at its own time, is on and either charged enough or plugged in."""
        plugged = self.plugged_in(clients, self.time_s[clients])
        enough = self._charged(clients, self.charge_j[clients])
        able: BoolArray = ~self.off[clients] & (plugged | enough)
        return able

    def ready_s(self, clients: IntArray, load_w: FloatArray) -> FloatArray:
        """When each can take part, drawing `load_w` while it is on; inf: not within a year."""
        at_s, charge_j = self.time_s[clients], self.charge_j[clients]
        off, until_s = self.off[clients], np.full(clients.size, np.inf)
        peak_w = sum(
            (one.scale[clients] * one.series.values.max() for one in self.supplies),
            np.zeros(clients.size),
        )
        last_s = at_s + _FORESEEN_S
        open_ = np.flatnonzero((peak_w > 0) | self._charged(clients, charge_j))
        while open_.size:
            who = clients[open_]
            if self._period_s is not None:
                # All that comes in charges an empty battery, the same in each period.
                gap_j = self.lowest[who] * self.capacity_j[who] - charge_j[open_]
                a_period_j = self._in_a_period_j(who)
                periods = np.divide(gap_j, a_period_j, out=np.zeros_like(gap_j), where=off[open_])
                skipped = np.maximum(np.floor(periods) - 1.0, 0.0)
                at_s[open_] += skipped * self._period_s
                charge_j[open_] += skipped * a_period_j
            now_s, before = at_s[open_], charge_j[open_]
            in_w, stop_s = self.supply_w(who, now_s), self.next_change_s(who, now_s)
            gain_w = in_w - np.where(off[open_], 0.0, load_w[open_])
            lasts_s = np.full(open_.size, np.inf)
            with np.errstate(over="ignore"):  # hardly any load: inf is as good
                np.divide(before, -gain_w, out=lasts_s, where=gain_w < 0)
            dries = now_s + lasts_s < stop_s
            stop_s = np.where(dries, now_s + lasts_s, stop_s)
            missing_j = np.maximum(self.lowest[who] * self.capacity_j[who] - before, 0.0)
            wait_s = np.full(open_.size, np.inf)
            with np.errstate(over="ignore"):
                np.divide(missing_j, gain_w, out=wait_s, where=gain_w > 0)
            plugged = ~off[open_] & self.plugged_in(who, now_s)
            wait_s[self._charged(who, before) | plugged] = 0.0
            ready = now_s + wait_s <= np.minimum(stop_s, last_s[open_])
            until_s[open_[ready]] = (now_s + wait_s)[ready]
            goes_on = ~ready & (stop_s < last_s[open_])
            gained_j = gain_w[goes_on] * (stop_s - now_s)[goes_on]
            after = np.where(dries[goes_on], 0.0, before[goes_on] + gained_j)
            open_ = open_[goes_on]
            charge_j[open_] = np.clip(after, 0.0, self.capacity_j[clients[open_]])
            off[open_] |= (after < 0) | dries[goes_on]
            at_s[open_] = stop_s[goes_on]
        return until_s

    def _in_a_period_j(self, clients: IntArray) -> FloatArray:
        """The joules that come in during each period of the supplies."""
        each = (
            one.scale[clients] * one.series.integral(0.0, one.series.period_s or 0.0)
            for one in self.supplies
        )
        return sum(each, np.zeros(clients.size))

    def _charged(self, clients: IntArray, charge_j: FloatArray) -> BoolArray:
        """Whether a charge is enough to take part."""
        enough: BoolArray = (
            charge_j >= (self.lowest[clients] - _ROUNDING) * self.capacity_j[clients]
        )
        return enough

    def next_change_s(self, clients: IntArray, time_s: FloatArray) -> FloatArray:
        """When one of the supplies changes next after a time; inf: never."""
        stop_s = np.full(clients.size, np.inf)
        for supply in self.supplies:
            stop_s = np.minimum(stop_s, supply.next_change_s(clients, time_s))
        return stop_s

    def _walk(
        self, clients: IntArray, end_s: FloatArray, load_w: FloatArray
    ) -> tuple[FloatArray, BoolArray, Flow]:
        """Charges at the end, which clients are then off, and the flows.

        A step ends when a supply changes, and when a client goes off or on.
        """
        at_s, charge_j, off = self.time_s[clients], self.charge_j[clients], self.off[clients]
        supplied, spilled, unmet = np.zeros((3, clients.size))
        empty_s = np.where(off & (at_s < end_s), at_s, np.inf)
        under_way = np.flatnonzero((at_s < end_s) & np.isfinite(charge_j))
        while under_way.size:
            who, now_s, was_off = clients[under_way], at_s[under_way], off[under_way]
            until_s = np.minimum(end_s[under_way], self.next_change_s(who, now_s))
            in_w, out_w = self.supply_w(who, now_s), load_w[under_way]
            before, gain_w = charge_j[under_way], in_w - np.where(was_off, 0.0, out_w)
            goal_j = np.where(was_off, self.lowest[who] * self.capacity_j[who], 0.0)
            after, stop_s = before + gain_w * (until_s - now_s), until_s
            kept = np.clip(after, 0.0, self.capacity_j[who])
            is_off = was_off & ~self._charged(who, kept)
            switches = np.where(was_off, after > goal_j, after < goal_j)
            if switches.any():
                wait_s = np.divide(goal_j - before, gain_w, out=until_s - now_s, where=switches)
                stop_s = np.where(switches, np.minimum(now_s + wait_s, until_s), until_s)
                after, kept = np.where(switches, goal_j, (after, kept))
                is_off = np.where(switches, ~was_off, is_off)
            lasts_s = stop_s - now_s
            supplied[under_way] += in_w * lasts_s
            spilled[under_way] += np.maximum(after - kept, 0.0)
            unmet[under_way] += np.where(was_off, out_w, 0.0) * lasts_s
            charge_j[under_way], at_s[under_way], off[under_way] = kept, stop_s, is_off
            empty = np.flatnonzero(is_off & ~was_off)
            if empty.size:
                whom, in_w, out_w = under_way[empty], in_w[empty], out_w[empty]
                empty_s[whom] = np.minimum(empty_s[whom], stop_s[empty])
                again_s = self._cycles_s(clients[whom], in_w, out_w, (until_s - stop_s)[empty])
                supplied[whom] += in_w * again_s
                unmet[whom] += (out_w - in_w) * again_s
                at_s[whom] += again_s
            under_way = under_way[at_s[under_way] < end_s[under_way]]
        total_j = load_w * (end_s - self.time_s[clients])
        return charge_j, off, Flow(supplied - spilled, total_j - unmet, spilled, unmet, empty_s)

    def _cycles_s(
        self, clients: IntArray, in_w: FloatArray, out_w: FloatArray, within_s: FloatArray
    ) -> FloatArray:
        """The seconds of all complete off-on cycles of empty batteries within a time.

        In a cycle, the client is off until `lowest`, and then drained by a load above the supply. A
        cycle does not change the charge: the supply is drawn, and the rest of the load is unmet.
        """
        found_s = np.zeros(clients.size)
        some = in_w > 0
        lowest_j = self.lowest[clients[some]] * self.capacity_j[clients[some]]
        cycle_s = lowest_j / in_w[some] + lowest_j / (out_w - in_w)[some]
        found_s[some] = within_s[some] - np.fmod(within_s[some], cycle_s)
        return found_s
