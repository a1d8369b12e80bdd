"""Messages in the world: their random draws, radio states between them, and losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from simfl.system.link import FixedRateLink, Link
from simfl.system.log_distance import LogDistanceRadio
from simfl.system.message_loss import MessageLoss
from simfl.system.round_plan import RoundPlan
from simfl.system.segments import COMPUTE
from simfl.system.world import World
from tests.system.figures import figures, happening

MakeWorld = Callable[..., World]
ALL = np.arange(400)
NOISE = {"compute_noise": 0.3, "transfer_noise": 0.2, "message_loss": MessageLoss(0.2)}

WIRED = FixedRateLink(
    uplink_bps=1e6,
    downlink_bps=2e6,
    rtt_s=0.2,
    jitter_s=0.05,
    power_transmit_w=1.0,
    power_receive_w=0.75,
    power_idle_w=0.25,
)
PHONE = replace(
    WIRED, promotion_s=0.5, power_promotion_w=1.25, tail_s=4.0, power_tail_w=0.75, jitter_s=0.0
)
CELL = LogDistanceRadio(
    uplink_bandwidth_hz=1e6,
    downlink_bandwidth_hz=5e6,
    uplink_radiated_w=0.1,
    downlink_radiated_w=1.0,
    noise_figure_db=7.0,
    path_loss_db=128.1,
    path_loss_distance_m=1000.0,
    path_loss_exponent=3.76,
    shadowing_db=8.0,
    spectral_efficiency_max=30.0,
    rtt_s=0.02,
    jitter_s=0.01,
    power_transmit_w=2.0,
    power_receive_w=1.0,
    power_idle_w=0.25,
)


def world_over(make_world: MakeWorld, *links: Link, **changes: object) -> World:
    """400 clients between 100 m and 500 m from one of two edge servers, over these links."""
    position_m = np.stack([np.linspace(100.0, 500.0, ALL.size), np.zeros(ALL.size)], axis=1)
    return make_world(
        clients=ALL.size,
        links=links,
        link_names=[str(number) for number in range(len(links))],
        link_index=ALL % len(links),
        position_m=position_m,
        edge_position_m=np.array([[0.0, 0.0], [600.0, 0.0]]),
        **changes,
    )


def plan(world: World, rounds: int = 3, **more: object) -> RoundPlan:
    """One client round of everybody."""
    return world.plan_rounds(ALL, rounds, 100, 1e7, 250_000, 125_000, 1e12, **more)


@pytest.mark.parametrize("other", [PHONE, CELL, replace(CELL, fading_blocks=4)])
def test_a_change_of_the_uplink_leaves_all_other_draws(make_world: MakeWorld, other: Link) -> None:
    """Common random numbers: half the clients get another link, the other half notice nothing.

    Those with the new link compute as before, noise included.
    """
    before = plan(world_over(make_world, CELL, WIRED, **NOISE))
    after = plan(world_over(make_world, other, WIRED, **NOISE))
    same, computation = ALL % 2 == 1, ("frequency_hz", "cycles", "compute_s", "dynamic_j")

    theirs = figures(after)
    for name, ours in figures(before).items():
        rows = slice(None) if name in computation else same
        np.testing.assert_array_equal(ours[rows], theirs[name][rows], err_msg=name)
    for client in ALL[same].tolist():
        assert happening(before.segments, client) == happening(after.segments, client)
    if other is not CELL:
        assert (before.upload_s[~same] != after.upload_s[~same]).any()


def test_draws_are_the_same_over_another_link(make_world: MakeWorld) -> None:
    """Noise, loss draws and fading belong to client and round: links of other rates share them."""
    slow = replace(CELL, uplink_bandwidth_hz=1e5, rtt_s=0.0, jitter_s=0.0)
    fast = replace(slow, uplink_bandwidth_hz=2e5, uplink_radiated_w=0.2)

    first, second = (plan(world_over(make_world, link, **NOISE)) for link in (slow, fast))

    np.testing.assert_array_equal(first.upload.attempts, second.upload.attempts)
    np.testing.assert_array_equal(first.download_s, second.download_s)
    once = first.upload.attempts == 1
    # Twice the band and power at the same SNR: exactly twice the rate, client by client.
    np.testing.assert_allclose(first.upload_s[once] / second.upload_s[once], 2.0)


def test_the_nearest_are_the_fastest(make_world: MakeWorld) -> None:
    """Without fading and shadowing, time grows with distance to the access point in use."""
    clear = replace(CELL, shadowing_db=0.0, fading_blocks=0, jitter_s=0.0)
    world = world_over(make_world, clear, home_edge=np.zeros(ALL.size, dtype=np.int64))

    home, away = plan(world), plan(world, edges=1)

    assert (np.diff(home.upload_s) > 0).all()
    assert (np.diff(away.upload_s) < 0).all()
    np.testing.assert_array_equal(
        plan(world, edges=np.zeros(ALL.size, int)).upload_s, home.upload_s
    )


def test_fading_changes_from_turn_to_turn_and_can_be_stilled(make_world: MakeWorld) -> None:
    """Another round, another rate; without noise every round is the same, shadowing stays."""
    world = world_over(make_world, replace(CELL, jitter_s=0.0))
    quiet = world.without_noise

    assert (plan(world, 3).upload_s != plan(world, 4).upload_s).all()
    np.testing.assert_array_equal(plan(quiet, 3).upload_s, plan(quiet, 4).upload_s)
    clear = replace(CELL, jitter_s=0.0, shadowing_db=0.0)
    assert (
        plan(quiet).upload_s != plan(world_over(make_world, clear).without_noise).upload_s
    ).all()


def test_company_does_not_matter_on_radio_links(make_world: MakeWorld) -> None:
    """A client's round costs the same alone and in a cohort, losses and fading included."""
    world = world_over(make_world, CELL, WIRED, **NOISE)

    together = plan(world, radio_idle_s=5.0)
    alone = world.plan_rounds(7, 3, 100, 1e7, 250_000, 125_000, 1e12, radio_idle_s=5.0)

    by_itself = figures(alone)
    for name, column in figures(together).items():
        np.testing.assert_array_equal(column[7:8], by_itself[name], err_msg=name)
    assert happening(together.segments, 7) == happening(alone.segments, 0)


def test_sent_is_received_plus_lost(make_world: MakeWorld) -> None:
    """In both directions, and lost attempts cost seconds and joules of the whole message."""
    lossy = plan(world_over(make_world, WIRED, message_loss=MessageLoss(0.5, 1.0, 3)))
    clean = plan(world_over(make_world, WIRED))

    for message, once in ((lossy.download, clean.download), (lossy.upload, clean.upload)):
        attempts, failed = message.attempts, message.failed
        size, lost = message.wire_bytes, message.lost_bytes
        np.testing.assert_array_equal(attempts * size, np.where(failed, 0, size) + lost)
        assert set(attempts) == {1, 2, 3}
        assert failed.mean() == pytest.approx(0.125, abs=0.06)
        waits_s = np.array([0.0, 0.0, 1.0, 3.0])[attempts] + 4.0 * failed
        np.testing.assert_allclose(message.duration_s, attempts * once.duration_s + waits_s)
        np.testing.assert_allclose(message.active_j, attempts * once.active_j)
    assert (lossy.download.attempts != lossy.upload.attempts).any()


def test_the_backhaul_loses_messages_too(make_world: MakeWorld) -> None:
    """Each of an edge server's messages has its own loss draws."""
    world = make_world(message_loss=MessageLoss(0.5))

    messages = world.backhaul_transfer(1, np.arange(1000), 10**6, uplink=True)

    assert messages.attempts.mean() == pytest.approx(1.875, abs=0.1)
    assert messages.failed.mean() == pytest.approx(0.0625, abs=0.025)


def test_radio_states_through_a_turn(make_world: MakeWorld) -> None:
    """The client round's messages promote a sleeping radio; its tail burns in the gaps, once.

    Computations take 1 s (even clients) and 0.6 s, less than the 4 s tail at 0.5 W beyond idle;
    the promotion is 0.5 s at 1 W beyond idle.
    """
    world = world_over(make_world, PHONE)
    awake, first, asleep = (plan(world, radio_idle_s=s) for s in (1.5, np.inf, 60.0))

    np.testing.assert_allclose(awake.download.promotion_j, 0.0)
    for cold in (first, asleep):
        np.testing.assert_allclose(cold.download_s - awake.download_s, 0.5)
        np.testing.assert_allclose(cold.download.active_j - awake.download.active_j, 0.5)
        np.testing.assert_allclose(cold.download.promotion_j, 0.5)
        np.testing.assert_allclose(cold.upload.promotion_j, 0.0)
        np.testing.assert_allclose(cold.compute_tail_j, 0.5 * cold.compute_s)
        working = cold.segments.span(COMPUTE)
        np.testing.assert_allclose(cold.segments.tail_j[working].sum(axis=0), cold.compute_tail_j)
        np.testing.assert_allclose(cold.segments.total_j(COMPUTE), cold.compute_j)
    np.testing.assert_array_equal(awake.radio_idle_s, 0.0)


def test_a_long_computation_outlasts_the_tail(make_world: MakeWorld) -> None:
    """After more than 4 s of computation the upload needs a promotion again."""
    world = world_over(make_world, PHONE)
    brief = world.plan_rounds(ALL, 0, 100, 1e7, 250_000, 125_000, 1e12)
    long = world.plan_rounds(ALL, 0, 10_000, 1e7, 250_000, 125_000, 1e12)

    np.testing.assert_allclose(long.compute_tail_j, 2.0)
    np.testing.assert_allclose(long.upload_s - brief.upload_s, 0.5)
    np.testing.assert_allclose(long.upload.promotion_j, 0.5)


def test_without_a_download_the_tail_goes_on(make_world: MakeWorld) -> None:
    """A client round that only uploads: 3.5 s after the last message 0.5 s of tail are left."""
    world = world_over(make_world, PHONE)
    up = world.plan_rounds(ALL, 0, 100, 1e7, 0, 125_000, 1e12, radio_idle_s=3.5)
    none = world.plan_rounds(ALL, 0, 100, 1e7, 0, 0, 1e12, radio_idle_s=3.5)

    np.testing.assert_allclose(up.compute_tail_j, 0.25)
    np.testing.assert_allclose(up.upload.promotion_j, 0.5)
    np.testing.assert_allclose(none.radio_idle_s, 3.5 + none.compute_s)
    idle_s, lasts_s = np.array([3.0, 3.0, np.inf]), np.array([0.5, 6.0, 6.0])
    tail_s, tail_j = world.messenger.tail(ALL[:3], idle_s, lasts_s)
    np.testing.assert_allclose(tail_s, [0.5, 1.0, 0.0])
    np.testing.assert_allclose(tail_j, [0.25, 0.5, 0.0])


def test_a_backhaul_has_no_place_to_measure_from(make_world: MakeWorld) -> None:
    """A radio whose rate depends on distance cannot lead to the cloud."""
    with pytest.raises(ValueError, match=r"^backhaul"):
        make_world(backhaul=CELL)


def test_an_empty_cohort_costs_nothing(make_world: MakeWorld) -> None:
    """Nobody asked, nothing planned."""
    nobody = world_over(make_world, CELL, **NOISE).plan_rounds([], 0, 100, 1e7, 10, 10, 1e9)

    assert nobody.upload_s.size == nobody.upload.attempts.size == 0
