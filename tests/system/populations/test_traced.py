"""Clients that compute and send as fast as those of a trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simfl.streams import Streams
from simfl.system.catalogue import Catalogue, CatalogueError
from simfl.system.populations.traced import Traced
from simfl.system.traces.tables import Capacities

UNKNOWN = np.full(4, np.nan)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Four phones, one of which has no figures except its rate."""
    up_bps = np.array([1e6, 2e6, 3e6, 6e6])
    table = Capacities(np.array([0.1, 0.2, np.nan, 0.6]), up_bps, up_bps[::-1])
    table.write(tmp_path / "trace.parquet")
    return tmp_path / "trace.parquet"


def test_turns_take_what_the_trace_says(trace: Path) -> None:
    """10 examples take 1, 2 or 6 s at the highest clock, twice that at half of it."""
    world = Traced(clients=3000, compute_trace=trace, rate_trace=trace).build(
        Streams(1), Catalogue()
    )
    world, clients = world.without_noise, np.arange(3000)

    plan = world.plan_rounds(clients, 0, 10, None, 0, 10**6, np.inf)
    slow = world.plan_rounds(clients, 0, 10, None, 0, 10**6, world.frequency_max_hz / 2)

    values, counts = np.unique(plan.compute_s.round(9), return_counts=True)
    np.testing.assert_allclose(values, [1.0, 2.0, 6.0])
    assert (abs(counts - 1000) < 4 * np.sqrt(3000 * 2 / 9)).all()
    np.testing.assert_allclose(slow.compute_s, plan.compute_s * 2.208e9 / slow.frequency_hz)
    # The radio has gone to sleep over the computation and is woken up for the upload.
    link = world.links[0]
    rates = 8e6 / (plan.upload_s - link.rtt_s / 2 - link.promotion_s)
    np.testing.assert_allclose(np.unique(rates.round(3)), [1e6, 2e6, 3e6, 6e6])
    down = world.access_transfer(clients, 0, 10**6, uplink=False)
    opposite = {1e6: 6e6, 2e6: 3e6, 3e6: 2e6, 6e6: 1e6}
    down_bps = 8e6 / (down.duration_s - link.rtt_s / 2)
    np.testing.assert_allclose(down_bps, [opposite[rate] for rate in rates.round()])


def test_without_rates_the_links_own_hold(trace: Path) -> None:
    """No rate trace: everybody has the profile's rate."""
    world = Traced(clients=5, compute_trace=trace).build(Streams(1), Catalogue())

    assert (world.rate_factor == 1).all()
    assert world.links[0] == Catalogue().link("wifi5_ac")


def test_a_trace_without_the_figures(tmp_path: Path) -> None:
    """A trace of rates is not a trace of computing; the error names the key."""
    Capacities(UNKNOWN, np.ones(4), np.ones(4)).write(tmp_path / "rates.parquet")
    population = Traced(clients=2, compute_trace=tmp_path / "rates.parquet")

    with pytest.raises(CatalogueError, match=r"^compute_trace: .*has no row with all figures"):
        population.build(Streams(1), Catalogue())
    absent = Traced(clients=2, compute_trace=tmp_path / "absent.parquet")
    with pytest.raises(CatalogueError, match=r"^compute_trace: .*no such file"):
        absent.build(Streams(1), Catalogue())


def test_an_accelerator_has_no_clock_of_a_cpu(trace: Path) -> None:
    """The device must be one with a CPU."""
    with pytest.raises(CatalogueError, match=r"^device: jetson_nano has no CPU"):
        Traced(clients=2, compute_trace=trace, device="jetson_nano").build(Streams(1), Catalogue())
