"""The plan of one client round, stage by stage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from simfl.common.arrays import BoolArray, FloatArray
from simfl.system.messages import Transmission
from simfl.system.segments import COMPUTE, DOWNLOAD, UPLOAD, Segments


@dataclass(frozen=True, eq=False)
class RoundPlan:
    """One round of each client; columns are in the order of the clients.

    `segments` are those of download, computation and upload, without outside influences: a round
    with a failed download ends there. Joules are the client's own beyond its idle power; `cycles`
    are those executed, including noise and device spread, `dynamic_j` and `static_j` their joules.
    `radio_idle_s` is the time between its last message's end and the round's end: the next round,
    `wait_s` later, is planned with `radio_idle_s + wait_s`.
    """

    segments: Segments
    download: Transmission
    upload: Transmission
    frequency_hz: FloatArray
    cycles: FloatArray
    compute_s: FloatArray
    dynamic_j: FloatArray
    static_j: FloatArray
    compute_tail_j: FloatArray
    radio_idle_s: FloatArray

    def without_training(self, whom: BoolArray) -> RoundPlan:
        """The same, where the rounds in a mask end with their downloads."""
        after = self.segments.stage > DOWNLOAD
        return replace(self, segments=self.segments.without(after, whom))

    @cached_property
    def download_s(self) -> FloatArray:
        """Seconds of all attempts of the download."""
        return self.download.duration_s

    @cached_property
    def upload_s(self) -> FloatArray:
        """Seconds of all attempts of the upload, whether or not the download arrives."""
        return self.upload.duration_s

    @property
    def compute_j(self) -> FloatArray:
        """Joules while the client computes, including its radio's tail."""
        return self.dynamic_j + self.static_j + self.compute_tail_j

    @property
    def active_j(self) -> FloatArray:
        """Joules of the round, as far as it gets."""
        table = self.segments
        return table.total_j(DOWNLOAD) + table.total_j(COMPUTE) + table.total_j(UPLOAD)
