"""Clients that come and go at random, against renewal theory."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from scipy import stats

from simfl.streams import Streams
from simfl.system.availability.diurnal import Diurnal
from simfl.system.availability.renewal import Renewal
from simfl.system.availability.sojourn import Sojourn
from simfl.system.availability.sojourn_cache import SojournCache

CLIENTS = np.arange(40_000)
STREAMS = Streams(11)
MEANS = (1931.0, 11758.0)
LAWS = [("exponential", 1.0), ("weibull", 0.5), ("weibull", 2.0), ("lognormal", 1.0)]


def share_interval(there: np.ndarray) -> float:
    """Four standard errors of a share."""
    return 4 * math.sqrt(there.mean() * (1 - there.mean()) / there.size)


@pytest.mark.parametrize(("law", "shape"), LAWS)
@pytest.mark.parametrize("time_s", [0.0, 3600.0, 200_000.0])
def test_availability_is_the_ratio_of_the_means(law: str, shape: float, time_s: float) -> None:
    """A = m1 / (m0 + m1) = 0.1411 whatever the law, from the first moment on."""
    model = Renewal(Sojourn(MEANS[0], law, shape), Sojourn(MEANS[1], law, shape))

    there = model.available(CLIENTS, time_s, STREAMS)

    assert abs(there.mean() - 0.1411) < share_interval(there)


def test_markov_autocorrelation() -> None:
    """Exponential sojourns: correlation exp(-t (1 / m0 + 1 / m1)), 0.1141 after an hour."""
    model = Renewal(Sojourn(MEANS[0]), Sojourn(MEANS[1]))

    now = model.available(CLIENTS, 50_000.0, STREAMS)
    later = model.available(CLIENTS, 53_600.0, STREAMS)

    correlation = np.corrcoef(now, later)[0, 1]
    assert math.exp(-3600 * (1 / MEANS[0] + 1 / MEANS[1])) == pytest.approx(0.1141, abs=1e-4)
    assert abs(correlation - 0.1141) < 4 / math.sqrt(CLIENTS.size)


@pytest.mark.parametrize(("law", "shape"), LAWS)
def test_sojourns_have_their_law(law: str, shape: float) -> None:
    """Complete presences are distributed as the law says, in mean and in form."""
    streams = Streams(5)
    drawn = 50.0 * Sojourn(50.0, law, shape).durations(streams, "x", CLIENTS, 3)
    k, sigma = shape, shape
    reference = {
        "exponential": stats.expon(scale=50.0),
        "weibull": stats.weibull_min(k, scale=50.0 / math.gamma(1 + 1 / k)),
        "lognormal": stats.lognorm(sigma, scale=50.0 * math.exp(-(sigma**2) / 2)),
    }[law]

    assert reference.mean() == pytest.approx(50.0)
    assert stats.kstest(drawn, reference.cdf).pvalue > 0.01


@pytest.mark.parametrize(("law", "shape"), LAWS)
def test_residuals_have_the_equilibrium_law(law: str, shape: float) -> None:
    """Density (1 - F) / mean, hence mean E[X^2] / (2 E[X]); checked by numerical integration."""
    one = Sojourn(1.0, law, shape)
    drawn = one.residuals(Streams(6), "x", CLIENTS)
    k = shape
    reference = {
        "exponential": stats.expon(),
        "weibull": stats.weibull_min(k, scale=1 / math.gamma(1 + 1 / k)),
        "lognormal": stats.lognorm(k, scale=math.exp(-(k**2) / 2)),
    }[law]
    grid = np.concatenate([[0.0], np.geomspace(1e-9, 1e5, 20_001)])
    tail = reference.sf(grid)
    covered = np.concatenate([[0], np.cumsum((tail[1:] + tail[:-1]) / 2 * np.diff(grid))])

    assert stats.kstest(drawn, lambda x: np.interp(x, grid, covered)).pvalue > 0.01


def test_sessions_seen_from_outside() -> None:
    """Over a course, presences last as their law says; read off with `next_s` and `until_s`."""
    model = Renewal(Sojourn(100.0, "weibull", 0.5), Sojourn(50.0))
    clients = np.arange(3000)
    arrives_s = np.where(
        model.available(clients, 1000.0, STREAMS), np.nan, model.next_s(clients, 1000.0, STREAMS)
    )

    lasts = [
        model.until_s(clients[i : i + 1], arrives_s[i] + 1e-9, STREAMS)[0] - arrives_s[i]
        for i in np.flatnonzero(~np.isnan(arrives_s))
    ]

    reference = stats.weibull_min(0.5, scale=100.0 / math.gamma(3.0))
    assert len(lasts) > 800
    assert stats.kstest(lasts, reference.cdf).pvalue > 0.01


@pytest.mark.slow
def test_availabilities_of_phones() -> None:
    """Beta(0.5, 4.75) over clients: mean 0.095, and each client keeps to its own."""
    model = Renewal(share_beta=(0.5, 4.75), present=Sojourn(100.0), absent=Sojourn(1.0))
    clients = np.arange(1000)
    looks = np.arange(300) * 3000.0

    seen = np.mean([model.available(clients, at, STREAMS) for at in looks], axis=0)

    own = STREAMS.beta(0.5, 4.75, "availability.share", clients)
    assert abs(seen.mean() - 0.095) < 4 * own.std() / math.sqrt(clients.size)
    assert np.corrcoef(seen, own)[0, 1] > 0.97
    assert np.quantile(seen, 0.9) == pytest.approx(0.258, abs=0.03)


def test_crash_and_repair() -> None:
    """With a mean time to failure of 24 h, 600 s are survived in all but 0.69 % of cases."""
    model = Renewal(present=Sojourn(86_400.0), absent=Sojourn(600.0))
    there = CLIENTS[model.available(CLIENTS, 1e5, STREAMS)]

    crashed = model.until_s(there, 1e5, STREAMS) < 1e5 + 600

    assert 1 - math.exp(-600 / 86_400) == pytest.approx(0.006920, abs=1e-6)
    assert abs(crashed.mean() - 0.006920) < share_interval(crashed)


def test_phones_come_back_by_the_hour() -> None:
    """With a swing of 0.37 and its peak at 4 h, the shares by the hour are a wave like the day's.

    A linear response of rate 1 / 600 + 1 / 20,000 per second: the share follows the rate by 0.16 h
    and swings by 0.37 of the share away from those who are there already, 0.359 of its mean.
    """
    model = Renewal(Sojourn(600.0), Sojourn(20_000.0), diurnal=Diurnal())
    hours = np.arange(24)

    shares = np.array(
        [model.available(CLIENTS, 86400 + 3600.0 * hour, STREAMS).mean() for hour in hours]
    )

    wave = np.fft.rfft(shares)
    assert -np.angle(wave[1]) * 24 / (2 * np.pi) == pytest.approx(4.16, abs=0.3)
    assert 2 * abs(wave[1]) / wave[0].real == pytest.approx(0.359, rel=0.1)
    assert shares.mean() == pytest.approx(600 / 20_600, rel=0.05)


def test_time_at_the_rate_of_the_hour_can_be_inverted() -> None:
    """H(when(y)) = y within a microsecond, at any swing; H gains one period per period."""
    for swing in (0.0, 0.37, 0.999):
        one = Diurnal(swing=swing)
        elapsed = np.concatenate([np.linspace(-1e5, 1e6, 3001), [1e12, np.inf]])

        back = one.elapsed(one.when(elapsed)[:-1])

        np.testing.assert_allclose(back, elapsed[:-1], atol=1e-6, rtol=1e-13)
        assert one.when(elapsed)[-1] == np.inf
        assert one.elapsed(86400.0) - one.elapsed(0.0) == pytest.approx(86400.0)
        assert (np.diff(one.elapsed(np.linspace(0, 1e5, 5000))) > 0).all()
        assert one.when(100.0).shape == ()


def test_time_is_paid_for_the_clients_asked() -> None:
    """Ten clients of a million: memory and draws for ten."""
    model = Renewal()
    few = np.arange(0, 1_000_000, 100_000)

    started = time.process_time()
    model.available(few, 30 * 86400.0, STREAMS)

    assert time.process_time() - started < 1.0
    (cache,) = model._sojourns.values()
    assert cache._client.size == 10


def test_a_million_clients_are_asked_in_seconds() -> None:
    """The first question about a million clients takes seconds, the next ones milliseconds."""
    model, everybody = Renewal(), np.arange(1_000_000)

    started = time.process_time()
    first = model.available(everybody, 0.0, STREAMS)
    after_one = time.process_time()
    second = model.available(everybody, 1.0, STREAMS)
    after_two = time.process_time()

    assert after_one - started < 10
    assert after_two - after_one < 0.5
    assert abs(first.mean() - second.mean()) < 1e-3


def test_a_question_about_the_past_starts_again() -> None:
    """The cache holds one sojourn per client; going back draws the same ones from the beginning."""
    cache = SojournCache(STREAMS, Sojourn(10.0), Sojourn(10.0), None, None)
    clients = np.arange(50)

    early, late = cache.at(clients, 100.0), cache.at(clients, 10_000.0)

    for again, before in zip(cache.at(clients, 100.0), early, strict=True):
        np.testing.assert_array_equal(again, before)
    for again, before in zip(cache.at(clients, 10_000.0), late, strict=True):
        np.testing.assert_array_equal(again, before)


def test_an_exponential_has_no_shape() -> None:
    """A shape beside the exponential law is refused: it would be without effect."""
    with pytest.raises(ValueError, match=r"^shape: found 0.5"):
        Sojourn(1.0, "exponential", 0.5)
