"""Senders and their current transfers, and the interface of every sharing rule."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Sender:
    """A sender (or receiver), with its rate on an unshared medium.

    `client` orders simultaneous beginnings. `power_w` is the radio's power beyond idle while it
    sends at that rate, `slope_w` the part of it that is proportional to the rate. `weight` is used
    by rules with weights. `snr` (not in decibels) is that over the whole band, and determines the
    rate in a part of it: since the power is fixed, a tenth of the band carries more than a tenth of
    the rate; with inf, the rate is proportional to the share. `route` has the numbers of the shared
    links that the transfer crosses. `behind_bps` is the rate of the link behind the medium (inf:
    there is none), `channel` numbers medium and direction if several of them share a link behind
    them, odd for uplinks.
    """

    client: int
    rate_bps: float
    power_w: float = 0.0
    weight: float = 1.0
    snr: float = math.inf
    spectral_efficiency_max: float = 7.4
    route: tuple[int, ...] = (0,)
    behind_bps: float = math.inf
    channel: int = 0
    slope_w: float = 0.0

    def __post_init__(self) -> None:
        for key in ("rate_bps", "weight", "snr", "spectral_efficiency_max", "behind_bps"):
            if not getattr(self, key) > 0:
                raise ValueError(f"{key}: found {getattr(self, key):g}, accepted: > 0")
        if math.isinf(self.rate_bps):
            raise ValueError("rate_bps: found inf, accepted: a finite rate")


@dataclass(frozen=True)
class Carried:
    """A completed or current transfer: for `airtime_s` it drew `active_j` beyond idle power."""

    start_s: float
    end_s: float
    bits: float
    airtime_s: float
    active_j: float

    @property
    def duration_s(self) -> float:
        """Seconds between beginning and end, waiting included."""
        return self.end_s - self.start_s


@dataclass(frozen=True, eq=False)
class Flows:
    """The current transfers as columns, in order of arrival: see `Sender`.

    `route` has shape (transfers, hops), padded with -1.
    """

    rate_bps: FloatArray
    weight: FloatArray
    snr: FloatArray
    spectral_efficiency_max: FloatArray
    route: IntArray
    behind_bps: FloatArray
    channel: IntArray

    def __len__(self) -> int:
        return int(self.rate_bps.size)

    @classmethod
    def of(cls, senders: Sequence[Sender]) -> Flows:
        """Columns from senders."""
        hops = max((len(sender.route) for sender in senders), default=0)
        routes = [[*sender.route, *[-1] * (hops - len(sender.route))] for sender in senders]
        figures = [
            (one.rate_bps, one.weight, one.snr, one.spectral_efficiency_max, one.behind_bps)
            for one in senders
        ]
        rate_bps, weight, snr, efficiency_max, behind_bps = (
            np.array(figures, dtype=float).reshape(-1, 5).T
        )
        channel = np.array([one.channel for one in senders], dtype=np.int64)
        route = np.array(routes, dtype=np.int64).reshape(len(senders), hops)
        return cls(rate_bps, weight, snr, efficiency_max, route, behind_bps, channel)

    def take(self, rows: IntArray) -> Flows:
        """Some of the transfers."""
        return Flows(*(getattr(self, field.name)[rows] for field in fields(self)))

    def rate_at(self, share: ArrayLike) -> FloatArray:
        """Bit/s of each transfer in a share of the band, with unchanged power."""
        part = np.asarray(share, dtype=float)
        alone = np.minimum(np.log1p(self.snr) / np.log(2.0), self.spectral_efficiency_max)
        narrow = np.minimum(np.log1p(self.snr / part) / np.log(2.0), self.spectral_efficiency_max)
        rate: FloatArray = part * self.rate_bps * narrow / alone
        return rate


class Sharing(ABC):
    """Base of every sharing rule: a frozen dataclass whose fields are its keys.

    A rule has no memory: rates follow from the current transfers. `contended` states that transfers
    slow one another down, `half_duplex` that both directions share one medium, `spans_points` that
    all access points do, `cuts_band` that each sender gets a part of one band, `takes_turns` that
    senders use the medium one after another, at their full rates. `weighs` states that it uses
    clients' shares of a band.
    """

    contended: ClassVar[bool] = True
    half_duplex: ClassVar[bool] = False
    spans_points: ClassVar[bool] = False
    cuts_band: ClassVar[bool] = False
    takes_turns: ClassVar[bool] = False
    weighs: ClassVar[bool] = True

    @abstractmethod
    def rates_bps(self, flows: Flows) -> FloatArray:
        """The current rate of each transfer, in bit/s; there is at least one transfer."""

    def duty(self, flows: Flows, rates_bps: FloatArray) -> FloatArray:
        """The share of time in which each radio sends; where time is shared, by its rate."""
        return np.minimum(rates_bps / flows.rate_bps, 1.0)
