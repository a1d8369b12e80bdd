"""The population mixed from the catalogue."""

from __future__ import annotations

import time
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from simfl.streams import Streams
from simfl.system.catalogue import Catalogue, CatalogueError
from simfl.system.equipment import client_columns
from simfl.system.populations.catalogue import CatalogueMix, Group
from simfl.system.traces.tables import Capacities

GROUPS = (
    Group("rpi_4b", "wifi5_ac", share=0.5),
    Group("phone_high_sd865", "lte_2021", share=0.3),
    Group("jetson_nano", "wifi5_ac", share=0.2),
)
MIX = CatalogueMix(
    clients=40, edges=4, groups=GROUPS, speed_spread=0.5, rate_spread=0.3, compute_noise=0.05
)


def test_columns_follow_the_groups() -> None:
    """Devices and links are shared objects, the columns point to them."""
    world = MIX.build(Streams(1), Catalogue())

    names = [
        (world.devices[device].name, world.link_names[link])
        for device, link in zip(world.device_index, world.link_index, strict=True)
    ]
    assert set(names) == {(group.device, group.link) for group in GROUPS}
    assert (len(world.devices), len(world.links)) == (3, 2)
    assert (world.num_clients, world.num_edges) == (40, 4)
    maxima = np.array([device.processor.frequency_max_hz for device in world.devices])
    np.testing.assert_array_equal(world.frequency_max_hz, maxima[world.device_index])
    np.testing.assert_array_equal(np.bincount(world.home_edge), [10, 10, 10, 10])
    assert world.backhaul == Catalogue().link("wan_edge_cloud")
    assert world.compute_noise == 0.05


@pytest.mark.parametrize("seed", range(5))
def test_shares_hold_in_small_populations(seed: int) -> None:
    """The golden-ratio sequence keeps each group within two clients of its share.

    Independent draws would scatter with a standard deviation of three.
    """
    world = MIX.build(Streams(seed), Catalogue())

    counts = np.bincount(world.device_index, minlength=3)
    np.testing.assert_allclose(counts, [20, 12, 8], atol=2.0)


def test_seed_deals_the_groups() -> None:
    """Another seed gives the same shares to other clients."""
    first, second = (MIX.build(Streams(seed), Catalogue()).device_index for seed in (1, 2))

    assert (first != second).any()


def test_one_more_client_shifts_nobody() -> None:
    """Adding clients changes no column of the earlier ones but their home edge."""
    few = MIX.build(Streams(1), Catalogue())
    more = replace(MIX, clients=57).build(Streams(1), Catalogue())

    for column in fields(few):
        rows = getattr(few, column.name)
        if isinstance(rows, np.ndarray) and column.name != "home_edge":
            np.testing.assert_array_equal(getattr(more, column.name)[: len(rows)], rows)


def test_power_modes() -> None:
    """The same device in two modes is two devices, with the clocks of their modes."""
    groups = (
        Group("jetson_nano", "ethernet_1g", count=1),
        Group("jetson_nano", "ethernet_1g", count=2, mode="5W"),
    )

    world = CatalogueMix(clients=3, groups=groups).build(Streams(1), Catalogue())

    assert [device.name for device in world.devices] == ["jetson_nano", "jetson_nano.5W"]
    np.testing.assert_array_equal(world.frequency_max_hz, [9.216e8, 6.4e8, 6.4e8])


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("jetson_nano", "^groups.0.mode: unknown mode 'MaxQ', did you mean 'MaxN'"),
        ("rpi_4b", "^groups.0.mode: found 'MaxQ', accepted: null, rpi_4b has no modes"),
    ],
)
def test_unknown_modes(device: str, message: str) -> None:
    """A mode that a device does not have is refused with the ones it has."""
    groups = (Group(device, "ethernet_1g", share=1.0, mode="MaxQ"),)

    with pytest.raises(CatalogueError, match=message):
        CatalogueMix(clients=3, groups=groups).build(Streams(1), Catalogue())


def test_counts_come_in_order() -> None:
    """With counts, clients are numbered group by group."""
    groups = (Group("rpi_5", "ethernet_1g", count=2), Group("rpi_4b", "wifi5_ac", count=3))

    world = CatalogueMix(clients=5, groups=groups).build(Streams(1), Catalogue())

    np.testing.assert_array_equal(world.device_index, [0, 0, 1, 1, 1])
    assert world.devices[0].name == "rpi_5"


def test_spreads() -> None:
    """Time factors and rates are lognormal with mean 1 and the stated sigma; 0 is exactly 1."""
    world = replace(MIX, clients=50_000).build(Streams(1), Catalogue())
    even = replace(MIX, speed_spread=0.0, rate_spread=0.0).build(Streams(1), Catalogue())

    assert (1 / world.speed_factor).mean() == pytest.approx(1.0, rel=0.01)
    assert np.log(world.speed_factor).std() == pytest.approx(0.5, rel=0.02)
    assert world.rate_factor.mean() == pytest.approx(1.0, rel=0.01)
    assert np.log(world.rate_factor).std() == pytest.approx(0.3, rel=0.02)
    assert (even.speed_factor == 1).all()
    assert (even.rate_factor == 1).all()


def test_groups_with_a_noise_of_their_own() -> None:
    """A group's factor on compute times has its own sigma, the others that of the population."""
    groups = (
        Group("rpi_4b", "wifi5_ac", count=2000, compute_noise=0.5),
        Group("rpi_4b", "wifi5_ac", count=2000),
        Group("rpi_4b", "wifi5_ac", count=1, compute_noise=0.0),
    )
    population = CatalogueMix(clients=4001, groups=groups, compute_noise=0.1)
    world, clients = population.build(Streams(1), Catalogue()), np.arange(4001)

    plan = world.plan_rounds(clients, 0, 10, 1e6, 0, 0, np.inf)
    certain = world.without_noise.plan_rounds(clients, 0, 10, 1e6, 0, 0, np.inf)

    factor = plan.compute_s / certain.compute_s
    assert np.log(factor[:2000]).std() == pytest.approx(0.5, rel=0.05)
    assert np.log(factor[2000:4000]).std() == pytest.approx(0.1, rel=0.05)
    assert factor[4000] == 1.0
    alike = replace(population, groups=groups[:1], clients=2000).build(Streams(1), Catalogue())
    same = alike.plan_rounds(clients[:2000], 0, 10, 1e6, 0, 0, np.inf)
    np.testing.assert_array_equal(same.compute_s, plan.compute_s[:2000])


def test_rates_of_a_trace(tmp_path: Path) -> None:
    """Each client has both rates of a row that it draws, whatever its link; others keep theirs."""
    up_bps, down_bps = np.array([1e6, 2e6, 6e6, np.nan]), np.array([9e6, 3e6, 4e6, 1e6])
    trace = tmp_path / "rates.parquet"
    Capacities(np.full(4, np.nan), up_bps, down_bps).write(trace)
    traced = replace(MIX, clients=3000, rate_spread=0.0, rate_trace=trace)
    world = traced.build(Streams(1), Catalogue())

    columns = client_columns(world, 1e6)

    both_bps = np.stack([columns["uplink_bps"], columns["downlink_bps"]], axis=1)
    found, counts = np.unique(both_bps.round(3), axis=0, return_counts=True)
    np.testing.assert_allclose(found, [[1e6, 9e6], [2e6, 3e6], [6e6, 4e6]])
    assert (abs(counts - 1000) < 4 * np.sqrt(3000 * 2 / 9)).all()
    assert len(world.links) == len(MIX.build(Streams(1), Catalogue()).links) > 1
    # The very seconds: a megabyte down and one up, to radios that are awake.
    quiet, clients = world.without_noise, np.arange(3000)
    for uplink, rate in ((True, "uplink_bps"), (False, "downlink_bps")):
        sent = quiet.access_transfer(clients, 0, 10**6, uplink)
        rtt_s = np.array([link.rtt_s for link in world.links])[world.link_index]
        np.testing.assert_allclose(sent.duration_s, rtt_s / 2 + 8e6 / columns[rate])


def test_where_a_trace_can_set_no_rate(tmp_path: Path) -> None:
    """Links by distance or by lost packets, one spread on top of another, a format of nothing."""
    Capacities(np.full(1, np.nan), np.ones(1), np.ones(1)).write(tmp_path / "rates.parquet")
    groups = (Group("rpi_4b", "wifi5_ac", share=0.5), Group("rpi_4b", "cell_umi", share=0.5))
    far = CatalogueMix(clients=4, groups=groups, rate_trace=tmp_path / "rates.parquet")

    with pytest.raises(CatalogueError, match=r"^groups.1.link: cell_umi has no fixed rate"):
        far.build(Streams(1), Catalogue())
    path = {"name": "tcp", "rtt_s": 0.1, "packet_loss": 1e-3, "uplink_bps": 1e8}
    path |= {"downlink_bps": 1e8} | dict.fromkeys(
        ("power_transmit_w", "power_receive_w", "power_idle_w"), 1.0
    )
    (tmp_path / "path.yaml").write_text(yaml.safe_dump({"kind": "link", "link": path}))
    groups = (Group("rpi_4b", "path", share=1.0),)
    slowed = replace(far, groups=groups, profiles=(tmp_path,))
    with pytest.raises(CatalogueError, match=r"^groups.0.link: path has no fixed rate"):
        slowed.build(Streams(1), Catalogue())
    with pytest.raises(ValueError, match="rate_spread: excludes rate_trace"):
        replace(MIX, rate_trace=tmp_path / "rates.parquet")
    with pytest.raises(ValueError, match="rate_trace_format: needs a rate_trace"):
        replace(MIX, rate_trace_format="mobiperf")


def test_other_devices_keep_places_and_factors() -> None:
    """Common random numbers: a swap of devices changes neither places nor speed draws."""
    swapped = (replace(GROUPS[0], device="rpi_5"), *GROUPS[1:])

    before = MIX.build(Streams(1), Catalogue())
    after = replace(MIX, groups=swapped).build(Streams(1), Catalogue())

    np.testing.assert_array_equal(after.position_m, before.position_m)
    np.testing.assert_array_equal(after.speed_factor, before.speed_factor)
    np.testing.assert_array_equal(after.device_index, before.device_index)


def test_million_clients_are_arrays() -> None:
    """A million clients build in under 2 s of processor time and a round of all is planned too."""
    started = time.process_time()

    world = replace(MIX, clients=1_000_000).build(Streams(1), Catalogue())

    assert time.process_time() - started < 2.0
    assert all(
        len(value) < 10 or isinstance(value, np.ndarray)
        for value in vars(world).values()
        if hasattr(value, "__len__")
    )
    clients = np.arange(world.num_clients)
    assert len(world.plan_rounds(clients, 0, 100, 1e6, 1e6, 1e6, np.inf).compute_s) == 1_000_000


def test_profiles_of_ones_own(tmp_path: Path) -> None:
    """A folder beside the scenario adds links and devices."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "string.yaml").write_text(
        "kind: link\n"
        "link: {name: fixed_rate, uplink_bps: 1, downlink_bps: 2, rtt_s: 1,"
        " power_transmit_w: 0, power_receive_w: 0, power_idle_w: 0}\n"
    )
    mix = CatalogueMix(
        clients=2, groups=(Group("rpi_4b", "string", share=1.0),), profiles=("mine",)
    )

    world = mix.build(Streams(1), Catalogue(base=tmp_path))

    assert world.links[0].uplink_bps == 1.0
    with pytest.raises(CatalogueError, match="unknown link 'string'"):
        replace(mix, profiles=()).build(Streams(1), Catalogue(base=tmp_path))


@pytest.mark.parametrize(
    ("clients", "edges", "groups", "message"),
    [
        (40, 4, (), "^groups: found \\[\\], accepted: one or more"),
        (40, 4, GROUPS[:2], "^groups: shares add up to 0.8"),
        (40, 4, (Group("a", "b", count=3),), "^groups: counts add up to 3, clients is 40"),
        (40, 4, (Group("a", "b"), Group("a", "b")), "^groups: give every group"),
        (40, 4, (Group("a", "b"), Group("a", "b", 1.0)), "^groups: give every group"),
        (40, 4, (Group("a", "b", 0.5),), "^groups: shares add up to 0.5"),
        (40, 4, (Group("a", "b", 0.5, 20), Group("a", "b", 0.5, 20)), "^groups: give every group"),
        (40, 4, (Group("a", "b", count=20), Group("a", "b", 0.5)), "^groups: give every group"),
        (3, 4, GROUPS, "^edges: found 4, accepted: at most 3"),
    ],
)
def test_impossible_mixes(
    clients: int, edges: int, groups: tuple[Group, ...], message: str
) -> None:
    """Groups that do not cover the clients, and edges without clients, are refused."""
    with pytest.raises(ValueError, match=message):
        CatalogueMix(clients=clients, edges=edges, groups=groups)


def test_an_only_group_needs_no_share() -> None:
    """It has all clients."""
    mix = CatalogueMix(clients=3, edges=1, groups=(Group("rpi_4b", "ethernet_1g"),))

    assert mix.group_index(Streams(1)).tolist() == [0, 0, 0]
    assert len(mix.build(Streams(1), Catalogue()).device_index) == 3


def test_a_population_in_which_nothing_takes_time() -> None:
    """A compute time of zero times anything is refused."""
    with pytest.raises(ValueError, match=r"^straggler_shift"):
        replace(MIX, straggler_shift=0.0)


def test_a_group_may_have_faster_links_and_slower_machines() -> None:
    """Its factors multiply what spreads leave; the other groups keep their figures."""
    changed = replace(GROUPS[0], uplink_factor=0.5, downlink_factor=3.0, speed_factor=0.25)
    plain = MIX.build(Streams(1), Catalogue())

    world = replace(MIX, groups=(changed, *GROUPS[1:])).build(Streams(1), Catalogue())

    own = MIX.group_index(Streams(1)) == 0
    for one, factor in (("uplink", 0.5), ("downlink", 3.0)):
        rates = [each.rate_factors(uplink=one == "uplink") for each in (world, plain)]
        np.testing.assert_allclose(rates[0] / rates[1], np.where(own, factor, 1.0))
    speeds = world.speed_factor / plain.speed_factor
    np.testing.assert_allclose(speeds, np.where(own, 0.25, 1.0))
    assert plain.downlink_factor is None


def test_factors_of_groups_multiply_the_rates_of_a_trace(tmp_path: Path) -> None:
    """Up and down, each with its own."""
    trace = tmp_path / "rates.parquet"
    rates = {"uplink_bps": [1e6, 2e6], "downlink_bps": [4e6, 6e6]}
    pd.DataFrame({"client": [0, 1], "seconds_per_example": 0.1, **rates}).to_parquet(trace)
    groups = (Group("rpi_4b", "wifi5_ac", uplink_factor=0.5, downlink_factor=2.0),)
    mix = CatalogueMix(clients=6, groups=groups, rate_trace=trace)
    plain = replace(mix, groups=(Group("rpi_4b", "wifi5_ac"),))

    worlds = [one.build(Streams(1), Catalogue()) for one in (mix, plain)]

    for uplink, factor in ((True, 0.5), (False, 2.0)):
        first, second = (world.rate_factors(uplink=uplink) for world in worlds)
        np.testing.assert_allclose(first / second, factor)
