"""Shared media against queueing theory, with confidence intervals; service rate 1, fixed seeds.

Intervals are 99 % ones from batch means. Each is narrow enough to tell the laws apart: at a load of
0.5 the mean time in the system is 2 (M/M/1, and sharing under any law), 1.5 (M/D/1), 3.5 (M/G/1 in
a queue with C^2 = 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import simpy
from scipy.stats import t as student

from simfl.streams import Streams
from simfl.system.sharing.base import Sender, Sharing
from simfl.system.sharing.fifo import Fifo
from simfl.system.sharing.max_min import MaxMin
from simfl.system.sharing.medium import Medium
from simfl.system.sharing.processor_sharing import ProcessorSharing

BATCHES = 20
SHARED = ProcessorSharing(1.0)
Law = Callable[[Streams, np.ndarray], np.ndarray]


def exponential(streams: Streams, job: np.ndarray) -> np.ndarray:
    """Mean 1, C^2 = 1."""
    return streams.exponential("size", 0, job)


def fixed(streams: Streams, job: np.ndarray) -> np.ndarray:
    """Always 1."""
    return np.ones(job.size)


def half_or_two(streams: Streams, job: np.ndarray) -> np.ndarray:
    """2 with probability 1/3, else 0.5: mean 1."""
    return np.where(streams.uniform("size", 0, job) < 1 / 3, 2.0, 0.5)


def short_or_long(streams: Streams, job: np.ndarray) -> np.ndarray:
    """6 with probability 4/29, else 0.2: mean 1, C^2 = 4."""
    return np.where(streams.uniform("size", 0, job) < 4 / 29, 6.0, 0.2)


@dataclass(frozen=True)
class Seen:
    """One run: each job's gap to the one before, size and time in the system; jobs present."""

    gap: np.ndarray
    size: np.ndarray
    time: np.ndarray
    arrival_rate: float
    present: np.ndarray


def run(sharing: Sharing, law: Law, load: float, jobs: int) -> Seen:
    """Poisson arrivals of jobs at a medium of rate 1; the first tenth is warm-up."""
    env, streams, job = simpy.Environment(), Streams(1), np.arange(jobs)
    medium = Medium(env, sharing)
    gap, size = streams.exponential("gap", 0, job) / load, law(streams, job)
    time = np.empty(jobs)
    present: list[int] = []

    def arrive():
        for number, (wait, bits) in enumerate(zip(gap, size, strict=True)):
            yield env.timeout(wait)
            event = medium.transfer(Sender(number, 1.0), bits / 8.0)
            event.callbacks.append(
                lambda one, number=number: time.__setitem__(number, one.value.duration_s)
            )

    def look():
        while True:
            yield env.timeout(0.5)
            present.append(medium.active)

    env.process(look())
    env.run(until=env.process(arrive()))
    env.run(until=env.now + 200.0)
    assert medium.active == 0
    warm, end = jobs // 10, float(gap.sum())
    begin = float(gap[:warm].sum())
    seen = np.array(present[int(begin / 0.5) : int(end / 0.5)])
    return Seen(gap[warm:], size[warm:], time[warm:], (jobs - warm) / (end - begin), seen)


def interval(values: np.ndarray) -> tuple[float, float]:
    """Mean and half-width of its 99 % interval, by batch means."""
    means = np.array([batch.mean() for batch in np.array_split(values, BATCHES)])
    half = student.ppf(0.995, BATCHES - 1) * means.std(ddof=1) / math.sqrt(BATCHES)
    return float(values.mean()), float(half)


def assert_mean(values: np.ndarray, theory: float, width: float) -> None:
    """`theory` is in the interval, and the interval narrower than `width` of it."""
    mean, half = interval(values)
    assert half < width * theory, (mean, half)
    assert abs(mean - theory) <= half, (mean, half)


CASES = [
    pytest.param(Fifo(), exponential, lambda rho: 1 / (1 - rho), id="M/M/1"),
    pytest.param(Fifo(), fixed, lambda rho: 1 + rho / (2 * (1 - rho)), id="M/D/1"),
    pytest.param(Fifo(), short_or_long, lambda rho: 1 + 5 * rho / (2 * (1 - rho)), id="M/G/1"),
    pytest.param(SHARED, exponential, lambda rho: 1 / (1 - rho), id="M/M/1-PS"),
    pytest.param(SHARED, fixed, lambda rho: 1 / (1 - rho), id="M/D/1-PS"),
    pytest.param(SHARED, short_or_long, lambda rho: 1 / (1 - rho), id="M/G/1-PS"),
]


@pytest.mark.parametrize(("sharing", "law", "time"), CASES)
def test_mean_time_in_the_system(
    sharing: Sharing, law: Law, time: Callable[[float], float]
) -> None:
    """At a load of 0.5, within a 99 % interval of at most 20 % to either side."""
    assert_mean(run(sharing, law, 0.5, 6000).time, time(0.5), width=0.2)


@pytest.mark.slow
@pytest.mark.parametrize(("sharing", "law", "time"), CASES)
def test_anchors_at_a_load_of_four_fifths(
    sharing: Sharing, law: Law, time: Callable[[float], float]
) -> None:
    """M/M/1 5, M/D/1 3, M/G/1 with C^2 = 4 11, sharing 5 under any law."""
    anchors = {exponential: 5.0, fixed: 3.0 if isinstance(sharing, Fifo) else 5.0}
    anchors[short_or_long] = 11.0 if isinstance(sharing, Fifo) else 5.0
    assert time(0.8) == pytest.approx(anchors[law])
    assert_mean(run(sharing, law, 0.8, 60_000).time, time(0.8), width=0.2)


def test_sharing_is_fair_to_every_size() -> None:
    """E[T | x] = x / (1 - rho): at a load of 0.5 a size of 2 takes 4, one of 0.5 takes 1."""
    seen = run(SHARED, half_or_two, 0.5, 6000)

    assert_mean(seen.time[seen.size == 2.0], 4.0, width=0.12)
    assert_mean(seen.time[seen.size == 0.5], 1.0, width=0.12)


@pytest.mark.slow
def test_sharing_is_fair_to_every_size_at_a_load_of_four_fifths() -> None:
    """x = 2 takes 10 s."""
    seen = run(SHARED, half_or_two, 0.8, 60_000)

    assert_mean(seen.time[seen.size == 2.0], 10.0, width=0.15)
    assert_mean(seen.time[seen.size == 0.5], 2.5, width=0.15)


@pytest.mark.parametrize(
    ("sharing", "law"), [(Fifo(), exponential), (SHARED, short_or_long), (Fifo(2), fixed)]
)
def test_littles_law(sharing: Sharing, law: Law) -> None:
    """Jobs present, sampled in time, are arrival rate times time in the system, run by run."""
    seen = run(sharing, law, 0.6, 4000)

    present, half = interval(seen.present)

    assert present == pytest.approx(seen.arrival_rate * seen.time.mean(), abs=half)
    assert half < 0.3 * present


def test_a_queue_is_lindleys_recursion() -> None:
    """Every single time: wait = max(0, wait before + size before - gap)."""
    seen = run(Fifo(), short_or_long, 0.8, 2000)
    waits = seen.time - seen.size

    expected = np.maximum(0.0, waits[:-1] + seen.size[:-1] - seen.gap[1:])

    np.testing.assert_allclose(waits[1:], expected, atol=1e-9)


def test_max_min_of_one_link_is_processor_sharing() -> None:
    """The same arrivals take the same times, to rounding."""
    shared = run(SHARED, exponential, 0.7, 800)
    fair = run(MaxMin(access_bps=9.0, backhaul_bps=1.0), exponential, 0.7, 800)

    np.testing.assert_allclose(fair.time, shared.time, rtol=1e-9)
