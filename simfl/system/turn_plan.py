"""What a turn costs, stage by stage, as columns."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.system.cost import ComputeCost, WireTransfer


@dataclass(frozen=True, eq=False)
class TurnPlan:
    """What one turn of each asked client costs; columns in the order of the clients asked.

    Bytes are those of one message on the wire. Joules are the client's own beyond its idle power,
    but for the `..._network_j`. `cycles` are those executed, noise and device spread included.

    Seconds and joules of a message are those of all its attempts; `..._attempts` counts them, and
    bytes sent are `..._bytes` (where the message arrived) plus `..._lost_bytes`. Where
    `download_failed`, the client has nothing to train: its turn ends with the download and the
    later columns hold what would have followed; where `upload_failed`, nothing arrives.

    Of the radio's own states, promotions are within `download_j` and `upload_j`; its tail takes
    `compute_tail_j` during the computation, within no other column. `radio_idle_s` says how long
    before the turn's end its last message ended: the next turn, `wait_s` later, is planned with
    `radio_idle_s + wait_s`.
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
    download_failed: BoolArray
    download_promotion_j: FloatArray
    upload_attempts: IntArray
    up_lost_bytes: IntArray
    upload_failed: BoolArray
    upload_promotion_j: FloatArray
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

    def one(self, place: int) -> TurnPlan:
        """The plan of one of them."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        return TurnPlan(**{name: column[[place]] for name, column in columns.items()})

    def times_s(self, now_s: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Begin, and download, computation and upload done, of turns that begin now.

        Of a turn whose download failed: what would have followed.
        """
        downloaded_s = now_s + self.download_s
        computed_s = downloaded_s + self.compute_s
        begun_s = np.full_like(downloaded_s, now_s)
        return begun_s, downloaded_s, computed_s, computed_s + self.upload_s

    def unheard_after(self, fails_s: float, now_s: float) -> TurnPlan:
        """The turns where their server fails at `fails_s`: later messages are lost, all of them."""
        _, downloaded_s, _, uploaded_s = self.times_s(now_s)
        down, up = downloaded_s > fails_s, uploaded_s > fails_s
        fresh = down & (self.down_bytes > 0) & ~self.download_failed
        return replace(
            self,
            down_lost_bytes=np.where(
                down, self.download_attempts * self.down_bytes, self.down_lost_bytes
            ),
            download_failed=self.download_failed | fresh,
            up_lost_bytes=np.where(up, self.upload_attempts * self.up_bytes, self.up_lost_bytes),
            upload_failed=self.upload_failed | up,
            # The last message is now the download, sent to its end.
            radio_idle_s=np.where(fresh, 0.0, self.radio_idle_s),
        )

    def cut(self, stage: IntArray, share: FloatArray) -> TurnPlan:
        """The turns where each ends after `share` of a stage, 0, 1, 2 in their order (3: whole).

        Seconds and joules of that stage are pro rata. A message that is cut off is lost, as often
        as it had been sent; of what would have followed nothing happens.
        """
        down, compute, up = (np.where(stage == one, share, 1.0) for one in range(3))
        download_attempts = np.ceil(self.download_attempts * down).astype(np.int64)
        goes_up = stage >= 2
        up = np.where(goes_up, up, 0.0)
        upload_attempts = np.ceil(self.upload_attempts * up).astype(np.int64)
        return replace(
            self,
            download_s=self.download_s * down,
            download_j=self.download_j * down,
            download_network_j=self.download_network_j * down,
            download_promotion_j=self.download_promotion_j * down,
            download_attempts=download_attempts,
            down_lost_bytes=np.where(
                stage == 0, download_attempts * self.down_bytes, self.down_lost_bytes
            ),
            download_failed=self.download_failed | (stage == 0),
            cycles=self.cycles * compute,
            compute_s=self.compute_s * compute,
            dynamic_j=self.dynamic_j * compute,
            static_j=self.static_j * compute,
            compute_tail_j=self.compute_tail_j * compute,
            up_bytes=self.up_bytes * goes_up,
            upload_s=self.upload_s * up,
            upload_j=self.upload_j * up,
            upload_network_j=self.upload_network_j * up,
            upload_promotion_j=self.upload_promotion_j * up,
            upload_attempts=upload_attempts,
            up_lost_bytes=np.where(
                stage == 2, upload_attempts * self.up_bytes, self.up_lost_bytes * goes_up
            ),
            upload_failed=self.upload_failed | (stage <= 2),
        )

    @classmethod
    def of(
        cls,
        frequency_hz: FloatArray,
        download: WireTransfer,
        cycles: FloatArray,
        compute: ComputeCost,
        upload: WireTransfer,
        *,
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
            compute_tail_j=compute_tail_j,
            radio_idle_s=radio_idle_s,
        )
