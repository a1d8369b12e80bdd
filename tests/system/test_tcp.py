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
    cost = LINK.transmit(1e6, uplink=False)
    at_once = replace(LINK, setup_round_trips=0.0).transmit(1e6, uplink=False)

    assert float(cost.duration_s) == pytest.approx(0.15 + 1.0)
    assert float(at_once.duration_s) == pytest.approx(0.05 + 1.0)


def test_a_connection_needs_a_round_trip_time() -> None:
    """Without a round trip the law has no rate."""
    with pytest.raises(ValueError, match=r"^rtt_s"):
        replace(LINK, rtt_s=0.0)
