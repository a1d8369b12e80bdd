"""Links against closed forms and published figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simfl.streams import Streams
from simfl.system.link import FixedRateLink

LINK = FixedRateLink(
    uplink_bps=1e6,
    downlink_bps=4e6,
    rtt_s=0.2,
    power_transmit_w=1.25,
    power_receive_w=0.75,
    power_idle_w=0.25,
)


def test_wide_area_anchor() -> None:
    """44.7 MB over 100 Mbit/s with an RTT of 50 ms: 0.025 + 3.576 = 3.601 s."""
    link = replace(LINK, uplink_bps=1e8, rtt_s=0.05)

    assert float(link.transmit(8 * 44.7e6, uplink=True).duration_s) == pytest.approx(3.601)


def test_lte_anchor() -> None:
    """Huang's LTE radio, 6.65 MB at 5 Mbit/s: 3.480 W for 10.64 s, 37.03 J."""
    link = replace(
        LINK,
        uplink_bps=5e6,
        rtt_s=0.0,
        power_transmit_w=1.28804,
        power_idle_w=0.0,
        slope_up_w_per_bps=438.39e-9,
    )

    cost = link.transmit(8 * 6.65e6, uplink=True)

    assert float(cost.duration_s) == pytest.approx(10.64)
    assert float(cost.active_j) == pytest.approx(37.03, rel=1e-3)


def test_directions_have_their_own_rate_and_power() -> None:
    """The client sends upwards (1 W above idle, 1 Mbit/s), receives downwards (0.5 W, 4 Mbit/s)."""
    up = LINK.transmit(2e6, uplink=True)
    down = LINK.transmit(2e6, uplink=False)

    assert (float(up.duration_s), float(up.active_j)) == pytest.approx((2.1, 2.1))
    assert (float(down.duration_s), float(down.active_j)) == pytest.approx((0.6, 0.3))


def test_no_bits_no_message() -> None:
    """Zero bits take neither time nor energy, not even the latency."""
    cost = replace(LINK, energy_j_per_byte=1.0).transmit([0, 1e6], uplink=True)

    np.testing.assert_allclose(cost.duration_s, [0.0, 1.1])
    np.testing.assert_allclose(cost.active_j, [0.0, 1.1])
    np.testing.assert_allclose(cost.network_j, [0.0, 125e3])


def test_factors_act_on_rate_and_latency() -> None:
    """Half the rate doubles the bits' time, jitter 3 triples the latency's."""
    cost = LINK.transmit(1e6, uplink=True, rate_factor=[1.0, 0.5, 1.0], jitter=[1.0, 1.0, 3.0])

    np.testing.assert_allclose(cost.duration_s, [1.1, 2.1, 1.3])


def test_active_energy_is_never_negative() -> None:
    """An interface that listens at a higher power than it sends with costs nothing extra."""
    cost = replace(LINK, power_idle_w=5.0).transmit(1e6, uplink=True)

    assert float(cost.active_j) == 0.0


def test_jitter_has_the_stated_standard_deviation() -> None:
    """rtt times the lognormal factor has mean rtt_s and standard deviation jitter_s."""
    link = replace(LINK, rtt_s=0.05, jitter_s=0.02)

    rtt_s = link.rtt_s * Streams(1).lognormal(link.jitter_sigma, "jitter", np.arange(200_000))

    assert rtt_s.mean() == pytest.approx(0.05, rel=0.005)
    assert rtt_s.std() == pytest.approx(0.02, rel=0.02)
    assert replace(LINK, rtt_s=0.0).jitter_sigma == 0.0


def test_jitter_needs_latency() -> None:
    """Jitter on a link without latency is refused instead of being dropped."""
    with pytest.raises(ValueError, match=r"^jitter_s"):
        replace(LINK, rtt_s=0.0, jitter_s=0.1)


def test_duty_cycle_anchor() -> None:
    """LeNet-5 over LoRa SF7: 361 s on the air, 10.0 h at 1 %; the radio pays for the air alone."""
    lora = replace(LINK, uplink_bps=5468.75, rtt_s=0.0, power_transmit_w=0.3, duty_cycle=0.01)

    cost = lora.transmit(32 * 61_706, uplink=True)

    assert float(cost.duration_s) == pytest.approx(36_107, rel=1e-4)
    assert float(cost.duration_s) / 3600 == pytest.approx(10.0, abs=0.05)
    assert float(cost.active_j) == pytest.approx(361.07 * 0.05, rel=1e-4)


@pytest.mark.parametrize("state", ["promotion", "tail"])
def test_a_radio_state_without_power_is_refused(state: str) -> None:
    """A promotion or tail that takes time takes a stated power: never a silent zero."""
    with pytest.raises(ValueError, match=f"^power_{state}_w: found nothing"):
        replace(LINK, **{f"{state}_s": 1.0})
