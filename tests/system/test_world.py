"""The world's costs, by hand on four clients and in bulk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simfl.common.arrays import IntArray
from simfl.system.codecs.base import Codec
from simfl.system.cost import MissingCost
from simfl.system.segments import COMPUTE, DOWNLOAD, UPLOAD
from simfl.system.world import World
from tests.system.figures import figures, happening

MakeWorld = Callable[..., World]
ALL = np.arange(4)


def test_turn_by_hand(make_world: MakeWorld) -> None:
    """100 examples, 1e7 FLOPs forward, 25 kB down, 12.5 kB up, every client at its highest clock.

    Slow: 100 * 1e7 cycles at 1 GHz are 1 s, 1e-28 * 1e9 * 1e18 = 0.1 J.
    Fast: 3e9 FLOPs at 5e9 FLOP/s are 0.6 s, hence 0.6 * 2 cores * 2e9 = 2.4e9 cycles,
    1e-28 * 2.4e9 * 4e18 = 0.96 J, static 0.25 W * 2 cores * 0.6 s = 0.3 J.
    Down: 0.1 s + 2e5 bit / 2e6 = 0.2 s at 0.75 W less the idle power, 0.5 and 0.625 W.
    Up, near: 0.1 s + 1e5 bit / 1e6 = 0.2 s at 1 - 0.25 W; far: 0.1 + 0.2 = 0.3 s at 1 - 0.125 W.
    """
    far = replace(make_world().links[1], jitter_s=0.0)  # type: ignore[type-var]
    world = make_world(links=[make_world().links[0], far])

    plan = world.plan_rounds(ALL, 0, 100, 1e7, 25_000, 12_500, world.frequency_max_hz)

    np.testing.assert_array_equal(plan.download.wire_bytes, [25_000] * 4)
    np.testing.assert_array_equal(plan.upload.wire_bytes, [12_500] * 4)
    np.testing.assert_array_equal(plan.frequency_hz, [1e9, 2e9, 1e9, 2e9])
    np.testing.assert_allclose(plan.download_s, 0.2)
    np.testing.assert_allclose(plan.download.active_j, [0.1, 0.1, 0.125, 0.125])
    np.testing.assert_allclose(plan.cycles, [1e9, 2.4e9, 1e9, 2.4e9])
    np.testing.assert_allclose(plan.compute_s, [1.0, 0.6, 1.0, 0.6])
    np.testing.assert_allclose(plan.dynamic_j, [0.1, 0.96, 0.1, 0.96])
    np.testing.assert_allclose(plan.static_j, [0.0, 0.3, 0.0, 0.3])
    np.testing.assert_allclose(plan.upload_s, [0.2, 0.2, 0.3, 0.3])
    np.testing.assert_allclose(plan.upload.active_j, [0.15, 0.15, 0.2625, 0.2625])
    np.testing.assert_array_equal(plan.download.network_j, [0.0] * 4)
    for stage, seconds, joules in (
        (DOWNLOAD, plan.download_s, plan.download.active_j),
        (COMPUTE, plan.compute_s, plan.compute_j),
        (UPLOAD, plan.upload_s, plan.upload.active_j),
    ):
        np.testing.assert_allclose(plan.segments.total_s(stage), seconds)
        np.testing.assert_allclose(plan.segments.total_j(stage), joules)


def test_idle_power_is_device_and_radio(make_world: MakeWorld) -> None:
    """Idle powers add up per client, and per edge server with its backhaul interface."""
    world = make_world()

    np.testing.assert_allclose(world.power_idle_w, [2.25, 0.75, 2.125, 0.625])
    assert world.edge_power_idle_w == 60.5
    assert world.cloud_power_idle_w == 60.0


def test_sizes(make_world: MakeWorld) -> None:
    """The world counts its clients and edges."""
    world = make_world()

    assert (world.num_clients, world.num_edges) == (4, 2)


def test_frequencies_are_rounded_per_device(make_world: MakeWorld) -> None:
    """Clipped to each client's range; devices with levels take the nearest one."""
    world = make_world()

    np.testing.assert_array_equal(
        world.round_frequency(ALL, [0.7e9, 1.7e9, 0.1e9, 1.8e9]), [0.7e9, 1.5e9, 0.5e9, 2e9]
    )
    assert world.levels(0) is None
    assert list(world.levels(1)) == [1e9, 1.5e9, 2e9]  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="frequency_hz"):
        world.round_frequency(ALL, np.nan)


def test_factors(make_world: MakeWorld) -> None:
    """Speed divides compute time, work multiplies it, rate divides the bits' time."""
    plain = make_world()
    world = make_world(
        speed_factor=np.array([2.0, 1.0, 1.0, 1.0]),
        work_factor=np.array([1.0, 3.0, 1.0, 1.0]),
        rate_factor=np.array([1.0, 1.0, 1.0, 0.5]),
    )

    before = plain.plan_rounds(ALL, 0, 10, 1e7, 0, 1000, np.inf)
    after = world.plan_rounds(ALL, 0, 10, 1e7, 0, 1000, np.inf)

    np.testing.assert_allclose(after.compute_s / before.compute_s, [0.5, 3.0, 1.0, 1.0])
    np.testing.assert_allclose(after.dynamic_j / before.dynamic_j, [0.5, 3.0, 1.0, 1.0])
    np.testing.assert_allclose(after.upload_s - before.upload_s, [0, 0, 0, 0.016], atol=1e-12)
    np.testing.assert_allclose(
        world.cycles(ALL, 10, 1e7) / plain.cycles(ALL, 10, 1e7), [1.0, 3.0, 1.0, 1.0]
    )


def test_zero_work_and_zero_bytes_cost_nothing(make_world: MakeWorld) -> None:
    """No examples, no bytes: no seconds, no joules, whatever the noise."""
    world = make_world(compute_noise=0.5, transfer_noise=0.5)

    plan = world.plan_rounds(ALL, 3, 0, 1e7, 0, 0, np.inf)

    for name, column in figures(plan).items():
        if name != "frequency_hz":
            np.testing.assert_array_equal(column, 0, err_msg=name)
    assert [happening(plan.segments, client) for client in ALL] == [[]] * 4


def test_the_fixed_time_of_a_training_is_that_of_clients_that_train(make_world: MakeWorld) -> None:
    """Once for any number of examples and steps; a client without an example spends none."""
    plain = make_world()
    machines = [
        replace(one, processor=replace(one.processor, seconds_per_training=2.0))
        for one in plain.devices
    ]
    world, clients = replace(plain, devices=machines), np.array([0, 0, 0])
    examples, fastest = np.array([0.0, 1.0, 500.0]), 1e12

    with_it, without = (
        one.plan_rounds(clients, 3, examples, 1e7, 0, 0, fastest, steps=examples)
        for one in (world, plain)
    )

    device, factor = machines[world.device_index[0]], world.work_factor[0]
    spent = with_it.cycles - without.cycles
    noise = without.cycles[1] / world.cycles(0, 1.0, 1e7, 1.0)[0]
    training = 2.0 * device.processor.cycles_per_s * factor * noise
    assert spent == pytest.approx([0.0, training, training])


def test_order_and_company_do_not_matter(make_world: MakeWorld) -> None:
    """A client's round costs the same alone, in any order and in a bigger population."""
    noise = {"compute_noise": 0.3, "transfer_noise": 0.2}
    world, bigger = make_world(**noise), make_world(clients=8, **noise)
    rounds = np.array([5, 6, 7, 8])

    together = world.plan_rounds(ALL, rounds, 100, 1e7, 1e6, 1e6, np.inf)
    reversed_order = world.plan_rounds(ALL[::-1], rounds[::-1], 100, 1e7, 1e6, 1e6, np.inf)
    alone = bigger.plan_rounds(2, 7, 100, 1e7, 1e6, 1e6, np.inf)

    others = figures(reversed_order), figures(alone)
    for name, row in figures(together).items():
        np.testing.assert_array_equal(row, others[0][name][::-1], err_msg=name)
        np.testing.assert_array_equal(row[2:3], others[1][name], err_msg=name)
    for client in ALL:
        assert happening(together.segments, client) == happening(
            reversed_order.segments, 3 - client
        )
    assert happening(together.segments, 2) == happening(alone.segments, 0)


def test_noise_differs_from_turn_to_turn(make_world: MakeWorld) -> None:
    """Durations scatter with the stated sigma around the noiseless one; joules go with them."""
    world = make_world(compute_noise=0.2, transfer_noise=0.1)
    rounds = np.arange(20_000)
    clients = np.zeros_like(rounds)

    plan = world.plan_rounds(clients, rounds, 100, 1e7, 25_000, 12_500, np.inf)

    assert plan.compute_s.mean() == pytest.approx(1.0, rel=0.01)
    assert np.log(plan.compute_s).std() == pytest.approx(0.2, rel=0.03)
    assert plan.download_s.mean() == pytest.approx(0.2, rel=0.01)
    assert np.log(plan.download_s).std() == pytest.approx(0.1, rel=0.03)
    assert np.corrcoef(plan.download_s, plan.upload_s)[0, 1] == pytest.approx(0.0, abs=0.05)
    np.testing.assert_allclose(plan.dynamic_j / plan.compute_s, 0.1)
    np.testing.assert_allclose(plan.upload.active_j / plan.upload_s, 0.75)


def test_stragglers_are_shifted_exponential(make_world: MakeWorld) -> None:
    """a = 1, mu = 1: a computation takes 2 plain ones on average, the slowest of ten 3.92897.

    The mean of the maximum of n is a + H_n / mu (Lee et al., IEEE T-IT 2018). Confidence
    intervals of four standard errors.
    """
    world = make_world(straggler_mean=1.0)
    rounds = np.arange(40_000)

    plan = world.plan_rounds(np.zeros_like(rounds), rounds, 100, 1e7, 0, 0, np.inf)
    slowest = plan.compute_s.reshape(-1, 10).max(axis=1)

    for sample, mean in ((plan.compute_s, 2.0), (slowest, 3.92897)):
        assert abs(sample.mean() - mean) < 4 * sample.std() / np.sqrt(sample.size)
    assert plan.compute_s.min() > 1.0
    assert world.without_noise.plan_rounds([0], 0, 100, 1e7, 0, 0, np.inf).compute_s[0] == 2.0
    np.testing.assert_allclose(plan.dynamic_j / plan.compute_s, 0.1)


def test_lognormal_noise_has_the_spread_of_the_median_one_form(make_world: MakeWorld) -> None:
    """Sigma 0.5: the form with median 1 has mean 1.1331; both have the variation 0.5329."""
    world = make_world(compute_noise=0.5)
    rounds = np.arange(200_000)

    factor = world.plan_rounds(np.zeros_like(rounds), rounds, 100, 1e7, 0, 0, np.inf).compute_s

    standard_error = factor.std() / np.sqrt(factor.size)
    assert abs(factor.mean() - 1.0) < 4 * standard_error
    assert abs(factor.mean() / np.median(factor) - 1.1331) < 6 * standard_error
    assert factor.std() / factor.mean() == pytest.approx(0.5329, rel=0.02)


def test_work_per_bit_needs_the_examples_size(make_world: MakeWorld) -> None:
    """20 cycles a bit and 4e7 bits are 8e8 cycles; without the size the cost is unknown."""
    plain = make_world()
    slow = replace(plain.devices[0].processor, cycles_per_example=None, cycles_per_bit=20.0)
    world = make_world(devices=[replace(plain.devices[0], processor=slow), plain.devices[1]])

    np.testing.assert_allclose(replace(world, example_bits=4e7).cycles([0], 1, None), 8e8)
    with pytest.raises(MissingCost, match=r"^slow: no figure for example_bits"):
        world.cycles([0], 1, None)


def test_common_random_numbers(make_world: MakeWorld) -> None:
    """Another link changes the transfers; the noise of computing stays what it was."""
    world = make_world(compute_noise=0.3, transfer_noise=0.2)
    other = make_world(
        compute_noise=0.3, transfer_noise=0.2, link_index=1 - np.asarray(world.link_index)
    )

    before = world.plan_rounds(ALL, 1, 100, 1e7, 1e6, 1e6, np.inf)
    after = other.plan_rounds(ALL, 1, 100, 1e7, 1e6, 1e6, np.inf)

    np.testing.assert_array_equal(after.compute_s, before.compute_s)
    assert (after.upload_s != before.upload_s).all()


def test_seed_changes_the_noise(make_world: MakeWorld) -> None:
    """Another seed draws another noise."""
    first = make_world(seed=1, compute_noise=0.3).plan_rounds(ALL, 0, 9, 1e7, 0, 0, np.inf)
    second = make_world(seed=2, compute_noise=0.3).plan_rounds(ALL, 0, 9, 1e7, 0, 0, np.inf)

    assert (first.compute_s != second.compute_s).all()


def test_missing_cost_names_the_device(make_world: MakeWorld) -> None:
    """A model without counted FLOPs is refused on devices rated in FLOPs only."""
    world = make_world()

    assert world.cycles([0, 2], 10, None) == pytest.approx([1e8, 1e8])
    with pytest.raises(MissingCost, match=r"^fast: no figure for forward_flops"):
        world.plan_rounds(ALL, 0, 10, None, 0, 0, np.inf)


def test_backhaul(make_world: MakeWorld) -> None:
    """1 MB: 0.025 s + 8e6 bit / 1e8 = 0.105 s; the edge sends at 1.5, receives at 0.5 W over idle.

    The network spends 2e-7 J per byte, and the noise is addressed by edge, counter and direction.
    """
    up = make_world().backhaul_transfer(1, 0, 10**6, uplink=True)
    down = make_world().backhaul_transfer(1, 0, 10**6, uplink=False)
    noisy = make_world(transfer_noise=0.2)
    draws = [
        float(noisy.backhaul_transfer(edge, counter, 10**6, uplink).duration_s[0])
        for edge, counter, uplink in [(0, 0, True), (1, 0, True), (0, 1, True), (0, 0, False)]
    ]

    assert (float(up.duration_s[0]), float(up.active_j[0])) == pytest.approx((0.105, 0.1575))
    assert (float(down.duration_s[0]), float(down.active_j[0])) == pytest.approx((0.105, 0.0525))
    assert (float(up.network_j[0]), int(up.wire_bytes[0])) == (pytest.approx(0.2), 10**6)
    assert len(set(draws)) == 4


def test_aggregate_uses_the_tiers_machine(make_world: MakeWorld) -> None:
    """Edge work runs on the edge server, cloud work on the cloud server."""
    world = make_world()
    slow_cloud = replace(world.cloud_server, overhead_s=1.0)
    world = make_world(cloud_server=slow_cloud)

    assert float(world.aggregate("edge", 1e9, 1e9).duration_s) == pytest.approx(0.105)
    assert float(world.aggregate("cloud", 1e9, 1e9).duration_s) == pytest.approx(1.1)


def test_codecs_shrink_what_crosses_the_link(make_world: MakeWorld) -> None:
    """Each direction has its codec; bytes, seconds and joules are those on the wire."""

    class Half(Codec):
        """float16."""

        def encoded_bytes(self, raw_bytes: Any) -> IntArray:
            """Half the bytes."""
            return np.asarray(raw_bytes, dtype=np.int64) // 2

    world = make_world(uplink_codec=Half())

    plan = world.plan_rounds([0], 0, 100, 1e7, 25_000, 25_000, np.inf)

    assert (int(plan.download.wire_bytes[0]), int(plan.upload.wire_bytes[0])) == (25_000, 12_500)
    assert float(plan.upload_s[0]) == pytest.approx(0.2)
    assert world.backhaul_transfer(0, 0, 1000, uplink=True).wire_bytes.tolist() == [500]
    assert world.backhaul_transfer(0, 0, 1000, uplink=False).wire_bytes.tolist() == [1000]


def test_without_noise_every_duration_is_at_its_mean(make_world):
    """Compute and transfer noise and the links' jitter are gone, and nothing else has changed."""
    noisy = make_world(compute_noise=0.3, transfer_noise=0.2)
    plain = noisy.without_noise

    first = plain.plan_rounds(np.arange(4), 0, 100.0, 1e6, 1000, 1000, 1e12)
    later = plain.plan_rounds(np.arange(4), 5, 100.0, 1e6, 1000, 1000, 1e12)
    drawn = noisy.plan_rounds(np.arange(4), 5, 100.0, 1e6, 1000, 1000, 1e12)

    for column in ("download_s", "compute_s", "upload_s"):
        np.testing.assert_array_equal(getattr(first, column), getattr(later, column))
        assert (getattr(first, column) != getattr(drawn, column)).all()
    expected = plain.cycles(np.arange(4), 100.0, 1e6) / plain.speed_factor
    np.testing.assert_allclose(first.cycles, expected)
