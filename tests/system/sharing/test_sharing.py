"""How much each client gets: every sharing rule, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from simfl.system.sharing.access_point import AirtimeFair, ThroughputFair
from simfl.system.sharing.base import Flows, Sender, Sharing
from simfl.system.sharing.fifo import Fifo
from simfl.system.sharing.max_min import MaxMin
from simfl.system.sharing.ofdma import OfdmaEqual, OfdmaWeighted
from simfl.system.sharing.processor_sharing import ProcessorSharing

EVERY_WAY: list[Sharing] = [
    OfdmaEqual(),
    OfdmaWeighted(),
    ProcessorSharing(8e6),
    ThroughputFair(),
    AirtimeFair(),
    Fifo(),
    MaxMin(access_bps=9e6, backhaul_bps=8e6),
]


def flows(*rates_bps: float, **figures: object) -> Flows:
    """Transfers of senders with these rates of their own."""
    return Flows.of([Sender(n, rate, **figures) for n, rate in enumerate(rates_bps)])  # type: ignore[arg-type]


def test_anomaly_anchor() -> None:
    """54 and 6 Mbit/s: plain 802.11 gives 5.4 to each, fair airtime 27 and 3."""
    two = flows(54e6, 6e6)

    anomaly, airtime = ThroughputFair().rates_bps(two), AirtimeFair().rates_bps(two)

    np.testing.assert_allclose(anomaly, 5.4e6)
    np.testing.assert_allclose(airtime, [27e6, 3e6])
    np.testing.assert_allclose(ThroughputFair().duty(two, anomaly), [0.1, 0.9])
    np.testing.assert_allclose(AirtimeFair().duty(two, airtime), 0.5)


@pytest.mark.parametrize("sharing", EVERY_WAY, ids=lambda one: type(one).__name__)
def test_alone_everybody_has_the_medium(sharing: Sharing) -> None:
    """One sender gets its own rate, all the time, whatever the way to share."""
    alone = flows(8e6, snr=10.0)

    rates = sharing.rates_bps(alone)

    np.testing.assert_allclose(rates, 8e6)
    np.testing.assert_allclose(sharing.duty(alone, rates), 1.0)


@pytest.mark.parametrize("sharing", EVERY_WAY, ids=lambda one: type(one).__name__)
def test_time_is_shared_not_multiplied(sharing: Sharing) -> None:
    """Where one radio sends at a time, the shares of time add up to one."""
    several = flows(8e6, 8e6, 4e6, 2e6)

    duty = sharing.duty(several, sharing.rates_bps(several))

    if isinstance(sharing, OfdmaEqual | OfdmaWeighted):
        np.testing.assert_array_equal(duty, 1.0)
    elif isinstance(sharing, ThroughputFair | AirtimeFair | Fifo):
        assert duty.sum() == pytest.approx(1.0)
    assert ((duty >= 0) & (duty <= 1)).all()


def test_equal_parts_of_the_band() -> None:
    """Rates in proportion to the band without an SNR."""
    np.testing.assert_allclose(OfdmaEqual().rates_bps(flows(8e6, 4e6)), [4e6, 2e6])


def test_power_is_fixed_in_a_narrow_band() -> None:
    """1 MHz at SNR 3 is 2 Mbit/s; half of it has SNR 6: 0.5 log2(7) = 1.4037 Mbit/s, not 1."""
    rates = OfdmaEqual().rates_bps(flows(2e6, 2e6, snr=3.0))

    np.testing.assert_allclose(rates, 0.5e6 * np.log2(7.0))


def test_the_total_is_concave_in_the_number_of_users() -> None:
    """More users bring more power: the total rises, ever less, below p h / (N0 ln 2) each."""
    total = np.array(
        [OfdmaEqual().rates_bps(flows(*[2e6] * users, snr=3.0)).sum() for users in range(1, 30)]
    )

    assert (np.diff(total) > 0).all()
    assert (np.diff(total, 2) < 0).all()


def test_the_best_modulation_caps_a_narrow_band() -> None:
    """At 2 bit/s/Hz at most, half the band is half the rate, SNR to spare or not."""
    rates = OfdmaEqual().rates_bps(flows(2e6, 2e6, snr=3.0, spectral_efficiency_max=2.0))

    np.testing.assert_allclose(rates, 1e6)


def test_weights_are_shares_of_the_band() -> None:
    """As given while they fit, in proportion where they do not."""
    little = Flows.of([Sender(0, 8e6, weight=0.25), Sender(1, 8e6, weight=0.5)])
    much = Flows.of([Sender(0, 8e6, weight=3.0), Sender(1, 8e6, weight=1.0)])

    np.testing.assert_allclose(OfdmaWeighted().rates_bps(little), [2e6, 4e6])
    np.testing.assert_allclose(OfdmaWeighted().rates_bps(much), [6e6, 2e6])


def test_processor_sharing_is_capped_by_the_senders_own_rate() -> None:
    """A third of 9 Mbit/s each; who can do less gets less, and nobody gets the rest."""
    rates = ProcessorSharing(9e6).rates_bps(flows(8e6, 8e6, 1e6))

    np.testing.assert_allclose(rates, [3e6, 3e6, 1e6])


def test_the_first_in_the_queue_send() -> None:
    """One channel, or two."""
    np.testing.assert_allclose(Fifo().rates_bps(flows(1e6, 2e6, 3e6)), [1e6, 0, 0])
    np.testing.assert_allclose(Fifo(channels=2).rates_bps(flows(1e6, 2e6, 3e6)), [1e6, 2e6, 0])


@pytest.mark.parametrize(
    ("figures", "key"),
    [
        ({"rate_bps": 0.0}, "rate_bps"),
        ({"rate_bps": float("inf")}, "rate_bps"),
        ({"rate_bps": float("nan")}, "rate_bps"),
        ({"rate_bps": 1.0, "weight": 0.0}, "weight"),
        ({"rate_bps": 1.0, "snr": -1.0}, "snr"),
    ],
)
def test_impossible_senders_are_refused(figures: dict[str, float], key: str) -> None:
    """Rates, weights and SNRs are positive."""
    with pytest.raises(ValueError, match=f"^{key}: found"):
        Sender(0, **figures)
