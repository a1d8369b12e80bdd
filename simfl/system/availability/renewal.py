"""Clients that come and go at random: an alternating renewal process per client.

Presences and absences have separate distributions (exponential ones make a Markov chain, with
availability A = m1 / (m0 + m1) and autocovariance A (1 - A) exp(-t (1 / m0 + 1 / m1))). Real phones
are far from exponential: Weibull shapes of 0.5 and 0.39, and availabilities that vary between
phones like Beta(0.5, 4.75) (710 phones of FLHetBench, CVPR 2024; `scale` and quantiles in
docs/hardware.md). Crash and repair is the same process: presence until failure, absence until
repair.

The process is stationary from time 0: a client is present with probability A, and its first sojourn
is drawn from the residual distribution. Each sojourn is addressed by client and number, so that a
client's course is determined by the seed alone. Sojourns are computed as far as queried: a client
takes memory once it is queried, and time for the sojourns since its last query. A query about a
much earlier time restarts that client's course.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.streams import Streams
from simfl.system.availability.base import Availability
from simfl.system.availability.diurnal import Diurnal
from simfl.system.availability.sojourn import Sojourn
from simfl.system.availability.sojourn_cache import SojournCache

PHONES_PRESENT = Sojourn(1931.0, "weibull", 0.5)
PHONES_ABSENT = Sojourn(11758.0, "weibull", 0.39)


@dataclass(frozen=True)
class Renewal(Availability):
    """Alternately present and absent, with durations drawn from two distributions.

    The defaults are the pooled sojourns of phones that are idle, on Wi-Fi and charging.
    """

    present: Annotated[Sojourn, "distribution of the time that a client stays"] = PHONES_PRESENT
    absent: Annotated[Sojourn, "distribution of the time that a client is away"] = PHONES_ABSENT
    share_beta: Annotated[
        tuple[float, float] | None,
        ">= 0.05",
        "<= 1e6",
        "a and b of the Beta distribution of each client's availability; replaces absent.mean_s,"
        " as absences then have the length that this needs",
    ] = None
    diurnal: Annotated[Diurnal | None, "daily variation of clients' returns; null: none"] = None

    _sojourns: dict[int, SojournCache] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def begun(self, start_s: float, members: IntArray | None) -> Renewal:
        """With the run's clock."""
        if self.diurnal is None:
            return self
        peak_s = self.diurnal.peak_s - start_s
        return replace(self, diurnal=replace(self.diurnal, peak_s=peak_s))

    def available(self, clients: IntArray, time_s: float, streams: Streams) -> BoolArray:
        """Whether the sojourn at `time_s` is a presence."""
        return self._at(streams).at(clients, time_s)[0]

    def next_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """The end of the absence at `time_s`."""
        present, end_s = self._at(streams).at(clients, time_s)
        return np.where(present, time_s, end_s)

    def until_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """The end of the presence at `time_s`."""
        present, end_s = self._at(streams).at(clients, time_s)
        return np.where(present, end_s, time_s)

    def _at(self, streams: Streams) -> SojournCache:
        if streams.seed_value not in self._sojourns:
            self._sojourns[streams.seed_value] = SojournCache(
                streams, self.present, self.absent, self.share_beta, self.diurnal
            )
        return self._sojourns[streams.seed_value]
