"""Radio states: who pays for waking up, and for staying awake."""

from __future__ import annotations

import numpy as np
import pytest

from simfl.system.link import FixedRateLink
from simfl.system.link_columns import LinkColumns

CABLE = FixedRateLink(
    uplink_bps=1e6,
    downlink_bps=1e6,
    rtt_s=0.2,
    jitter_s=0.1,
    power_transmit_w=1.0,
    power_receive_w=1.0,
    power_idle_w=0.5,
    loss_probability=0.25,
)
RADIO = FixedRateLink(
    uplink_bps=1e6,
    downlink_bps=1e6,
    rtt_s=0.0,
    power_transmit_w=1.0,
    power_receive_w=1.0,
    power_idle_w=0.25,
    promotion_s=0.5,
    power_promotion_w=1.25,
    tail_s=10.0,
    power_tail_w=0.75,
)


def test_figures_are_those_of_the_links() -> None:
    """Columns point into the links, joules count beyond idle power."""
    columns = LinkColumns.of([CABLE, RADIO]).take(np.array([1, 0, 1]))

    np.testing.assert_array_equal(columns.loss_probability, [0.0, 0.25, 0.0])
    np.testing.assert_allclose(columns.jitter_sigma, [0.0, CABLE.jitter_sigma, 0.0])
    np.testing.assert_array_equal(columns.promotion_w, [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(columns.tail_w, [0.5, 0.0, 0.5])


def test_a_radio_in_its_tail_is_awake() -> None:
    """A promotion is paid after the tail only, and by a radio that has not sent yet."""
    since_s = [0.0, 10.0, 10.1, np.inf]

    duration_s, joules = LinkColumns.of([RADIO]).take(0).wake(since_s)

    np.testing.assert_array_equal(duration_s, [0.0, 0.0, 0.5, 0.5])
    np.testing.assert_array_equal(joules, [0.0, 0.0, 0.5, 0.5])
    assert LinkColumns.of([CABLE]).take(0).wake(np.inf) == (0.0, 0.0)


def test_the_tail_takes_what_there_is_of_the_gap() -> None:
    """0.5 W beyond idle for at most 10 s."""
    joules = LinkColumns.of([RADIO]).take(0).tail_j([0.0, 4.0, 10.0, 1e6])

    np.testing.assert_array_equal(joules, [0.0, 2.0, 5.0, 5.0])


def test_states_below_idle_power_cost_nothing() -> None:
    """A tail that draws less than the idle power measured elsewhere is no income."""
    listening = FixedRateLink(
        uplink_bps=1e6,
        downlink_bps=1e6,
        rtt_s=0.0,
        power_transmit_w=1.0,
        power_receive_w=1.0,
        power_idle_w=0.8,
        tail_s=1.0,
        power_tail_w=0.1,
    )

    assert float(LinkColumns.of([listening]).take(0).tail_j(9.0)) == pytest.approx(0.0)
