"""Sharing with a backhaul behind access points: two sharing rules in sequence.

The traffic that an access point's medium carries reaches the backhaul, which may carry less.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.system.grouping import by_value
from simfl.system.sharing.base import Flows, Sharing
from simfl.system.sharing.max_min import BACKHAUL, MaxMin
from simfl.system.sharing.medium import rates_and_duty


@dataclass(frozen=True)
class AcrossBackhaul(Sharing):
    """The sharing rule of the access points, followed by that of the backhaul behind all of them.

    A sender's rate is limited by both rules and by its own part of the backhaul. A radio is on air
    for the time that its bits take at its own rate. `Flows.channel` separates access points, media
    and directions; to the engine they are a single medium.
    """

    half_duplex: ClassVar[bool] = True
    spans_points: ClassVar[bool] = True

    access: Sharing
    backhaul: Sharing

    def rates_bps(self, flows: Flows) -> FloatArray:
        """The rates under both rules."""
        return self._shared(flows)[0]

    def duty(self, flows: Flows, rates_bps: FloatArray) -> FloatArray:
        """The share of time on air under both rules."""
        return self._shared(flows)[1]

    def _shared(self, flows: Flows) -> tuple[FloatArray, FloatArray]:
        rates, duty = self._through_access_points(flows)
        if not self.backhaul.contended:
            return rates, duty
        # A sender that waits for its access point uses no part of the backhaul.
        sending = np.flatnonzero(rates > 0)
        uplink = flows.channel[sending] % 2
        for _, rows in by_value(np.zeros_like(uplink) if self.backhaul.half_duplex else uplink):
            there = sending[rows]
            coming = Flows(
                rate_bps=rates[there],
                weight=np.ones(there.size),
                snr=np.full(there.size, np.inf),
                spectral_efficiency_max=np.ones(there.size),
                behind_bps=np.full(there.size, np.inf),
                channel=flows.channel[there],
                route=np.full((there.size, 1), BACKHAUL),
            )
            through, share = rates_and_duty(self.backhaul, coming)
            rates[there] = np.minimum(through, coming.rate_bps)
            duty[there] *= share
        return rates, duty

    def _through_access_points(self, flows: Flows) -> tuple[FloatArray, FloatArray]:
        own_bps = np.minimum(flows.rate_bps, flows.behind_bps)
        # If the rule divides air time, a bit occupies it at the radio's own rate.
        seen = flows if _divides_air(self.access) else replace(flows, rate_bps=own_bps)
        place, uplink = np.divmod(flows.channel, 2)
        if self.access.spans_points or not self.access.contended:
            place = np.zeros_like(place)
        if self.access.half_duplex:
            uplink = np.zeros_like(uplink)
        rates, duty = np.empty((2, len(flows)))
        for _, rows in by_value(2 * place + uplink):
            rates[rows], duty[rows] = rates_and_duty(self.access, seen.take(rows))
        through = np.minimum(rates, flows.behind_bps)
        # The radio sends at its own rate, and waits for the backhaul in between.
        passed = np.divide(through, rates, out=np.zeros_like(rates), where=rates > 0)
        return through, duty * passed * (seen.rate_bps / flows.rate_bps)


def check_rules(access: Sharing, backhaul: Sharing) -> None:
    """Raises ValueError for incompatible rules."""
    if not backhaul.contended:
        return
    if _divides_air(backhaul):
        raise ValueError(
            "backhaul_sharing: found a rule that divides a radio's air, but with server_behind:"
            " backhaul it divides what comes through the access points; accepted: dedicated, fifo,"
            " max_min, processor_sharing"
        )
    if isinstance(access, MaxMin):
        raise ValueError(
            "backhaul_sharing: found a second rule for the backhaul: that of access_sharing,"
            " max_min, divides its backhaul_bps; accepted: dedicated"
        )


def _divides_air(rule: Sharing) -> bool:
    return rule.half_duplex or rule.cuts_band
