"""Several links in sequence, shared as by a network: max-min fair.

An allocation is max-min fair if nobody can get more without taking from somebody who has no more
than that (Bertsekas, Gallager, Data Networks, 1992, 6.5.2). Progressive filling finds it: all rates
increase together, until a transfer's own rate or a link stops some of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.system.sharing.base import Flows, Sharing


def max_min_rates(own_bps: FloatArray, route: IntArray, capacity_bps: FloatArray) -> FloatArray:
    """The max-min fair rates of transfers, in bit/s.

    `own_bps` (transfers,) are their own limits, `route` (transfers, hops) the links that they
    cross, -1 for none, `capacity_bps` (links,) the links' capacities. In each pass, every link is
    filled independently of the others. A link is settled if it is the tightest one for all its
    transfers; their rates are then final. Each pass settles at least one link.
    """
    rates = np.array(own_bps, dtype=float)
    left_bps = np.array(capacity_bps, dtype=float)
    flow, hop = np.nonzero(route >= 0)
    link = route[flow, hop]
    while flow.size:
        level = _water_levels(rates[flow], link, left_bps)
        lowest = np.full(len(rates), np.inf)
        np.minimum.at(lowest, flow, level[link])
        reachable = np.full(len(level), np.inf)
        np.minimum.at(reachable, link, lowest[flow])
        settling = level <= reachable
        settled = np.zeros(len(rates), dtype=bool)
        settled[flow[settling[link]]] = True
        rates[settled] = np.minimum(rates[settled], lowest[settled])
        done = settled[flow]
        np.subtract.at(left_bps, link[done], rates[flow[done]])
        left_bps = np.maximum(left_bps, 0.0)
        flow, link = flow[~done], link[~done]
    return rates


def _water_levels(own_bps: FloatArray, link: IntArray, left_bps: FloatArray) -> FloatArray:
    """The level x of each link at which the sum of min(own, x) is the link's remaining capacity.

    inf if all its transfers fit at their own rates. Columns are pairs of transfer and link.
    """
    order = np.lexsort((own_bps, link))
    own, at = own_bps[order], link[order]
    first = np.flatnonzero(np.diff(at, prepend=-1))
    size = np.diff(first, append=len(at))
    total = np.add.reduceat(own, first)
    before = np.cumsum(own) - own
    before -= np.repeat(before[first], size)
    # With the j smallest at their own rates, the others share the rest. The level is the largest of
    # these shares: they increase with j as long as the j-th does not use its share, then decrease.
    above = np.repeat(size, size) - (np.arange(len(at)) - np.repeat(first, size))
    share = np.maximum.reduceat((left_bps[at] - before) / above, first)
    level = np.full(len(left_bps), np.inf)
    level[at[first]] = np.where(total <= left_bps[at[first]], np.inf, share)
    return level


BACKHAUL = 0
"""The link behind all access points, in the routes of `MaxMin`; n + 1 is access point n."""


@dataclass(frozen=True, kw_only=True)
class MaxMin(Sharing):
    """Access points with a common link behind them, max-min fair: others use what slow ones leave.

    As `backhaul_sharing` it concerns that link alone.
    """

    spans_points: ClassVar[bool] = True
    weighs: ClassVar[bool] = False

    access_bps: Annotated[float | None, "> 0", "capacity of each access point; null: unlimited"] = (
        None
    )
    backhaul_bps: Annotated[
        float | None, "> 0", "capacity of the common link behind them; null: unlimited"
    ] = None

    def __post_init__(self) -> None:
        if self.access_bps is None and self.backhaul_bps is None:
            raise ValueError(
                "access_bps: found neither access_bps nor backhaul_bps, so nothing is shared;"
                " accepted: at least one capacity, or the rule dedicated"
            )

    def rates_bps(self, flows: Flows) -> FloatArray:
        """Each sender's own rate, as far as the links on its route allow."""
        of_each, of_all = (
            np.inf if one is None else one for one in (self.access_bps, self.backhaul_bps)
        )
        capacity_bps = np.full(int(flows.route.max(initial=BACKHAUL)) + 1, of_each)
        capacity_bps[BACKHAUL] = of_all
        return max_min_rates(flows.rate_bps, flows.route, capacity_bps)
