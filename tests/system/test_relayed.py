"""Messages to a flat server behind the backhaul, by hand: seconds, joules, draws and losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simfl.system.message_loss import MessageLoss
from simfl.system.messages import Transmission
from simfl.system.world import World
from tests.system.conftest import BACKHAUL, NEAR

MakeWorld = Callable[..., World]
EXACT = {"rtol": 1e-12, "atol": 0.0}
# 1 Mbit/s up and 2 Mbit/s down, 0.1 s and 0.025 s one way: a message of 125,000 B is 1 Mbit.
SIZE = 125_000
SLOW = replace(BACKHAUL, uplink_bps=0.25e6, downlink_bps=0.5e6)


def sent(make_world: MakeWorld, uplink: bool, size: int = SIZE, **changes: Any) -> Transmission:
    """A message of client 0, whose link is NEAR."""
    world = make_world(**{"behind_backhaul": True, **changes})
    return world.access_transfer(0, 0, size, uplink)


@pytest.mark.parametrize(
    ("uplink", "backhaul", "flow_s", "watts"),
    [
        (True, BACKHAUL, 1.0, 0.75),
        (False, BACKHAUL, 0.5, 0.5),
        (True, SLOW, 4.0, 0.75),
        (False, SLOW, 2.0, 0.5),
    ],
)
def test_rates_are_the_slower_links_and_all_else_adds_up(
    make_world: MakeWorld, uplink: bool, backhaul: Any, flow_s: float, watts: float
) -> None:
    """The radio is on air for its own link's latency and bits, and waits for the backhaul."""
    message = sent(make_world, uplink, backhaul=backhaul)

    seconds = 0.1 + 0.025 + flow_s
    np.testing.assert_allclose(message.duration_s, [seconds], **EXACT)
    np.testing.assert_allclose(message.flow_s, [flow_s], **EXACT)
    on_air_s = 0.1 + (1.0 if uplink else 0.5)
    np.testing.assert_allclose(message.active_j, [watts * on_air_s], **EXACT)
    np.testing.assert_allclose(message.network_j, [2e-7 * SIZE], **EXACT)


def test_both_networks_spend_their_joules_per_byte(make_world: MakeWorld) -> None:
    """3e-7 and 2e-7 J per byte."""
    links = [replace(NEAR, energy_j_per_byte=3e-7)]
    message = sent(make_world, True, links=links, link_index=np.zeros(4, int))

    np.testing.assert_allclose(message.network_j, [5e-7 * SIZE], **EXACT)


def test_a_radio_draws_what_its_own_link_takes(make_world: MakeWorld) -> None:
    """At 1 uW per bit/s, over whatever backhaul; also where a quarter of the time it is mute."""
    sloping = replace(NEAR, slope_up_w_per_bps=1e-6)
    silent = replace(sloping, uplink_bps=4e6, duty_cycle=0.25)
    for link in (sloping, silent):
        own = {"links": [link], "link_index": np.zeros(4, int)}
        slow = sent(make_world, True, backhaul=SLOW, **own)
        alone = sent(make_world, True, behind_backhaul=False, **own)

        np.testing.assert_allclose(slow.duration_s, [4.125], **EXACT)
        np.testing.assert_allclose(slow.active_j, alone.active_j, **EXACT)


def test_links_without_latency(make_world: MakeWorld) -> None:
    """One that has none waits for the other's, and is not on air for it."""
    prompt, index = replace(NEAR, rtt_s=0.0), np.zeros(4, int)

    near = sent(make_world, True, links=[prompt], link_index=index)
    far = sent(make_world, True, backhaul=replace(BACKHAUL, rtt_s=0.0))

    np.testing.assert_allclose(near.duration_s, [1.025], **EXACT)
    np.testing.assert_allclose(near.active_j, [0.75 * 1.0], **EXACT)
    np.testing.assert_allclose(far.duration_s, [1.1], **EXACT)


def test_no_message_takes_nothing(make_world: MakeWorld) -> None:
    """No bytes, no row."""
    message = sent(make_world, True, size=0)

    assert message.duration_s.tolist() == message.active_j.tolist() == [0.0]
    assert message.network_j.tolist() == [0.0]


def test_a_backhaul_that_nobody_crosses_changes_nothing(make_world: MakeWorld) -> None:
    """Without `behind_backhaul` it does not concern the clients."""
    plain, slow = (
        sent(make_world, True, backhaul=backhaul, behind_backhaul=False)
        for backhaul in (BACKHAUL, SLOW)
    )

    np.testing.assert_array_equal(plain.segments.seconds, slow.segments.seconds)
    np.testing.assert_allclose(plain.duration_s, [1.1], **EXACT)


def test_an_attempt_is_lost_if_either_link_loses_it(make_world: MakeWorld) -> None:
    """q = 1 - (1 - p)(1 - b), whether links have their own or one probability is given for all."""
    index = np.zeros(4000, int)
    links, backhaul = [replace(NEAR, loss_probability=0.2)], replace(BACKHAUL, loss_probability=0.1)

    def attempts(loss: MessageLoss, behind: bool) -> np.ndarray:
        world = make_world(
            clients=4000,
            links=links,
            link_index=index,
            backhaul=backhaul,
            message_loss=loss,
            behind_backhaul=behind,
        )
        return world.access_transfer(np.arange(4000), 0, SIZE, True).attempts

    own, given = MessageLoss(attempts_max=9), MessageLoss(probability=0.3, attempts_max=9)
    for loss, probability in ((own, 0.2 + 0.1 - 0.02), (given, 0.3 + 0.3 - 0.09)):
        alone, both = attempts(loss, behind=False), attempts(loss, behind=True)
        assert (both >= alone).all()  # the same draws
        assert both.mean() == pytest.approx(1.0 / (1.0 - probability), rel=0.05)


def test_every_attempt_crosses_both(make_world: MakeWorld) -> None:
    """Two attempts and the wait between them."""
    message = sent(make_world, True, message_loss=MessageLoss(probability=1.0, attempts_max=2))

    np.testing.assert_allclose(message.duration_s, [2 * 1.125 + 1.0 + 2.0], **EXACT)
    assert message.failed.tolist() == [True]


def test_the_backhaul_has_draws_of_its_own(make_world: MakeWorld) -> None:
    """The draws of the access links stay the same; jitter and noise of both are visible."""
    clients = np.arange(2000)
    noisy = {"clients": 2000, "transfer_noise": 0.3}
    quiet = replace(BACKHAUL, uplink_bps=1e15, downlink_bps=1e15, rtt_s=0.0)

    def duration_s(behind: bool, **changes: Any) -> np.ndarray:
        world = make_world(**{**noisy, "behind_backhaul": behind, **changes})
        return world.access_transfer(clients, 3, SIZE, True).duration_s

    alone = duration_s(behind=False)
    np.testing.assert_allclose(duration_s(behind=True, backhaul=quiet), alone, rtol=1e-9)
    slow = replace(quiet, uplink_bps=1e3)
    factor = duration_s(behind=True, backhaul=slow) / (8 * SIZE / 1e3)
    assert factor.mean() == pytest.approx(1.0, rel=0.03)
    assert np.log(factor).std() == pytest.approx(0.3, rel=0.05)
    assert abs(np.corrcoef(factor, alone)[0, 1]) < 0.1
    jittery = replace(quiet, rtt_s=100.0, jitter_s=50.0)
    latency_s = duration_s(behind=True, backhaul=jittery, transfer_noise=0.0)
    assert latency_s.std() == pytest.approx(25.0, rel=0.1)


def test_the_radios_states_are_the_clients(make_world: MakeWorld) -> None:
    """The client's radio wakes up; the backhaul's interface is always awake."""
    sleepy = {"promotion_s": 0.5, "power_promotion_w": 1.25}
    waking, index = replace(NEAR, **sleepy), np.zeros(4, int)
    world = make_world(behind_backhaul=True, links=[waking], link_index=index)
    awake = make_world(behind_backhaul=True, backhaul=replace(BACKHAUL, **sleepy))

    client = world.access_transfer(0, 0, SIZE, True, radio_idle_s=np.inf)
    backhaul = awake.access_transfer(0, 0, SIZE, True, radio_idle_s=np.inf)

    np.testing.assert_allclose(client.duration_s, [0.5 + 1.125], **EXACT)
    np.testing.assert_allclose(client.active_j, [0.5 * 1.0 + 0.75 * 1.1], **EXACT)
    np.testing.assert_allclose(backhaul.duration_s, [1.125], **EXACT)
