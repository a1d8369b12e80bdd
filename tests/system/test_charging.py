"""Chargers by the hour, harvests, and the batteries of a population."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simfl.streams import Streams
from simfl.system.catalogue import Catalogue
from simfl.system.charging import Charging, batteries_by_group

DEVICES = [Catalogue().device("phone_mid_sd660"), Catalogue().device("rpi_4b")]
INDEX = np.arange(2000) % 2
PHONES = np.arange(0, 2000, 2)
NIGHTS = Charging(hours_spread_s=0.0)


def test_batteries_of_a_population() -> None:
    """Phones have the catalogue's joules, charged evenly between the limits; boards have mains."""
    batteries = NIGHTS.build(DEVICES, INDEX, Streams(1))

    assert (batteries.capacity_j[PHONES] == 4.643e4).all()
    assert np.isinf(batteries.capacity_j[1::2]).all()
    level = batteries.level(PHONES)
    assert 0.5 <= level.min() < 0.505 < 0.995 < level.max() <= 1.0
    assert level.mean() == pytest.approx(0.75, abs=0.02)


@pytest.mark.parametrize(
    ("hour", "watts"), [(0, 5.0), (6.9, 5.0), (7, 0.0), (21.9, 0.0), (22, 5.0)]
)
def test_charged_at_night(hour: float, watts: float) -> None:
    """From 22 h to 7 h, every night."""
    batteries = NIGHTS.build(DEVICES, INDEX, Streams(1))

    assert (batteries.supply_w(PHONES, hour * 3600) == watts).all()
    assert (batteries.supply_w(PHONES, (hour + 48) * 3600) == watts).all()


def test_a_charger_by_day() -> None:
    """Plugged in before it is unplugged, within one day."""
    batteries = Charging(plug_in_s=36_000, unplug_s=39_600, hours_spread_s=0.0).build(
        DEVICES, INDEX, Streams(1)
    )

    assert [float(batteries.supply_w(PHONES[:1], 3600.0 * h)[0]) for h in (9, 10, 10.9, 11)] == [
        0.0,
        5.0,
        5.0,
        0.0,
    ]


def test_a_run_that_begins_in_the_evening() -> None:
    """From 21 h on the charger is plugged in after an hour, and the sun of noon shines in 15 h."""
    charging = replace(NIGHTS, charge_w=5.0, harvest_w=((0.0, 0.0), (43_200.0, 2.0)))
    batteries = charging.build(DEVICES, INDEX, Streams(1), start_s=21 * 3600.0)

    watts = [float(batteries.supply_w(PHONES[:1], 3600.0 * hour)[0]) for hour in (0, 1, 9, 10, 15)]

    assert watts == [2.0, 7.0, 5.0, 0.0, 2.0]


def test_a_night_gives_what_a_charger_gives() -> None:
    """9 h at 5 W are 162 kJ; an idle phone of 0.04 W is full in the morning, the rest spills."""
    batteries = replace(NIGHTS, initial=(0.5, 0.5)).build(DEVICES, INDEX, Streams(1))

    flow = batteries.advance(PHONES, 86_400.0, 0.04)

    assert flow.charged_j + flow.spilled_j == pytest.approx(9 * 3600 * 5.0)
    assert flow.drawn_j == pytest.approx(0.04 * 86_400)
    assert flow.charged_j == pytest.approx(0.5 * 4.643e4 + 0.04 * 86_400)
    assert batteries.level(PHONES) == pytest.approx(1.0)


def test_hours_differ_from_client_to_client() -> None:
    """With a spread of an hour, at 22 h half of the phones hang on their charger already."""
    batteries = Charging(hours_spread_s=3600.0).build(DEVICES, INDEX, Streams(2))

    plugged = batteries.supply_w(PHONES, 22 * 3600.0) > 0

    assert abs(plugged.mean() - 0.5) < 4 * 0.5 / np.sqrt(PHONES.size)


@pytest.mark.parametrize(("keys", "able"), [({"charge_w": 0.0}, False), ({}, True)])
def test_below_its_lowest_level_a_phone_takes_part_only_at_a_charger(
    keys: dict[str, float], able: bool
) -> None:
    """At midnight, with 10 % and a harvest."""
    charging = Charging(hours_spread_s=0.0, harvest_w=((0.0, 2.0),), initial=(0.1, 0.1), **keys)
    batteries = charging.build(DEVICES, INDEX, Streams(1))

    assert (batteries.supply_w(PHONES, 0.0) >= 2.0).all()
    assert (batteries.can_take_part(PHONES) == able).all()


def test_a_harvest() -> None:
    """A panel that gives 2 W around noon, more or less of it from client to client."""
    sunny = replace(
        NIGHTS, charge_w=0.0, harvest_w=((0.0, 0.0), (36_000.0, 2.0), (50_400.0, 0.0)),
        harvest_spread=0.3,
    )  # fmt: skip
    batteries = sunny.build(DEVICES, INDEX, Streams(3))

    noon = batteries.supply_w(PHONES, 12 * 3600.0)

    assert noon.mean() == pytest.approx(2.0, rel=0.04)
    assert np.log(noon).std() == pytest.approx(0.3, rel=0.1)
    assert (batteries.supply_w(PHONES, 0.0) == 0).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"plug_in_s": 1.0, "unplug_s": 1.0}, "^unplug_s"),
        ({"initial": (0.9, 0.1)}, "^initial: found"),
        ({"harvest_w": ((5.0, 1.0),)}, "^harvest_w: found 5 s as the first time, accepted: 0"),
        ({"harvest_w": ((0.0, -1.0),)}, "^harvest_w: found -1 W, accepted: >= 0"),
    ],
)
def test_contradictory_fields(changes: dict[str, object], message: str) -> None:
    """Keys that contradict each other are refused, the field first."""
    with pytest.raises(ValueError, match=message):
        replace(NIGHTS, **changes)  # type: ignore[arg-type]


def test_groups_charge_their_batteries_in_their_own_way() -> None:
    """With the draws that each client would have anyway; the others have mains power."""
    solar = replace(NIGHTS, charge_w=0.0, harvest_w=((0.0, 0.0), (43_200.0, 2.0)), lowest=0.4)
    ways, group = [NIGHTS, solar, None], np.arange(2000) // 2 % 3
    clients = [np.intersect1d(PHONES, np.flatnonzero(group == one)) for one in range(3)]

    batteries = batteries_by_group(ways, group, DEVICES, INDEX, Streams(1))

    assert batteries is not None
    for way, own in zip(ways[:2], clients, strict=False):
        alone = way.build(DEVICES, INDEX, Streams(1)) if way else batteries
        np.testing.assert_array_equal(batteries.level(own), alone.level(own))
        for hour in (3, 13):
            watts = batteries.supply_w(own, hour * 3600.0)
            np.testing.assert_array_equal(watts, alone.supply_w(own, hour * 3600.0))
        morning_s = np.full(own.size, 8 * 3600.0)  # at noon only the other group's supply changes
        changes_s = batteries.next_change_s(own, morning_s)
        np.testing.assert_array_equal(changes_s, alone.next_change_s(own, morning_s))
    assert set(batteries.lowest[clients[0]]) == {0.2} and set(batteries.lowest[clients[1]]) == {0.4}
    assert np.isinf(batteries.capacity_j[clients[2]]).all()
    assert batteries_by_group([None], np.zeros(2000, int), DEVICES, INDEX, Streams(1)) is None


def test_one_way_for_all_is_that_way() -> None:
    """To the bit, so that runs do not depend on how their batteries are put together."""
    way = replace(NIGHTS, hours_spread_s=3600.0, harvest_w=((0.0, 1.0),), harvest_spread=0.5)

    batteries = batteries_by_group([way, way], INDEX, DEVICES, INDEX, Streams(1))

    assert batteries is not None
    loads_w = np.full(PHONES.size, 0.9)
    flows = [
        each.advance(PHONES, 1e5, loads_w)
        for each in (batteries, way.build(DEVICES, INDEX, Streams(1)))
    ]
    np.testing.assert_array_equal(flows[0].charged_j, flows[1].charged_j)
    np.testing.assert_array_equal(flows[0].empty_s, flows[1].empty_s)
