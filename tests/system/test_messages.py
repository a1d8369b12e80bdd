"""Messages with promotions, tails and repetitions, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from simfl.system.cost import TransferCost
from simfl.system.link import FixedRateLink
from simfl.system.link_columns import LinkColumns
from simfl.system.message_loss import MessageLoss
from simfl.system.messages import Transmission, transmission
from simfl.system.segments import UPLOAD, Kind

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
) -> Transmission:
    """Messages of `sizes` bytes, all over one link without latency."""
    return sent(link, sizes, since_s, loss, np.full(sizes.shape, uniform))


def sent(
    link: FixedRateLink,
    sizes: np.ndarray,
    since_s: float,
    loss: MessageLoss | None,
    uniform: np.ndarray,
) -> Transmission:
    """The same, with a draw for each."""
    nothing = np.zeros(sizes.shape)
    return transmission(
        TransferCost(nothing, nothing, nothing),
        link.transmit(8.0 * sizes, uplink=True),
        sizes,
        LinkColumns.of([link]).take(0),
        since_s,
        loss,
        uniform,
        UPLOAD,
    )


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
    assert float(thrice.tail_j[0]) == pytest.approx(0.875)
    assert float(thrice.network_j[0]) == pytest.approx(1.0)  # of each attempt
    assert int(thrice.lost_bytes[0]) == 2 * 10**6
    assert not thrice.failed[0]


def test_segments_by_hand() -> None:
    """The same message, moment by moment: kind, seconds, joules."""
    loss = MessageLoss(probability=0.5, timeout_s=1.5, attempts_max=3, backoff=2.0)

    table = messages(RADIO, MEGABYTES, np.inf, loss, uniform=0.2).segments

    columns = table.kind, table.seconds[:, 0], table.joules[:, 0]
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == [
        (Kind.WAKE, 0.5, 0.5),
        (Kind.FLOW, 1.0, 2.0),
        (Kind.TAIL, 1.5, 0.375),
        (Kind.FLOW, 1.0, 2.0),
        (Kind.TAIL, 2.0, 0.5),
        (Kind.SLEEP, 1.0, 0.0),
        (Kind.WAKE, 0.5, 0.5),
        (Kind.FLOW, 1.0, 2.0),
    ]
    assert (table.stage == UPLOAD).all() and table.happens.all()
    assert table.tail_j[:, 0].tolist() == [0.0, 0.0, 0.375, 0.0, 0.5, 0.0, 0.0, 0.0]


def test_latency_comes_before_the_bits_of_every_attempt() -> None:
    """0.2 s at 2 W until the first bit, twice; 1 MB then takes 1 s."""
    waiting = TransferCost(np.full(1, 0.2), np.full(1, 0.4), np.zeros(1))
    whole = TransferCost(np.full(1, 1.2), np.full(1, 2.4), np.ones(1))
    links = LinkColumns.of([RADIO]).take(0)
    loss = MessageLoss(0.5, 1.0, 2)

    twice = transmission(waiting, whole, MEGABYTES, links, 0.0, loss, np.full(1, 0.4), UPLOAD)

    kinds, seconds = twice.segments.kind.tolist(), twice.segments.seconds[:, 0]
    once = [Kind.LATENCY, Kind.FLOW]
    assert kinds == [*once, Kind.TAIL, *once]
    np.testing.assert_allclose(seconds, [0.2, 1.0, 1.0, 0.2, 1.0])
    np.testing.assert_allclose(twice.segments.joules[:, 0], [0.4, 2.0, 0.25, 0.4, 2.0])
    np.testing.assert_allclose(twice.flow_s, 1.0)


def test_what_attempts_add_up_to_does_not_depend_on_company() -> None:
    """To the last bit: a message by itself, or as one of a hundred, all sent ten times."""
    sizes, loss = np.arange(1, 101) * 12_345, MessageLoss(1.0, 0.1, 10, 1.1)

    together = messages(RADIO, sizes, np.inf, loss)

    for place in range(sizes.size):
        alone = messages(RADIO, sizes[place : place + 1], np.inf, loss)
        for name in ("duration_s", "active_j", "promotion_j", "tail_j"):
            assert getattr(alone, name)[0] == getattr(together, name)[place], name
        assert alone.segments.total_s(UPLOAD)[0] == together.duration_s[place]
        assert alone.segments.total_j(UPLOAD)[0] == together.active_j[place]


def test_a_message_that_never_arrives() -> None:
    """Two failed attempts: 1 s, 1 s wait, 1 s, 2 s wait; all bytes are lost.

    The radio is in its tail, at 0.25 W, in both waits.
    """
    lost = messages(RADIO, MEGABYTES, 0.0, MessageLoss(1.0, 1.0, 2, 2.0))

    assert lost.failed[0]
    assert float(lost.duration_s[0]) == pytest.approx(5.0)
    assert float(lost.active_j[0]) == pytest.approx(4.0 + 0.25 + 0.5)
    assert float(lost.since_last_attempt_s[0]) == 2.0
    assert int(lost.lost_bytes[0]) == 2 * 10**6


def test_bytes_sent_are_received_or_lost() -> None:
    """attempts * size = what arrived + what was lost, message by message."""
    sizes = np.arange(50_000) % 7 * 1000
    loss_draw = (np.arange(sizes.size) + 0.5) / sizes.size

    message = sent(RADIO, sizes, 0.0, MessageLoss(probability=0.3), loss_draw)
    arrived = np.where(message.failed, 0, sizes)

    np.testing.assert_array_equal(message.attempts * sizes, arrived + message.lost_bytes)
    assert message.failed.sum() == pytest.approx(0.3**4 * (sizes > 0).sum(), rel=0.02)


def test_no_message_costs_nothing_and_cannot_be_lost() -> None:
    """No bytes: no attempt, no promotion, no failure."""
    message = messages(RADIO, np.zeros(1, dtype=np.int64), np.inf, MessageLoss(probability=1.0))

    assert int(message.attempts[0]) == int(message.lost_bytes[0]) == 0
    assert not message.failed[0]
    assert float(message.duration_s[0]) == float(message.active_j[0]) == 0.0
