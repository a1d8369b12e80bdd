"""What a turn costs, stage by stage, as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.system.cost import ComputeCost, FloatArray, IntArray, WireTransfer


@dataclass(frozen=True, eq=False)
class TurnPlan:
    """What one turn of each asked client costs; columns in the order of the clients asked.

    Bytes are those of one message on the wire. Joules are the client's own beyond its idle power,
    but for the `..._network_j`. `cycles` are those executed, noise and device spread included.

    Seconds and joules of a message are those of all its attempts; `..._attempts` counts them, and
    bytes sent are `..._bytes` (where the message arrived) plus `..._lost_bytes`. Where
    `download_failed`, the client has nothing to train: its turn ends with the download and the
    later columns hold what would have followed; where `upload_failed`, nothing arrives.

    Of the radio's own states, promotions are within `download_j` and `upload_j`. Its tails take
    `idle_tail_j` in the wait before the turn and `compute_tail_j` during the computation, neither
    within any other column. `radio_idle_s` says how long before the turn's end its last message
    ended: what the next turn, `wait_s` later, is planned with is `radio_idle_s + wait_s`.
    """

    frequency_hz: FloatArray
    down_bytes: IntArray
    download_s: FloatArray
    download_j: FloatArray
    download_network_j: FloatArray
    cycles: FloatArray
    compute_s: FloatArray
    dynamic_j: FloatArray
    static_j: FloatArray
    up_bytes: IntArray
    upload_s: FloatArray
    upload_j: FloatArray
    upload_network_j: FloatArray
    download_attempts: IntArray
    down_lost_bytes: IntArray
    download_failed: NDArray[np.bool_]
    download_promotion_j: FloatArray
    upload_attempts: IntArray
    up_lost_bytes: IntArray
    upload_failed: NDArray[np.bool_]
    upload_promotion_j: FloatArray
    idle_tail_j: FloatArray
    compute_tail_j: FloatArray
    radio_idle_s: FloatArray

    @property
    def active_j(self) -> FloatArray:
        """Joules beyond idle power of a turn without failure, from download to upload."""
        return self.download_j + self.compute_j + self.upload_j

    @property
    def compute_j(self) -> FloatArray:
        """Joules beyond idle power while the client computes."""
        return self.dynamic_j + self.static_j + self.compute_tail_j

    @classmethod
    def of(
        cls,
        frequency_hz: FloatArray,
        download: WireTransfer,
        cycles: FloatArray,
        compute: ComputeCost,
        upload: WireTransfer,
        *,
        idle_tail_j: FloatArray,
        compute_tail_j: FloatArray,
        radio_idle_s: FloatArray,
    ) -> TurnPlan:
        """The plan whose stages cost this."""
        return cls(
            frequency_hz=frequency_hz,
            down_bytes=download.wire_bytes,
            download_s=download.duration_s,
            download_j=download.active_j,
            download_network_j=download.network_j,
            cycles=cycles,
            compute_s=compute.duration_s,
            dynamic_j=compute.dynamic_j,
            static_j=compute.static_j,
            up_bytes=upload.wire_bytes,
            upload_s=upload.duration_s,
            upload_j=upload.active_j,
            upload_network_j=upload.network_j,
            download_attempts=download.attempts,
            down_lost_bytes=download.lost_bytes,
            download_failed=download.failed,
            download_promotion_j=download.promotion_j,
            upload_attempts=upload.attempts,
            up_lost_bytes=upload.lost_bytes,
            upload_failed=upload.failed,
            upload_promotion_j=upload.promotion_j,
            idle_tail_j=idle_tail_j,
            compute_tail_j=compute_tail_j,
            radio_idle_s=radio_idle_s,
        )
