"""Computes segments ahead of time, for many clients at once, as long as nothing can slow them.

With dedicated links that is a whole client round; over shared channels it is the time between two
flows of bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.system.charge import Charge
from simfl.system.interruptions import EMPTY, UNAVAILABLE, Interruption, Interruptions
from simfl.system.segments import DOWNLOAD, Kind, Segments


@dataclass(frozen=True, eq=False)
class Limits:
    """Events that may end or delay clients' activities.

    `stops_s` (clients,): times of an absence or a crash that stops each (inf: never); `causes`
    (clients,) is which, as an index into `CAUSES`. `interruptions`: pauses that delay them (None:
    none). `charge`: their batteries (None: mains power); an empty one stops its client, unless
    `goes_on_empty`. `heard_s`: when the server that they exchange messages with fails (inf: never).
    """

    stops_s: FloatArray
    causes: IntArray
    interruptions: Interruptions | None = None
    charge: Charge | None = None
    heard_s: float = np.inf
    goes_on_empty: bool = False

    @classmethod
    def none(cls, clients: int, charge: Charge | None = None) -> Limits:
        """No limits: an empty battery gives no energy, but stops nothing."""
        never = np.full(clients, np.inf), np.zeros(clients, dtype=np.int64)
        return cls(*never, charge=charge, goes_on_empty=True)

    def of(self, place: int) -> Limits:
        """The limits of the client at one place."""
        return replace(self, stops_s=self.stops_s[[place]], causes=self.causes[[place]])


@dataclass(frozen=True, eq=False)
class Walked:
    """The outcome of a table of segments.

    `segments` has pauses as separate rows. `begins_s`, `ends_s` (segments, clients): times without
    any stop; `stops_s` (clients,): when each client was stopped (inf: not stopped), by `causes`.
    `present_until_s` (clients,): next absence. `unmet_j` (segments, clients): the part of
    `segments.joules` that empty batteries did not give; None: nothing was missing.
    """

    segments: Segments
    begins_s: FloatArray
    ends_s: FloatArray
    stops_s: FloatArray
    causes: IntArray
    present_until_s: FloatArray
    pauses: Sequence[Interruption]
    unmet_j: FloatArray | None = None

    @cached_property
    def share(self) -> FloatArray | None:
        """The completed share of each segment, in [0, 1]; None: all are complete."""
        return self.share_by(self.stops_s)

    def share_by(self, time_s: FloatArray | float) -> FloatArray | None:
        """The share of each completed by a time (one, or one per client); None: all complete."""
        if (self.ends_s[-1] <= time_s).all():
            return None
        lasts_s = self.ends_s - self.begins_s
        done = np.divide(
            np.minimum(self.ends_s, time_s) - self.begins_s,
            lasts_s,
            out=(self.begins_s < time_s).astype(float),
            where=lasts_s > 0,
        )
        return np.where(self.ends_s <= time_s, 1.0, np.maximum(done, 0.0))

    @property
    def stopped_s(self) -> FloatArray:
        """When each client's last segment ended, or it was stopped, shape (clients,)."""
        ended_s: FloatArray = np.minimum(self.ends_s[-1], self.stops_s)
        return ended_s

    @property
    def stops(self) -> list[tuple[int, int]]:
        """The places of stopped clients, and their stages."""
        open_ = self.segments.happens & (self.ends_s > self.stops_s)
        places = np.flatnonzero(np.isfinite(self.stops_s))
        stages = self.segments.stage[open_[:, places].argmax(axis=0)]
        return list(zip(places.tolist(), stages.tolist(), strict=True))


def walk(segments: Segments, clients: IntArray, begin_s: FloatArray, limits: Limits) -> Walked:
    """Computes a table of segments; each client's column begins at its `begin_s`.

    Takes the joules from the batteries of `limits.charge`. If `limits.interruptions` pauses
    clients, all must begin at the same time.
    """
    # Summed one after another, as a process that waits for each would do.
    times_s = np.cumsum(np.concatenate([begin_s[None], segments.seconds]), axis=0)
    present_until_s: FloatArray = np.full(clients.size, np.inf)
    stops_s, causes, pauses = limits.stops_s, limits.causes, list[Interruption]()
    plain = segments
    while True:
        if limits.interruptions is not None:
            paused = limits.interruptions.with_pauses(clients, plain, times_s)
            segments, times_s = paused.segments, paused.times_s
            present_until_s, pauses = (
                np.minimum(paused.present_until_s, limits.stops_s),
                list(paused.pauses),
            )
            leaves = paused.leaves_s < limits.stops_s
            stops_s = np.where(leaves, paused.leaves_s, limits.stops_s)
            causes = np.where(leaves, UNAVAILABLE, limits.causes)
        unheard = _unheard(segments, times_s, limits.heard_s)
        if not unheard.any():
            break
        # If a download was not sent completely, nothing follows it, nor is there any pause in that.
        plain = plain.without(plain.stage > DOWNLOAD, unheard)
        times_s = np.cumsum(np.concatenate([begin_s[None], plain.seconds]), axis=0)
        segments = plain
        limits = replace(limits, heard_s=np.inf)
    unmet_j = None
    if limits.charge is not None:
        if limits.goes_on_empty:
            unmet_j = limits.charge.spend(clients, times_s, segments.joules)
        else:
            empty_s = limits.charge.discharge(clients, times_s, segments.joules, stops_s)
            causes = np.where(empty_s < stops_s, EMPTY, causes)
            stops_s = np.minimum(stops_s, empty_s)
    begins_s, ends_s = times_s[:-1], times_s[1:]
    stopped = ends_s[-1] > stops_s
    stops_s = np.where(stopped, stops_s, np.inf)
    if stopped.any():
        until_s = dict(zip(clients.tolist(), stops_s.tolist(), strict=True))
        pauses = [one for one in pauses if one.time_s < until_s[one.client]]
    return Walked(segments, begins_s, ends_s, stops_s, causes, present_until_s, pauses, unmet_j)


def _unheard(segments: Segments, times_s: FloatArray, heard_s: float) -> BoolArray:
    """Clients with more to do after a download that ends after their server failed."""
    none = np.zeros(times_s.shape[1], dtype=bool)
    span = segments.span(DOWNLOAD)
    if heard_s == np.inf or span.stop == span.start or span.stop == len(segments):
        return none
    sent = (segments.happens[span] & (segments.kind[span] == Kind.FLOW)[:, None]).any(axis=0)
    follows = segments.happens[span.stop :].any(axis=0)
    late: BoolArray = sent & follows & (times_s[span.stop] > heard_s)
    return late
