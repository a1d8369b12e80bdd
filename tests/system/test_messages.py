"""Messages with promotions, tails and repetitions, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from simfl.system.cost import WireTransfer
from simfl.system.link import FixedRateLink
from simfl.system.link_columns import LinkColumns
from simfl.system.message_loss import MessageLoss
from simfl.system.messages import send

HUANG_LTE = FixedRateLink(
    uplink_bps=5e6,
    downlink_bps=5e6,
    rtt_s=0.0,
    power_transmit_w=1.28804,
    power_receive_w=1.28804,
    power_idle_w=0.0,
    slope_up_w_per_bps=438.39e-9,
    promotion_s=0.26,
    power_promotion_w=1.2107,
    tail_s=11.576,
    power_tail_w=1.06,
)
RADIO = FixedRateLink(
    uplink_bps=8e6,
    downlink_bps=8e6,
    rtt_s=0.0,
    power_transmit_w=2.0,
    power_receive_w=2.0,
    power_idle_w=0.0,
    promotion_s=0.5,
    power_promotion_w=1.0,
    tail_s=2.0,
    power_tail_w=0.25,
    energy_j_per_byte=1e-6,
)
MEGABYTES = np.full(1, 10**6)


def messages(
    link: FixedRateLink,
    sizes: np.ndarray,
    since_s: float,
    loss: MessageLoss | None = None,
    uniform: float = 0.5,
) -> WireTransfer:
    """Messages of `sizes` bytes, all over one link."""
    once = link.transmit(8.0 * sizes, uplink=True)
    luck = np.full(sizes.shape, uniform)
    return send(once, sizes, LinkColumns.of([link]).take(0), since_s, loss, luck)


def test_lte_anchor() -> None:
    """6.65 MB at 5 Mbit/s: 37.03 J + promotion 0.315 J + tail 12.27 J = 49.6 J.

    Two uploads back to back pay one promotion and one tail.
    """
    size = np.full(1, 6_650_000)
    radio = LinkColumns.of([HUANG_LTE]).take(0)

    first, second = messages(HUANG_LTE, size, np.inf), messages(HUANG_LTE, size, 0.0)
    tail_j = float(radio.tail_j(1e9))

    assert float(first.duration_s[0]) == pytest.approx(0.26 + 10.64)
    assert float(first.promotion_j[0]) == pytest.approx(0.315, abs=5e-4)
    assert tail_j == pytest.approx(12.27, abs=5e-3)
    assert float(first.active_j[0]) + tail_j == pytest.approx(49.6, abs=0.05)
    assert float(second.duration_s[0]) == pytest.approx(10.64)
    assert float(first.active_j[0] + second.active_j[0]) + tail_j == pytest.approx(
        2 * 37.03 + 0.315 + 12.27, abs=0.01
    )


def test_without_loss_a_message_is_sent_once() -> None:
    """1 MB at 8 Mbit/s, radio awake: 1 s, 2 J, 1 J in the network, nothing lost."""
    message = messages(RADIO, MEGABYTES, 0.0)

    assert (float(message.duration_s[0]), float(message.active_j[0])) == (1.0, 2.0)
    assert float(message.network_j[0]) == pytest.approx(1.0)
    assert (int(message.attempts[0]), int(message.lost_bytes[0])) == (1, 0)
    assert not message.failed[0]


def test_repetitions_by_hand() -> None:
    """Delivered at the third attempt, timeouts of 1.5 and 3 s, asleep after 2 s.

    0.5 s promotion, 1 s, 1.5 s wait, 1 s, 3 s wait, 0.5 s promotion, 1 s. Attempts 3 * 2 J,
    promotions 2 * 0.5 J, tails (1.5 + 2) s at 0.25 W.
    """
    loss = MessageLoss(probability=0.5, timeout_s=1.5, attempts_max=3, backoff=2.0)

    thrice = messages(RADIO, MEGABYTES, np.inf, loss, uniform=0.2)

    assert int(thrice.attempts[0]) == 3
    assert float(thrice.duration_s[0]) == pytest.approx(8.5)
    assert float(thrice.promotion_j[0]) == pytest.approx(1.0)
    assert float(thrice.active_j[0]) == pytest.approx(6.0 + 1.0 + 0.875)
    assert float(thrice.network_j[0]) == pytest.approx(3.0)
    assert int(thrice.lost_bytes[0]) == 2 * 10**6
    assert not thrice.failed[0]


def test_a_message_that_never_arrives() -> None:
    """Two attempts in vain: 1 s, 1 s wait, 1 s, 2 s wait; all bytes are lost.

    The radio is in its tail, at 0.25 W, in both waits.
    """
    lost = messages(RADIO, MEGABYTES, 0.0, MessageLoss(1.0, 1.0, 2, 2.0))

    assert lost.failed[0]
    assert float(lost.duration_s[0]) == pytest.approx(5.0)
    assert float(lost.active_j[0]) == pytest.approx(4.0 + 0.25 + 0.5)
    assert float(lost.silent_s[0]) == 2.0
    assert int(lost.lost_bytes[0]) == 2 * 10**6


def test_bytes_sent_are_received_or_lost() -> None:
    """attempts * size = what arrived + what was lost, message by message."""
    sizes = np.arange(50_000) % 7 * 1000
    once = RADIO.transmit(8.0 * sizes, uplink=True)
    luck = (np.arange(sizes.size) + 0.5) / sizes.size

    message = send(
        once, sizes, LinkColumns.of([RADIO]).take(0), 0.0, MessageLoss(probability=0.3), luck
    )
    arrived = np.where(message.failed, 0, sizes)

    np.testing.assert_array_equal(message.attempts * sizes, arrived + message.lost_bytes)
    assert message.failed.sum() == pytest.approx(0.3**4 * (sizes > 0).sum(), rel=0.02)


def test_no_message_costs_nothing_and_cannot_be_lost() -> None:
    """No bytes: no attempt, no promotion, no failure."""
    message = messages(RADIO, np.zeros(1, dtype=np.int64), np.inf, MessageLoss(probability=1.0))

    assert int(message.attempts[0]) == int(message.lost_bytes[0]) == 0
    assert not message.failed[0]
    assert float(message.duration_s[0]) == float(message.active_j[0]) == 0.0
