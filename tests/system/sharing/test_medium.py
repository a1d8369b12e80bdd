"""Transfers in simulated time: exact ends, joules, and what happens at one moment."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from simfl.protocols.clock import Clock
from simfl.system.link import FixedRateLink
from simfl.system.moments import Moment
from simfl.system.sharing.access_point import AirtimeFair, ThroughputFair
from simfl.system.sharing.base import Carried, Sender, Sharing
from simfl.system.sharing.fifo import Fifo
from simfl.system.sharing.max_min import MaxMin
from simfl.system.sharing.medium import Medium
from simfl.system.sharing.ofdma import OfdmaEqual, OfdmaWeighted
from simfl.system.sharing.processor_sharing import ProcessorSharing

EVERY_WAY: list[Sharing] = [
    OfdmaEqual(),
    OfdmaWeighted(),
    ProcessorSharing(1e6),
    ThroughputFair(),
    AirtimeFair(),
    Fifo(),
    Fifo(channels=3),
    MaxMin(access_bps=1.5e6, backhaul_bps=1e6),
]
Plan = Sequence[tuple[float, Sender, float]]


def carried(sharing: Sharing, plan: Plan) -> list[Carried]:
    """What becomes of transfers that begin at given times: (start, sender, bytes)."""
    env = simpy.Environment()
    medium = Medium(env, sharing)
    results: dict[int, Carried] = {}

    def send(number: int, start_s: float, sender: Sender, size_bytes: float):
        yield env.timeout(start_s)
        results[number] = yield medium.transfer(sender, size_bytes)
        assert env.now == results[number].end_s

    for number, (start_s, sender, size_bytes) in enumerate(plan):
        env.process(send(number, start_s, sender, size_bytes))
    env.run()
    assert medium.active == 0
    return [results[number] for number in range(len(plan))]


def ends(sharing: Sharing, plan: Plan) -> list[float]:
    """When they end."""
    return [one.end_s for one in carried(sharing, plan)]


def test_ten_uploads_anchor() -> None:
    """Ten uploads of 40 Mbit over 100 Mbit/s: sharing ends all at 4.0 s, a queue at 2.2 on average.

    The queue's last one ends at 4.0 s too.
    """
    plan = [(0.0, Sender(client, 100e6), 5e6) for client in range(10)]

    together, queued = ends(ProcessorSharing(100e6), plan), ends(Fifo(), plan)

    assert together == [4.0] * 10
    assert np.mean(queued) == pytest.approx(2.2)
    assert max(queued) == pytest.approx(4.0)


@pytest.mark.parametrize(
    "sharing", [ProcessorSharing(1e6), OfdmaEqual(), MaxMin(access_bps=9e6, backhaul_bps=1e6)]
)
def test_a_late_arrival_by_hand(sharing: Sharing) -> None:
    """8 Mbit at 1 Mbit/s; 2 Mbit join at 4 s: both at half the rate, ends at 8 and 10 s."""
    plan = [(0.0, Sender(0, 1e6), 1e6), (4.0, Sender(1, 1e6), 0.25e6)]

    assert ends(sharing, plan) == [10.0, 8.0]


def test_a_queue_by_hand() -> None:
    """First come, first served, on one channel and on two."""
    plan = [(t, Sender(n, 1e6), 1e6 / 8 * s) for n, (t, s) in enumerate([(0, 4), (1, 2), (1.5, 1)])]

    assert ends(Fifo(), plan) == [4.0, 6.0, 7.0]
    assert ends(Fifo(channels=2), plan) == [4.0, 3.0, 4.0]


def test_a_shared_backhaul_by_hand() -> None:
    """Accesses of 1 and 4 Mbit/s behind 3 Mbit/s, 4 Mbit each: 1 and 2, then 1 alone to the end.

    The fast one ends at 2 s; with the slow one's 2 Mbit left a third joins: 1 and 2, until 4 s.
    """
    plan = [
        (0.0, Sender(0, 1e6), 0.5e6),
        (0.0, Sender(1, 4e6), 0.5e6),
        (2.0, Sender(2, 4e6), 1e6),
    ]

    assert ends(MaxMin(access_bps=9e6, backhaul_bps=3e6), plan) == pytest.approx(
        [4.0, 2.0, 2.0 + 2.0 + 4.0 / 3.0]
    )


@pytest.mark.parametrize("sharing", EVERY_WAY, ids=repr)
def test_alone_it_is_a_dedicated_link(sharing: Sharing) -> None:
    """One transfer at a time takes what a link of the same rate takes, and its joules."""
    link = FixedRateLink(
        uplink_bps=1e6,
        downlink_bps=1e6,
        rtt_s=0.0,
        power_transmit_w=2.0,
        power_receive_w=1.0,
        power_idle_w=0.5,
    )
    sizes = np.array([125_000, 1, 7_777, 10**6])
    cost = link.transmit(8.0 * sizes, uplink=True)
    plan = [(100.0 * n, Sender(n, 1e6, power_w=1.5), float(b)) for n, b in enumerate(sizes)]

    results = carried(sharing, plan)

    np.testing.assert_allclose([one.duration_s for one in results], cost.duration_s, rtol=1e-9)
    np.testing.assert_allclose([one.active_j for one in results], cost.active_j, rtol=1e-9)


@pytest.mark.parametrize("sharing", EVERY_WAY, ids=lambda one: type(one).__name__)
def test_what_goes_with_the_rate_is_paid_per_bit(sharing: Sharing) -> None:
    """3 W at 1 Mbit/s, 2 of them by the rate: 1 W on air and 2 J per Mbit, whatever the rate is."""
    senders = [Sender(n, 1e6, power_w=3.0, slope_w=2.0) for n in range(5)]
    plan = [(0.3 * n, sender, 1e5 * (n + 1)) for n, sender in enumerate(senders)]

    for (_, _, size_bytes), one in zip(plan, carried(sharing, plan), strict=True):
        assert one.bits == pytest.approx(8 * size_bytes)
        assert one.active_j == pytest.approx(one.airtime_s + 2.0 * 8e-6 * size_bytes)
    if isinstance(sharing, OfdmaEqual):
        assert one.airtime_s > 2 * one.bits / 1e6


def test_energy_is_paid_for_the_time_on_the_air() -> None:
    """8 Mbit at 4 and 1 Mbit/s: in equal turns 2 and 8 s on the air, in half bands all the time."""
    plan = [(0.0, Sender(0, 4e6, power_w=2.0), 1e6), (0.0, Sender(1, 1e6, power_w=1.0), 1e6)]

    turns, bands, queue = (carried(way, plan) for way in (AirtimeFair(), OfdmaEqual(), Fifo()))

    assert [one.end_s for one in turns] == pytest.approx([4.0, 10.0])
    assert [one.airtime_s for one in turns] == pytest.approx([2.0, 8.0])
    assert [one.active_j for one in turns] == pytest.approx([4.0, 8.0])
    assert [one.airtime_s for one in bands] == pytest.approx([4.0, 10.0])
    assert [one.active_j for one in bands] == pytest.approx([8.0, 10.0])
    assert [one.end_s for one in queue] == pytest.approx([2.0, 10.0])
    assert [one.active_j for one in queue] == pytest.approx([4.0, 8.0])


@pytest.mark.parametrize("sharing", EVERY_WAY, ids=repr)
def test_simultaneous_calls_in_any_order(sharing: Sharing) -> None:
    """What begins at one moment queues by client: the order of calls changes no bit."""
    senders = [Sender(client, 1e6 / (client + 1), route=(client % 2,)) for client in range(4)]
    results = set()

    for order in itertools.permutations(range(4)):
        plan = [(0.5, senders[client], 1e5 * (client + 1)) for client in order]
        ended = ends(sharing, plan)
        results.add(tuple(ended[order.index(client)] for client in range(4)))

    assert len(results) == 1


def test_what_ends_makes_room_at_once() -> None:
    """A transfer begun by the end of another one has the medium from that moment."""
    env = simpy.Environment()
    medium = Medium(env, ProcessorSharing(1e6))
    seen = []

    def one_after_the_other():
        for _ in range(3):
            result = yield medium.transfer(Sender(0, 1e6), 125_000)
            seen.append((result.start_s, result.end_s))

    env.process(one_after_the_other())
    env.run()

    assert seen == [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]


def test_nothing_to_send_ends_at_once() -> None:
    """Zero bytes take no time; a negative or endless size is refused."""
    env = simpy.Environment()
    medium = Medium(env, Fifo())

    nothing = medium.transfer(Sender(0, 1.0), 0)

    assert nothing.triggered
    assert nothing.value == Carried(0.0, 0.0, 0.0, 0.0, 0.0)
    for size in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"^size_bytes: found"):
            medium.transfer(Sender(0, 1.0), size)


def test_broken_off_transfers() -> None:
    """At 4 s, 2 of 8 Mbit are carried at half of 1 Mbit/s; the other goes on alone.

    One broken off in the moment of its beginning has carried nothing.
    """
    env = simpy.Environment()
    medium = Medium(env, ProcessorSharing(1e6))
    first = medium.transfer(Sender(0, 1e6, power_w=2.0), 1e6)
    second = medium.transfer(Sender(1, 1e6), 1e6)
    third = medium.transfer(Sender(2, 1e6), 1e6)

    assert medium.cancel(third).bits == 0.0
    env.run(until=4.0)
    gone = medium.cancel(first)
    env.run()

    assert (gone.start_s, gone.end_s, gone.bits) == (0.0, 4.0, 2e6)
    assert (gone.airtime_s, gone.active_j) == (2.0, 4.0)
    assert second.value.end_s == pytest.approx(10.0)
    assert not first.triggered
    with pytest.raises(ValueError, match="no such transfer"):
        medium.cancel(second)


def test_everything_of_a_moment_counts_before_a_decision() -> None:
    """Decisions come after the medium's change, so a server sees all that has ended."""
    clock = Clock()
    medium = Medium(clock.env, Fifo(channels=2))
    ended = [medium.transfer(Sender(client, 1e6), 125_000) for client in range(2)]
    seen = []

    def watch():
        yield clock.until(1.0)
        yield clock.now(Moment.DECISION)
        seen.append([event.processed for event in ended])

    clock.env.process(watch())
    clock.env.run()

    assert seen == [[True, True]]


class Counting(simpy.Environment):
    """An environment that counts what happens."""

    steps = 0

    def step(self) -> None:
        """One more."""
        self.steps += 1
        super().step()


@pytest.mark.parametrize("duration_s", [1.0, 1e9])
def test_nothing_is_polled(duration_s: float) -> None:
    """A few events per transfer, however long it takes; a cohort's beginning is one change."""
    env = Counting()
    medium = Medium(env, ProcessorSharing(1e6))
    for client in range(500):
        size_bytes = duration_s * (1 + client / 500) * 1e6 / 8 / 500
        medium.transfer(Sender(client, 1e6), size_bytes)

    env.run()

    assert env.steps <= 3 * 500 + 2


senders = st.builds(
    Sender,
    client=st.integers(0, 5),
    rate_bps=st.floats(1e5, 1e7),
    power_w=st.floats(0, 3),
    weight=st.floats(0.1, 3.0),
    snr=st.floats(0.01, 1e4) | st.just(float("inf")),
    route=st.sampled_from([(0,), (1,), (0, 1), ()]),
)


@given(
    sharing=st.sampled_from(EVERY_WAY),
    plan=st.lists(
        st.tuples(
            st.integers(0, 8).map(lambda eighth: eighth / 8) | st.floats(0, 2),
            senders,
            st.integers(0, 10**6).map(float),
        ),
        min_size=1,
        max_size=12,
    ),
)
@settings(max_examples=100)
def test_every_transfer_ends_with_all_its_bits(sharing: Sharing, plan: Plan) -> None:
    """Bits sent are bits carried; nobody is faster than alone; airtime is within the duration."""
    for (start_s, sender, size_bytes), one in zip(plan, carried(sharing, plan), strict=True):
        alone_s = 8 * size_bytes / sender.rate_bps
        assert one.bits == 8 * size_bytes
        assert one.start_s == pytest.approx(start_s, abs=1e-12)
        assert one.duration_s >= alone_s * (1 - 1e-9) - 1e-12
        assert alone_s * (1 - 1e-6) - 1e-9 <= one.airtime_s <= one.duration_s * (1 + 1e-9) + 1e-12
        assert one.active_j == pytest.approx(sender.power_w * one.airtime_s)


@pytest.mark.parametrize("moment", list(Moment)[:-2])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_who_begins_at_one_time_queues_by_client_whatever_began_first(moment, order):
    """One after another over one channel: client 0 first, though others were first to ask."""
    clock = Clock()
    medium, ends_s = Medium(clock.env, Fifo()), {}

    def send(client):
        yield clock.until(1.0, moment)
        yield medium.transfer(Sender(client, 8e6), 1e6)
        ends_s[client] = clock.now_s

    for client in order:
        clock.env.process(send(client))
    clock.env.run()

    assert ends_s == {0: 2.0, 1: 3.0, 2: 4.0}


@pytest.mark.parametrize("sharing", EVERY_WAY, ids=lambda one: type(one).__name__)
def test_the_watts_that_are_told_add_up_to_the_joules(sharing: Sharing) -> None:
    """Batteries are charged the same joules as rows, including the rate-dependent part."""
    env, told = simpy.Environment(), [(0.0, 0.0)]

    def draw(clients: np.ndarray, watts: np.ndarray) -> None:
        told.append((env.now, float(watts.sum())))

    medium = Medium(env, sharing, draw)
    sent = [medium.transfer(Sender(n, 1e6, power_w=3.0, slope_w=2.0), 1e5) for n in range(4)]
    env.run()

    times_s, watts = np.array([*told, (env.now, 0.0)]).T
    told_j = float((np.diff(times_s) * watts[:-1]).sum())
    assert told_j == pytest.approx(sum(one.value.active_j for one in sent))
