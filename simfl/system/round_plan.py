"""The plan of one client round, stage by stage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from simfl.common.arrays import BoolArray, FloatArray
from simfl.system.messages import Transmission
from simfl.system.segments import COMPUTE, DOWNLOAD, UPLOAD, Segments


@dataclass(frozen=True, eq=False)
class RoundPlan:
    """One round of each asked client; columns in the order of the clients asked.

    `segments` are those of download, computation and upload, as far as a round gets by itself:
    after a download that fails nothing happens. Joules are the client's own beyond its idle power;
    `cycles` are those executed, noise and device spread included, `dynamic_j` and `static_j` what
    they take. `radio_idle_s` says how long before the round's end its last message ended: the next
    round, `wait_s` later, is planned with `radio_idle_s + wait_s`.
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
        """The same, but that the rounds of a mask end with their downloads."""
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
        """Joules while the client computes, its radio's tail included."""
        return self.dynamic_j + self.static_j + self.compute_tail_j

    @property
    def active_j(self) -> FloatArray:
        """Joules of the round, as far as it gets."""
        table = self.segments
        return table.total_j(DOWNLOAD) + table.total_j(COMPUTE) + table.total_j(UPLOAD)
