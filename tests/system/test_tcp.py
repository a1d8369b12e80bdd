"""TCP over long paths."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simfl.system.tcp import TcpLink

LINK = TcpLink(
    uplink_bps=1e8,
    downlink_bps=1e6,
    rtt_s=0.1,
    packet_loss=1e-3,
    power_transmit_w=1.0,
    power_receive_w=1.0,
    power_idle_w=0.0,
)


def test_mathis_anchor() -> None:
    """MSS 1460 B, RTT 100 ms, p = 1e-3: 4.524 Mbit/s, whatever the path could carry."""
    assert LINK.rate_bps(uplink=True) == pytest.approx(4.524e6, rel=1e-3)
    assert LINK.rate_bps(uplink=False) == 1e6


def test_a_message_waits_for_its_connection() -> None:
    """One round trip to open it, half of one, and the bits."""
    warm = replace(LINK, initial_window=1e6)
    cost = warm.transmit(1e6, uplink=False)
    at_once = replace(warm, setup_round_trips=0.0).transmit(1e6, uplink=False)

    assert float(cost.duration_s) == pytest.approx(0.15 + 1.0)
    assert float(at_once.duration_s) == pytest.approx(0.05 + 1.0)


def test_a_connection_needs_a_round_trip_time() -> None:
    """Without a round trip the law has no rate."""
    with pytest.raises(ValueError, match=r"^rtt_s"):
        replace(LINK, rtt_s=0.0)


def by_rounds(bits: float, rate_bps: float, rtt_s: float, window: float) -> float:
    """When the last bit leaves a sender whose windows are acknowledged a round trip later."""
    now_s, left = 0.0, bits
    while True:
        sent = min(window, left)
        left -= sent
        if left <= 0.0:
            return now_s + sent / rate_bps
        if window >= rate_bps * rtt_s:  # the path is full: it goes on without a break
            return now_s + (sent + left) / rate_bps
        now_s, window = now_s + rtt_s, 2.0 * window


@pytest.mark.parametrize("factor", [0.3, 1.0])
@pytest.mark.parametrize("jitter", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("bits", [1.0, 116_800.0, 116_801.0, 1e6, 1e7, 1e9])
def test_slow_start_by_rounds(bits: float, jitter: float, factor: float) -> None:
    """Ten packets, twice as many a round trip later, until they fill the path."""
    link = replace(LINK, packet_loss=1e-9, power_idle_w=0.25, slope_up_w_per_bps=1e-8)
    cost = link.transmit(bits, uplink=True, rate_factor=factor, jitter=jitter)

    flow_s = by_rounds(bits, factor * 1e8, jitter * 0.1, 10 * 8 * 1460.0)
    assert float(cost.duration_s) == pytest.approx(0.15 * jitter + flow_s, rel=1e-12)
    slope_j = 1e-8 * (bits + 0.15 * jitter * factor * 1e8)
    assert float(cost.active_j) == pytest.approx(0.75 * float(cost.duration_s) + slope_j, rel=1e-12)


def test_slow_start_of_many_messages_at_once() -> None:
    """A column of messages costs what each costs; none, nothing."""
    bits = [0.0, 1e5, 3e6, 1e9]
    together = LINK.transmit(bits, uplink=True)

    alone = [LINK.transmit(one, uplink=True) for one in bits]
    assert together.duration_s.tolist() == [float(one.duration_s) for one in alone]
    assert together.active_j.tolist() == [float(one.active_j) for one in alone]
    assert together.network_j.shape == (4,)
    assert together.duration_s[0] == 0.0
