"""Batteries: what flows in, what is drawn, what is lost, and when one runs empty.

While load and supply are constant the charge changes linearly, E(t) = clip(E + (P_in - P_load) t,
0, capacity), so that a walk over the supply's steps is exact. What the battery cannot hold is
spilled, what it cannot give is unmet, and over any interval

    change of charge = charged - drawn,  charged = supply - spilled,  drawn = load - unmet.

A system model for protocols to use; the turns of today's protocols are not cut short by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simfl.system.cost import FloatArray, IntArray
from simfl.system.series import StepSeries


@dataclass(frozen=True, eq=False)
class Supply:
    """Power that comes in: client i gets scale[i] * series(t + shift_s[i]) watts at time t."""

    series: StepSeries
    scale: FloatArray
    shift_s: FloatArray

    def power_w(self, clients: IntArray, time_s: FloatArray) -> FloatArray:
        """What comes in at each client's time."""
        return self.scale[clients] * self.series.at(time_s + self.shift_s[clients])

    def next_change_s(self, clients: IntArray, time_s: FloatArray) -> FloatArray:
        """When that changes next."""
        shift_s = self.shift_s[clients]
        later_s = self.series.next_change_s(time_s + shift_s) - shift_s
        return np.maximum(later_s, np.nextafter(time_s, np.inf))


@dataclass(frozen=True, eq=False)
class Flow:
    """Joules of each client over an interval, and when its battery first ran empty (inf: never).

    A battery that is empty at the start runs empty when it cannot meet its load.
    """

    charged_j: FloatArray
    drawn_j: FloatArray
    spilled_j: FloatArray
    unmet_j: FloatArray
    empty_s: FloatArray


class Batteries:
    """The charge of every client's battery, each known at a time of its own.

    Columns over clients: `capacity_j`, inf for mains power; `charge_j` at `time_s`. A client costs
    work when it is asked about, for the steps of its supplies since it last was.
    """

    def __init__(
        self, capacity_j: ArrayLike, charge_j: ArrayLike, supplies: Sequence[Supply] = ()
    ) -> None:
        self.capacity_j = np.asarray(capacity_j, dtype=float)
        charge = np.broadcast_to(np.asarray(charge_j, dtype=float), self.capacity_j.shape)
        if (self.capacity_j <= 0).any() or (charge < 0).any() or (charge > self.capacity_j).any():
            raise ValueError("charge_j: must lie between 0 and capacity_j, which is above 0")
        self.charge_j = np.where(np.isinf(self.capacity_j), np.inf, charge)
        self.time_s = np.zeros(self.capacity_j.shape)
        self._supplies = tuple(supplies)

    def advance(self, clients: IntArray, until_s: ArrayLike, load_w: ArrayLike) -> Flow:
        """Let clients (each once) draw `load_w` from their own time to `until_s`; what flowed.

        Raises ValueError where that lies in a client's past.
        """
        end_s = np.broadcast_to(np.asarray(until_s, dtype=float), clients.shape)
        load = np.broadcast_to(np.asarray(load_w, dtype=float), clients.shape)
        if (end_s < self.time_s[clients]).any():
            raise ValueError("a battery is advanced into its past")
        charge_j, flow = self._walk(clients, end_s, load)
        self.charge_j[clients], self.time_s[clients] = charge_j, end_s
        return flow

    def foresee(self, clients: IntArray, until_s: ArrayLike, load_w: ArrayLike) -> Flow:
        """What `advance` would say, without doing it: does the battery last for this turn?"""
        end_s = np.broadcast_to(np.asarray(until_s, dtype=float), clients.shape)
        load = np.broadcast_to(np.asarray(load_w, dtype=float), clients.shape)
        return self._walk(clients, end_s, load)[1]

    def level(self, clients: IntArray) -> FloatArray:
        """Charge over capacity at each client's own time; NaN for mains power."""
        with np.errstate(invalid="ignore"):
            shares: FloatArray = self.charge_j[clients] / self.capacity_j[clients]
        return shares

    def supply_w(self, clients: IntArray, time_s: ArrayLike) -> FloatArray:
        """What comes in at a time."""
        at_s = np.broadcast_to(np.asarray(time_s, dtype=float), clients.shape)
        return sum(
            (supply.power_w(clients, at_s) for supply in self._supplies), np.zeros(clients.shape)
        )

    def can_take_part(self, clients: IntArray, lowest: float) -> NDArray[np.bool_]:
        """Whether each is charged to `lowest` or more, is being charged, or has mains power."""
        charging = self.supply_w(clients, self.time_s[clients]) > 0
        level = self.level(clients)
        return charging | np.isnan(level) | (level >= lowest)

    def _walk(
        self, clients: IntArray, end_s: FloatArray, load_w: FloatArray
    ) -> tuple[FloatArray, Flow]:
        """Charges at the end, and the flows on the way, from one step of a supply to the next."""
        at_s, charge_j = self.time_s[clients], self.charge_j[clients]
        supplied, spilled, unmet = np.zeros((3, clients.size))
        empty_s = np.full(clients.size, np.inf)
        under_way = np.flatnonzero(at_s < end_s)
        while under_way.size:
            who, now_s = clients[under_way], at_s[under_way]
            stop_s = end_s[under_way]
            for supply in self._supplies:
                stop_s = np.minimum(stop_s, supply.next_change_s(who, now_s))
            lasts_s = stop_s - now_s
            in_w, out_w = self.supply_w(who, now_s), load_w[under_way]
            before = charge_j[under_way]
            after = before + (in_w - out_w) * lasts_s
            runs_dry = (after < 0) & np.isinf(empty_s[under_way])
            drain_w = np.where(runs_dry, out_w - in_w, 1.0)
            dry_s = now_s + before / drain_w
            empty_s[under_way] = np.where(runs_dry, dry_s, empty_s[under_way])
            kept = np.clip(after, 0.0, self.capacity_j[who])
            mains = np.isinf(before)
            supplied[under_way] += np.where(mains, 0.0, in_w * lasts_s)
            with np.errstate(invalid="ignore"):
                spilled[under_way] += np.where(mains, 0.0, np.maximum(after - kept, 0.0))
                unmet[under_way] += np.where(mains, 0.0, np.maximum(kept - after, 0.0))
            charge_j[under_way], at_s[under_way] = kept, stop_s
            under_way = under_way[stop_s < end_s[under_way]]
        total_j = load_w * (end_s - self.time_s[clients])
        return charge_j, Flow(supplied - spilled, total_j - unmet, spilled, unmet, empty_s)
