"""Two rules in a row, by hand: what access points let through, and what the backhaul does."""

from __future__ import annotations

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from simfl.system.across_backhaul import AcrossBackhaul, check_rules
from simfl.system.sharing.access_point import AirtimeFair, ThroughputFair
from simfl.system.sharing.base import Carried, Flows, Sender, Sharing
from simfl.system.sharing.dedicated import Dedicated
from simfl.system.sharing.fifo import Fifo
from simfl.system.sharing.max_min import BACKHAUL, MaxMin
from simfl.system.sharing.medium import Medium
from simfl.system.sharing.ofdma import OfdmaEqual, OfdmaWeighted
from simfl.system.sharing.processor_sharing import ProcessorSharing

ACCESS: list[Sharing] = [
    Dedicated(),
    OfdmaEqual(),
    OfdmaWeighted(),
    ProcessorSharing(4e6),
    ThroughputFair(),
    AirtimeFair(),
    Fifo(),
    MaxMin(access_bps=4e6, backhaul_bps=6e6),
]
PIPES: list[Sharing] = [
    Dedicated(),
    ProcessorSharing(3e6),
    Fifo(),
    Fifo(channels=2),
    MaxMin(access_bps=1.0, backhaul_bps=3e6),
]
RULES = [
    AcrossBackhaul(one, two)
    for one in ACCESS
    for two in PIPES
    if not (two.contended and isinstance(one, MaxMin))
]


def shared(
    access: Sharing, backhaul: Sharing, *senders: tuple[float, float, int]
) -> tuple[list[float], list[float]]:
    """Rates in Mbit/s and duties of (own Mbit/s, Mbit/s behind, channel)."""
    rule = AcrossBackhaul(access, backhaul)
    flows = Flows.of(
        [
            Sender(n, own * 1e6, behind_bps=behind * 1e6, channel=channel, route=(1, BACKHAUL))
            for n, (own, behind, channel) in enumerate(senders)
        ]
    )
    rates = rule.rates_bps(flows)
    return (rates / 1e6).tolist(), rule.duty(flows, rates).tolist()


def test_a_pipe_behind_links_of_their_own() -> None:
    """A third of 3 Mbit/s each, or less; a download has the other direction to itself."""
    rates, duty = shared(
        Dedicated(), ProcessorSharing(3e6), (10, 9, 1), (10, 5, 3), (0.5, 9, 1), (10, 2, 0)
    )

    np.testing.assert_allclose(rates, [1.0, 1.0, 0.5, 2.0])
    np.testing.assert_allclose(duty, [1 / 10, 1 / 10, 1.0, 2 / 10])


def test_wifi_before_a_slow_backhaul() -> None:
    """1 / (1/6 + 1/3) = 2 on air, up and down together, and 1.5 behind; the next cell has its own.

    Who is held up behind the access point is on air for no longer than its bits take at its rate.
    """
    rates, duty = shared(ThroughputFair(), Dedicated(), (6, 1.5, 1), (3, 9, 0), (6, 1.5, 3))

    np.testing.assert_allclose(rates, [1.5, 2.0, 1.5])
    np.testing.assert_allclose(duty, [1.5 / 6, 2 / 3, 1.5 / 6])


def test_who_waits_for_its_access_point_takes_no_part_of_the_backhaul() -> None:
    """Two of three send, and share 2 Mbit/s."""
    rates, duty = shared(Fifo(), ProcessorSharing(2e6), (4, 9, 1), (4, 9, 1), (4, 9, 3))

    np.testing.assert_allclose(rates, [1.0, 0.0, 1.0])
    np.testing.assert_allclose(duty, [0.25, 0.0, 0.25])


def test_who_is_slow_leaves_the_rest() -> None:
    """Max-min, as the rule of either hop."""
    behind, _ = shared(
        Dedicated(), MaxMin(access_bps=1.0, backhaul_bps=3e6), (0.5, 9, 1), (10, 9, 3)
    )
    before, _ = shared(
        MaxMin(access_bps=4e6, backhaul_bps=6e6), Dedicated(), (10, 1, 1), (10, 9, 1)
    )

    np.testing.assert_allclose(behind, [0.5, 2.5])
    np.testing.assert_allclose(before, [1.0, 3.0])


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_alone_it_is_the_slower_link(rule: AcrossBackhaul) -> None:
    """Whatever the rules are, if they have room; the radio is on air at its own rate."""
    for own, behind in ((1.0, 2.5), (2.5, 1.0)):
        rates, duty = shared(rule.access, rule.backhaul, (own, behind, 1))
        assert (rates, duty) == ([1.0], [pytest.approx(1.0 / own)])


SENDERS = st.lists(
    st.tuples(st.floats(0.1, 9.0), st.floats(0.1, 9.0), st.integers(0, 5)), min_size=1, max_size=8
)


@given(rule=st.sampled_from(RULES), senders=SENDERS)
@settings(max_examples=150, deadline=None)
def test_nobody_gets_more_than_either_hop_has(
    rule: AcrossBackhaul, senders: list[tuple[float, float, int]]
) -> None:
    """Nor more than its own rates; and somebody always sends."""
    rates, duty = (np.array(each) for each in shared(rule.access, rule.backhaul, *senders))

    own, behind, channel = (np.array(column) for column in zip(*senders, strict=True))
    assert (rates <= np.minimum(own, behind) * (1 + 1e-9)).all()
    assert rates.max() > 0
    assert ((duty > 0) == (rates > 0)).all()
    assert (duty <= 1 + 1e-9).all()
    if isinstance(rule.backhaul, ProcessorSharing | MaxMin):
        for uplink in (0, 1):
            assert rates[channel % 2 == uplink].sum() <= 3.0 * (1 + 1e-9)
    if isinstance(rule.access, ProcessorSharing):
        for one in range(6):
            assert rates[channel == one].sum() <= 4.0 * (1 + 1e-9)


@given(rule=st.sampled_from(RULES), senders=SENDERS)
@settings(max_examples=100, deadline=None)
def test_every_transfer_comes_to_its_end(
    rule: AcrossBackhaul, senders: list[tuple[float, float, int]]
) -> None:
    """With all its bits, and its radio on for no longer than it lasts."""
    env = simpy.Environment()
    medium, found = Medium(env, rule), list[Carried]()

    def send(number: int) -> object:
        own, behind, channel = senders[number]
        yield env.timeout(0.1 * (number % 3))
        sender = Sender(
            number, own * 1e6, 1.0, behind_bps=behind * 1e6, channel=channel, route=(1, BACKHAUL)
        )
        found.append((yield medium.transfer(sender, 1e5)))

    for number in range(len(senders)):
        env.process(send(number))
    env.run()

    assert [one.bits for one in found] == [8e5] * len(senders)
    for one in found:
        assert 0 < one.airtime_s <= one.duration_s * (1 + 1e-9)


@pytest.mark.parametrize("backhaul", [ThroughputFair(), AirtimeFair(), OfdmaEqual()])
def test_a_backhaul_is_no_air(backhaul: Sharing) -> None:
    """Shares of a radio's time or band do not apply to traffic behind access points."""
    with pytest.raises(ValueError, match=r"^backhaul_sharing: .* radio's air.*accepted: dedicated"):
        check_rules(Dedicated(), backhaul)


def test_one_rule_for_the_backhaul() -> None:
    """`max_min` has one of its own."""
    with pytest.raises(ValueError, match="second rule for the backhaul"):
        check_rules(MaxMin(access_bps=1e6, backhaul_bps=1e6), Fifo())
    check_rules(MaxMin(access_bps=1e6, backhaul_bps=1e6), Dedicated())
