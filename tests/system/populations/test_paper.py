"""The population of the literature."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simfl.streams import Streams
from simfl.system.catalogue import Catalogue
from simfl.system.populations.paper import Paper

PAPER = Paper(clients=5000, edges=5)


def test_ranges_are_uniform() -> None:
    """Cycles, clocks and rates fill FedCure's ranges evenly and independently."""
    world = PAPER.build(Streams(1), Catalogue())

    cycles = world.cycles(np.arange(5000), 1, None)
    rate_bps = world.rate_factor * world.links[0].uplink_bps
    for values, low, high in [
        (cycles, 1e7, 3e7),
        (world.frequency_max_hz, 1e9, 3e9),
        (rate_bps, 5e6, 20e6),
    ]:
        assert low < values.min() < low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) < values.max() < high
        assert values.mean() == pytest.approx((low + high) / 2, rel=0.02)
    correlation = np.corrcoef([cycles, world.frequency_max_hz, rate_bps])
    np.testing.assert_allclose(correlation, np.eye(3), atol=0.05)


def test_costs_without_noise() -> None:
    """t = W / f, E = kappa W f^2, transfers take latency + bits / rate at 0.5 W."""
    world = replace(PAPER, noise=0.0, latency_s=0.5).build(Streams(1), Catalogue())
    clients = np.arange(10)

    plan = world.plan_rounds(clients, 0, 160, None, 10**6, 10**6, 1e9)

    cycles = 160 * world.cycles(clients, 1, None)
    rate_bps = world.rate_factor[:10] * 12.5e6
    np.testing.assert_allclose(plan.compute_s, cycles / 1e9)
    np.testing.assert_allclose(plan.dynamic_j, 1e-28 * cycles * 1e18)
    np.testing.assert_allclose(plan.upload_s, 0.5 + 8e6 / rate_bps)
    np.testing.assert_allclose(plan.upload.active_j, 0.5 * plan.upload_s)
    np.testing.assert_allclose(plan.download_s, plan.upload_s)
    backhaul = world.backhaul_transfer(0, 0, 10**6, uplink=True)
    assert float(backhaul.duration_s[0]) == pytest.approx(0.58)
    assert float(backhaul.network_j[0]) == pytest.approx(0.2)


def test_noise_is_on_every_compute_and_transfer_time() -> None:
    """With sigma 0.05, computing, both transfers and the backhaul scatter by 5 %."""
    world = PAPER.build(Streams(1), Catalogue())
    quiet = replace(PAPER, noise=0.0).build(Streams(1), Catalogue())
    clients = np.arange(5000)

    noisy_plan, plan = (w.plan_rounds(clients, 0, 160, None, 1e6, 1e6, 1e9) for w in (world, quiet))
    backhaul_s = world.backhaul_transfer(0, clients, 10**6, uplink=True).duration_s

    for column in ("compute_s", "download_s", "upload_s"):
        ratio = getattr(noisy_plan, column) / getattr(plan, column)
        assert np.log(ratio).std() == pytest.approx(0.05, rel=0.05)
    assert np.log(backhaul_s).std() == pytest.approx(0.05, rel=0.05)


def test_frequency_is_limited_per_client() -> None:
    """Each client's own highest clock limits it, not the shared device's."""
    world = PAPER.build(Streams(1), Catalogue())

    np.testing.assert_array_equal(world.round_frequency([0, 1], np.inf), world.frequency_max_hz[:2])
    np.testing.assert_array_equal(world.round_frequency([0, 1], 0.0), [1e8, 1e8])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cycles_per_example": (3e7, 1e7)}, "^cycles_per_example"),
        ({"access_bps": (0.0, 1e6)}, "^access_bps"),
        ({"frequency_min_hz": 2e9}, "^frequency_min_hz"),
        ({"edges": 6000}, "^edges"),
    ],
)
def test_impossible_ranges(changes: dict[str, object], message: str) -> None:
    """Ranges the wrong way round and clocks out of range are refused."""
    with pytest.raises(ValueError, match=message):
        replace(PAPER, **changes)  # type: ignore[arg-type]


def test_work_per_bit() -> None:
    """Tran: 10 to 30 cycles a bit, on examples of 8 bits a value; the draws are those of before."""
    per_bit = replace(PAPER, cycles_per_bit=(10.0, 30.0)).build(Streams(1), Catalogue())
    per_bit = replace(per_bit, example_bits=8.0 * 784)

    cycles = per_bit.cycles(np.arange(5000), 1, None) / (8.0 * 784)

    assert 10 < cycles.min() < 10.2
    assert 29.8 < cycles.max() < 30
    by_example = PAPER.build(Streams(1), Catalogue())
    np.testing.assert_allclose(per_bit.work_factor, by_example.work_factor)


def test_wrong_range_per_bit() -> None:
    """A range that runs backwards is refused by its own name."""
    with pytest.raises(ValueError, match=r"^cycles_per_bit: found"):
        replace(PAPER, cycles_per_bit=(30.0, 10.0))
