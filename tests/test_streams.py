"""The named random streams."""

import numpy as np
import pytest
from scipy import stats

from simfl.streams import Streams, philox


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (
            (0xFFFFFFFF,) * 4,
            (0xFFFFFFFF,) * 2,
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_published_answers(counter, key, expected):
    """Known-answer vectors of the Random123 distribution."""
    words = philox(tuple(np.uint64(word) for word in counter), tuple(np.uint64(w) for w in key))

    assert tuple(int(word) for word in words) == expected


def test_seeds_of_many_are_those_of_each():
    """Single integers and arrays go through the same cipher."""
    streams = Streams(5)

    many = streams.seeds("job", np.arange(4), np.array([0, 7, 7, 1 << 40]))

    alone = [
        streams.seed("job", entity, counter) for entity, counter in enumerate((0, 7, 7, 1 << 40))
    ]
    assert many == alone
    assert len(set(many)) == 4


def test_a_draw_depends_on_its_address_alone():
    """Drawing for more entities, or in another order, changes no value."""
    streams = Streams(5)

    few = streams.uniform("compute", np.arange(3), 7)
    many = streams.uniform("compute", np.arange(100)[::-1], 7)[::-1]

    assert np.array_equal(few, many[:3])


def test_components_entities_counters_and_seeds_are_independent():
    """Different addresses give uncorrelated draws."""
    entity = np.arange(20_000)
    base = Streams(1).normal("a", entity, 0)
    others = [
        Streams(1).normal("b", entity, 0),
        Streams(2).normal("a", entity, 0),
        Streams(1).normal("a", entity, 1),
        Streams(1).normal("a", entity + 1, 0),
    ]

    assert all(abs(np.corrcoef(base, other)[0, 1]) < 0.03 for other in others)


def test_moments():
    """Uniform, normal, exponential and mean-one lognormal have the moments that they claim."""
    streams, entity = Streams(3), np.arange(200_000)

    uniform = streams.uniform("u", entity)
    normal = streams.normal("n", entity)
    exponential = streams.exponential("e", entity)
    lognormal = streams.lognormal(0.5, "l", entity)

    assert uniform.min() > 0 and uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.003 and abs(uniform.var() - 1 / 12) < 0.001
    assert abs(normal.mean()) < 0.01 and abs(normal.var() - 1) < 0.02
    assert abs(exponential.mean() - 1) < 0.01 and abs(exponential.var() - 1) < 0.05
    assert abs(lognormal.mean() - 1) < 0.01
    assert np.all(streams.lognormal(0.0, "l", entity) == 1.0)


@pytest.mark.parametrize("shape", [0.3, 1.0, 2.564, 40.0])
def test_gamma_has_its_law(shape):
    """Gamma draws follow scipy's distribution function, whatever else is drawn with them."""
    streams, entity = Streams(3), np.arange(20_000)

    draws = streams.gamma(shape, "g", entity, 2)

    assert stats.kstest(draws, stats.gamma(shape).cdf).pvalue > 0.01
    assert np.array_equal(streams.gamma(shape, "g", entity[::-7], 2), draws[::-7])
    assert streams.gamma(shape, "g", 3, 2) == draws[3]


def test_beta_has_its_law():
    """Beta(0.5, 4.75), the availabilities of phones: mean 0.095, median 0.049, p90 0.258."""
    draws = Streams(4).beta(0.5, 4.75, "b", np.arange(50_000))

    assert stats.kstest(draws, stats.beta(0.5, 4.75).cdf).pvalue > 0.01
    assert np.quantile(draws, [0.5, 0.9]) == pytest.approx([0.049, 0.258], abs=0.004)
    assert draws.mean() == pytest.approx(0.095, abs=0.002)


def test_a_negative_seed_is_refused():
    """Seeds are non-negative."""
    with pytest.raises(ValueError, match="seed must be >= 0"):
        Streams(-1)
