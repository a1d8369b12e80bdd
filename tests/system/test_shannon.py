"""Radio links against closed forms: Shannon, log-distance path loss, fading, 3GPP UMi."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import exp1

from simfl.system.log_distance import LogDistanceRadio
from simfl.system.radio_paths import RadioPaths
from simfl.system.shannon import THERMAL_NOISE_W_PER_HZ, capacity_bps
from simfl.system.umi import UmiRadio, line_of_sight_probability
from tests.system.radio import paths

TEN_DBM_W = 0.01
MACRO = LogDistanceRadio(
    uplink_bandwidth_hz=1e6,
    downlink_bandwidth_hz=20e6,
    uplink_radiated_w=TEN_DBM_W,
    downlink_radiated_w=10**-0.7,  # 23 dBm
    noise_figure_db=0.0,
    path_loss_db=128.1,
    path_loss_distance_m=1000.0,
    path_loss_exponent=3.76,
    fading_blocks=0,
    rtt_s=0.0,
    power_transmit_w=2.0,
    power_receive_w=1.0,
    power_idle_w=0.0,
)
TRAN = replace(
    MACRO,
    uplink_radiated_w=0.2,
    noise_w_per_hz=1e-10 / 1e6,
    path_loss_db=40.0,
    path_loss_distance_m=1.0,
    path_loss_exponent=4.0,
)
UMI = UmiRadio(
    uplink_bandwidth_hz=1e6,
    downlink_bandwidth_hz=1e6,
    uplink_radiated_w=0.2,
    downlink_radiated_w=1.0,
    noise_figure_db=9.0,
    carrier_hz=3.5e9,
    rtt_s=0.0,
    power_transmit_w=2.0,
    power_receive_w=1.0,
    power_idle_w=0.0,
)


def rate_bps(link: Any, where: RadioPaths) -> np.ndarray:
    """What the link carries there."""
    return link.rate_bps(where.uplink) * link.channel(where)


def test_thermal_noise_is_minus_174_dbm() -> None:
    """3.98e-21 W/Hz: 3.98e-15 W in 1 MHz."""
    assert -10 * np.log10(THERMAL_NOISE_W_PER_HZ * 1000) == pytest.approx(174.0)
    assert pytest.approx(3.98e-21, rel=1e-3) == THERMAL_NOISE_W_PER_HZ


def test_macro_cell_anchor() -> None:
    """0.5 km, 10 dBm in 1 MHz: PL 116.781 dB, SNR 7.219 dB, 2.6486 Mbit/s, 5 MB in 15.10 s."""
    where = paths(500.0)

    rate = float(rate_bps(MACRO, where)[0])
    cost = MACRO.transmit(40e6, True, MACRO.channel(where))

    assert float(MACRO.loss_db(where)[0]) == pytest.approx(116.781, abs=1e-3)
    assert 10 * np.log10(MACRO.snr(where)[0, 0]) == pytest.approx(7.219, abs=1e-3)
    assert rate == pytest.approx(2.6486e6, rel=1e-4)
    assert float(cost.duration_s[0]) == pytest.approx(15.10, abs=5e-3)
    assert float(cost.duration_s[0]) * TEN_DBM_W == pytest.approx(0.1510, rel=1e-3)


def test_macro_cell_anchor_at_more_power_and_band() -> None:
    """23 dBm: 20.219 dB, 6.7302 Mbit/s, 5.943 s, 1.186 J radiated; over 20 MHz 52.92 Mbit/s."""
    strong, where = replace(MACRO, uplink_radiated_w=10**-0.7), paths(500.0)

    duration_s = float(strong.transmit(40e6, True, strong.channel(where)).duration_s[0])

    assert 10 * np.log10(strong.snr(where)[0, 0]) == pytest.approx(20.219, abs=1e-3)
    assert float(rate_bps(strong, where)[0]) == pytest.approx(6.7302e6, rel=1e-4)
    assert duration_s == pytest.approx(5.943, abs=1e-3)
    assert duration_s * 10**-0.7 == pytest.approx(1.186, abs=1e-3)
    down = replace(where, uplink=False)
    assert float(rate_bps(strong, down)[0]) == pytest.approx(52.92e6, rel=1e-4)


def test_tran_anchor() -> None:
    """26 m, gain 2.188e-10, 0.2 W against 1e-10 W: 0.5237 Mbit/s, 25e3 nats in 68.9 ms."""
    where = paths(26.0)

    rate = float(rate_bps(TRAN, where)[0])

    assert 10 ** (-float(TRAN.loss_db(where)[0]) / 10) == pytest.approx(2.188e-10, rel=1e-3)
    assert rate == pytest.approx(0.5237e6, rel=1e-4)
    assert rate * np.log(2) == pytest.approx(0.3630e6, rel=1e-3)
    assert 25e3 / (rate * np.log(2)) == pytest.approx(68.9e-3, rel=1e-3)


def test_rate_is_concave_in_bandwidth_with_its_limit() -> None:
    """More band at the same power: rising, concave, towards p h / (N0 ln 2)."""
    band_hz = np.linspace(1e5, 1e9, 400)
    received_over_noise_hz = 1e7

    rate = capacity_bps(band_hz, received_over_noise_hz / band_hz)

    assert (np.diff(rate) > 0).all()
    assert (np.diff(rate, 2) < 0).all()
    assert float(capacity_bps(1e15, 1e-8)) == pytest.approx(1e7 / np.log(2), rel=1e-6)


def test_gap_noise_figure_efficiency_and_best_modulation() -> None:
    """Decibels of gap and noise figure lower the SNR, efficiency the rate; a cap ends it."""
    where = paths(500.0)
    plain = MACRO.snr(where)

    worse = replace(MACRO, noise_figure_db=7.0, snr_gap_db=3.0, bandwidth_efficiency=0.5)
    capped = replace(MACRO, spectral_efficiency_max=2.0)

    np.testing.assert_allclose(worse.snr(where), plain / 10.0)
    expected = 0.5 * capacity_bps(1e6, plain[:, 0] / 10.0)
    np.testing.assert_allclose(rate_bps(worse, where), expected)
    np.testing.assert_allclose(rate_bps(capped, where), 2e6)


def test_shadowing_is_normal_in_decibels_and_belongs_to_the_path() -> None:
    """8 dB between clients; the same for a client in every client round and direction."""
    shadowed, where = replace(MACRO, shadowing_db=8.0), paths(np.full(50_000, 500.0))

    lost_db = shadowed.loss_db(where) - 116.781
    elsewhere = replace(where, access_points=np.ones_like(where.clients))

    assert lost_db.mean() == pytest.approx(0.0, abs=3 * 8 / np.sqrt(50_000))
    assert lost_db.std() == pytest.approx(8.0, rel=0.01)
    later = replace(where, rounds=where.rounds + 5, uplink=False)
    np.testing.assert_array_equal(shadowed.loss_db(later), shadowed.loss_db(where))
    other_point = replace(elsewhere, access_point_m=np.zeros((2, 2)))
    assert (shadowed.loss_db(other_point) != shadowed.loss_db(where)).all()


def test_rayleigh_fading_is_exponential_and_redrawn() -> None:
    """Power gains of mean 1, variance 1, new in every round and direction; none where still."""
    faded, where = replace(MACRO, fading_blocks=1), paths(np.full(50_000, 500.0))
    still = MACRO.snr(where)[0, 0]

    gain = faded.snr(where)[:, 0] / still
    later = faded.snr(replace(where, rounds=where.rounds + 1))[:, 0] / still
    down = (
        faded.snr(replace(where, uplink=False))[:, 0]
        / faded.snr(replace(where, uplink=False, fades=False))[:, 0]
    )

    assert gain.mean() == pytest.approx(1.0, abs=3 / np.sqrt(50_000))
    assert (gain < np.log(2)).mean() == pytest.approx(0.5, abs=0.01)
    for other in (later, down):
        assert abs(np.corrcoef(gain, other)[0, 1]) < 0.02
    np.testing.assert_allclose(faded.channel(replace(where, fades=False)), MACRO.channel(where))


def test_fading_blocks_average_the_rate() -> None:
    """Many blocks: the ergodic rate, E log2(1 + snr g) = e^(1/snr) E1(1/snr) / ln 2."""
    diverse, where = replace(MACRO, fading_blocks=64), paths(np.full(3000, 500.0))
    snr = MACRO.snr(where)[0, 0]
    ergodic_bps = 1e6 * np.exp(1 / snr) * exp1(1 / snr) / np.log(2)

    rates = rate_bps(replace(diverse, spectral_efficiency_max=50.0), where)

    assert rates.mean() == pytest.approx(ergodic_bps, rel=4e-3)
    assert rates.std() < 0.2 * rate_bps(replace(MACRO, fading_blocks=1), where).std()


def test_near_clients_count_as_far_as_the_law_holds() -> None:
    """At the access point the path loss is that of the smallest distance."""
    np.testing.assert_allclose(TRAN.loss_db(paths([0.0, 0.5, 1.0])), 40.0)
    np.testing.assert_allclose(UMI.snr(paths(0.0)), UMI.snr(paths(10.0)))


def test_umi_anchor() -> None:
    """3.5 GHz, 100 m: LOS 85.281 dB, NLOS 104.589 dB, P(LOS) = 0.2310."""
    assert float(UMI.path_loss_db(100.0, True)) == pytest.approx(85.281, abs=1e-3)
    assert float(UMI.path_loss_db(100.0, False)) == pytest.approx(104.589, abs=1e-3)
    assert float(line_of_sight_probability(100.0)) == pytest.approx(0.2310, abs=5e-5)
    np.testing.assert_allclose(line_of_sight_probability([0.0, 10.0, 18.0]), 1.0)


def test_umi_is_continuous_at_its_breakpoint() -> None:
    """Both laws of the line of sight meet at 4 * 9 * 0.5 * 3.5e9 / 3e8 = 210 m on the ground."""
    at_m = np.hypot(210.0, 8.5)

    near, far = UMI.path_loss_db([at_m * (1 - 1e-9), at_m * (1 + 1e-9)], True)

    assert near == pytest.approx(far, abs=1e-6)
    steps = np.diff(UMI.path_loss_db([210.0 * 2, 210.0 * 4], True))
    assert float(steps[0]) == pytest.approx(40 * np.log10(2), abs=1e-6)


def test_umi_draws_sight_once_per_path() -> None:
    """23 % of the paths at 99.6 m on the ground see their access point, in every client round."""
    clear = replace(UMI, shadowing_sight_db=0.0, shadowing_blocked_db=0.0, fading_blocks=0)
    ground_m = float(np.sqrt(100.0**2 - 8.5**2))
    where = paths(np.full(20_000, ground_m))

    lost_db = clear.loss_db(where)
    sight = lost_db < 95.0

    expected = float(line_of_sight_probability(ground_m))
    assert sight.mean() == pytest.approx(expected, abs=3 * np.sqrt(expected / 20_000))
    np.testing.assert_allclose(np.unique(lost_db.round(3)), [85.281, 104.589])
    later = replace(where, rounds=where.rounds + 1)
    np.testing.assert_array_equal(clear.loss_db(later), lost_db)
