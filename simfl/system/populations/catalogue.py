"""A population mixed from the catalogue's devices and links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.streams import Streams
from simfl.system.catalogue import Catalogue
from simfl.system.charging import Charging
from simfl.system.device import Device
from simfl.system.link import Link
from simfl.system.populations.base import Population, named
from simfl.system.populations.rates import RateTrace, RateTraceFormat, traced_rates
from simfl.system.region import Electricity
from simfl.system.topology import evenly_spread, home_edge, square_positions
from simfl.system.world import World

Factor = Annotated[
    float | None, "> 0", "<= 1e6", "multiplies the link's rate in this direction; null: 1"
]


@dataclass(frozen=True)
class Group:
    """Clients with the same device and link: a share of all, or a fixed number."""

    device: Annotated[str, "device profile"]
    link: Annotated[str, "link profile"]
    share: Annotated[
        float | None, "> 0", "<= 1", "share of the clients; null: all, for a single group"
    ] = None
    count: Annotated[int | None, ">= 1", "number of clients, instead of a share"] = None
    band_share: Annotated[
        float, "> 0", "<= 1", "each client's weight in a band shared by ofdma_weighted"
    ] = 1.0
    medium: Annotated[
        str | None,
        "groups with the same name share one medium at an access point; null: the link's name",
    ] = None
    region: Annotated[str | None, "region profile; null: the population's"] = None
    mode: Annotated[str | None, "power mode of an accelerator; null: at its highest clock"] = None
    compute_noise: Annotated[
        float | None,
        ">= 0",
        "<= 10",
        "noise of compute times (as population.compute_noise); null: the population's",
    ] = None
    uplink_factor: Factor = None
    downlink_factor: Factor = None
    speed_factor: Annotated[
        float | None,
        "> 0",
        "<= 1e6",
        "divides the device's computing times, at the same watts; null: 1",
    ] = None
    availability: Annotated[
        str | Mapping[str, Any] | None,
        "a part: the group's availability; null: population.availability",
    ] = None
    allocation: Annotated[
        str | Mapping[str, Any] | None,
        "a part: the group's CPU frequencies; null: decisions.allocation",
    ] = None
    batteries: Annotated[
        Charging | None,
        "batteries of the group's devices, as population.batteries; null: the population's",
    ] = None

    def __post_init__(self) -> None:
        for key in ("availability", "allocation"):
            part = getattr(self, key)
            if isinstance(part, Mapping) and not isinstance(part.get("name"), str):
                raise ValueError(
                    f"{key}: has no name, accepted: a part, or a section with its name"
                )

    @property
    def machine(self) -> tuple[str, str | None]:
        """The device of its clients: groups with the same device and different links share it."""
        return self.device, self.mode

    @property
    def air(self) -> str:
        """The medium that its clients may share with clients of other groups."""
        return self.medium or self.link


@dataclass(frozen=True, kw_only=True)
class CatalogueMix(Population):
    """Groups of catalogue devices, with random differences between devices and between rounds.

    With shares, any run of consecutive clients has nearly these shares, and an additional client
    changes no other client's group (`evenly_spread`). With counts, clients are in the order of the
    groups. Spreads are sigmas of lognormal factors with mean 1.
    """

    name: ClassVar[str] = "catalogue"
    backhaul_keys: ClassVar[tuple[str, ...]] = ("backhaul",)

    groups: Annotated[tuple[Group, ...], "devices with their links and shares"]
    backhaul: Annotated[str, "link profile between edges and cloud"] = "wan_edge_cloud"
    speed_spread: Annotated[float, ">= 0", "<= 10", "sigma between clients, of compute times"] = 0.0
    rate_spread: Annotated[float, ">= 0", "<= 10", "sigma between clients, of link rates"] = 0.0
    rate_trace: RateTrace = None
    rate_trace_format: RateTraceFormat = None
    compute_noise: Annotated[float, ">= 0", "<= 10", "sigma between rounds, of compute times"] = 0.0
    transfer_noise: Annotated[float, ">= 0", "<= 10", "sigma between rounds, of transfer times"] = (
        0.0
    )
    straggler_mean: Annotated[
        float,
        ">= 0",
        "<= 1e6",
        "mean of an exponential part in the factor on compute times (stragglers)",
    ] = 0.0
    straggler_shift: Annotated[
        float,
        ">= 0",
        "<= 1e6",
        "constant part of the same factor",
    ] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.straggler_shift + self.straggler_mean == 0:
            raise ValueError(
                "straggler_shift: with straggler_mean 0, computations would take no time"
            )
        if not self.groups:
            raise ValueError("groups: found [], accepted: one or more groups of device and link")
        if self.rate_trace is not None and self.rate_spread:
            raise ValueError(
                "rate_spread: excludes rate_trace, which already sets how rates differ"
            )
        if self.rate_trace_format is not None and self.rate_trace is None:
            raise ValueError("rate_trace_format: needs a rate_trace")
        shares = self._shares()
        counts = [group.count for group in self.groups]
        if None not in counts and shares == [None] * len(shares):
            total = sum(count for count in counts if count is not None)
            if total != self.clients:
                raise ValueError(f"groups: counts add up to {total}, clients is {self.clients}")
        elif None not in shares and counts == [None] * len(counts):
            sum_of_shares = sum(share for share in shares if share is not None)
            if abs(sum_of_shares - 1.0) > 1e-6:
                raise ValueError(f"groups: shares add up to {sum_of_shares:g}, not to 1")
        else:
            raise ValueError("groups: give every group a share, or every group a count")

    def build(self, streams: Streams, catalogue: Catalogue) -> World:
        """Builds the world; CatalogueError names an unknown or wrong profile."""
        catalogue = self.own_catalogue(catalogue)
        machines: dict[tuple[str, str | None], Device] = {}
        access: dict[str, Link] = {}
        for place, one in enumerate(self.groups):
            with named(f"groups.{place}.device"):
                device = catalogue.device(one.device)
            with named(f"groups.{place}.mode"):
                machines[one.machine] = device if one.mode is None else device.in_mode(one.mode)
            with named(f"groups.{place}.link"):
                access[one.link] = catalogue.link(one.link)
        with named("backhaul"):
            backhaul = catalogue.link(self.backhaul)
        edge_server, cloud_server = self.servers(catalogue)
        devices, device_names, link_names = list(machines.values()), list(machines), list(access)
        group_device = np.array([device_names.index(group.machine) for group in self.groups])
        group_link = np.array([link_names.index(group.link) for group in self.groups])
        medium_names = list(dict.fromkeys(group.air for group in self.groups))
        group_medium = np.array([medium_names.index(group.air) for group in self.groups])
        group = self.group_index(streams)
        device_index = group_device[group]
        frequency_hz = np.array(
            [
                (device.processor.frequency_min_hz, device.processor.frequency_max_hz)
                for device in devices
            ]
        )
        client = np.arange(self.clients)
        links, downlink_factor = list(access.values()), None
        rate_factor = streams.lognormal(self.rate_spread, "population.rate", client)
        if self.rate_trace is not None:
            links, rate_factor, downlink_factor = traced_rates(
                self.rate_trace,
                self.rate_trace_format,
                {f"groups.{place}.link": one.link for place, one in enumerate(self.groups)},
                access,
                streams,
                self.clients,
            )
        up, down, faster = (
            self._factor(key, group) for key in ("uplink_factor", "downlink_factor", "speed_factor")
        )
        if (up != down).any():
            downlink_factor = (1.0 if downlink_factor is None else downlink_factor) * (down / up)
        return World(
            streams=streams,
            devices=devices,
            device_index=device_index,
            links=links,
            link_names=link_names,
            link_index=group_link[group],
            home_edge=home_edge(self.clients, self.edges),
            position_m=square_positions(streams, "client", self.clients, self.side_m),
            edge_position_m=square_positions(streams, "edge", self.edges, self.side_m),
            frequency_min_hz=frequency_hz[device_index, 0],
            frequency_max_hz=frequency_hz[device_index, 1],
            speed_factor=faster / streams.lognormal(self.speed_spread, "population.speed", client),
            work_factor=np.ones(self.clients),
            rate_factor=rate_factor * up,
            downlink_factor=downlink_factor,
            edge_server=edge_server,
            cloud_server=cloud_server,
            backhaul=backhaul,
            compute_noise=self._compute_noise(group),
            transfer_noise=self.transfer_noise,
            medium_index=group_medium[group],
            band_share=np.array([one.band_share for one in self.groups])[group],
            straggler_shift=self.straggler_shift,
            straggler_mean=self.straggler_mean,
        )

    @property
    def has_batteries(self) -> bool:
        """Whether devices of some group run on a battery."""
        return super().has_batteries or any(one.batteries for one in self.groups)

    def charging(self, streams: Streams) -> tuple[Sequence[Charging | None], IntArray]:
        """The groups' own charging, or the population's."""
        return [one.batteries or self.batteries for one in self.groups], self.group_index(streams)

    def electricity(self, streams: Streams, catalogue: Catalogue) -> Electricity | None:
        """The groups' regions, and the population's for the servers."""
        names = [group.region or self.region for group in self.groups]
        if None in [*names, self.region]:
            if all(group.region is None for group in self.groups):
                return None
            raise ValueError("region: missing, accepted: a region, because some groups have one")
        catalogue, regions = self.own_catalogue(catalogue), {}
        for place, name in enumerate(names):
            with named(f"groups.{place}.region" if self.groups[place].region else "region"):
                regions[name] = catalogue.region(str(name))
        with named("region"):
            regions[self.region] = catalogue.region(str(self.region))
        known = list(regions)
        of_group = np.array([known.index(name) for name in names])
        index = np.append(of_group[self.group_index(streams)], known.index(self.region))
        return Electricity(list(regions.values()), index, self.start_s)

    def _factor(self, key: str, group: IntArray) -> FloatArray:
        """A factor of the groups for each client."""
        own = [1.0 if (one := getattr(each, key)) is None else one for each in self.groups]
        return np.array(own, dtype=float)[group]

    def _compute_noise(self, group: IntArray) -> float | FloatArray:
        """The spread for all clients, or per client if groups have their own."""
        own = [one.compute_noise for one in self.groups]
        if own == [None] * len(own):
            return self.compute_noise
        sigma = [self.compute_noise if one is None else one for one in own]
        return np.array(sigma, dtype=float)[group]

    def _shares(self) -> list[float | None]:
        """The share of each group; a single group has all clients."""
        if len(self.groups) == 1 and self.groups[0].count is None:
            return [self.groups[0].share or 1.0]
        return [group.share for group in self.groups]

    def group_index(self, streams: Streams) -> IntArray:
        """Each client's group, an index into `groups`."""
        counts = [group.count for group in self.groups if group.count is not None]
        if counts:
            return np.repeat(np.arange(len(counts)), counts)
        shares = [share for share in self._shares() if share is not None]
        place = evenly_spread(streams, "population.group", np.arange(self.clients))
        group: IntArray = np.searchsorted(np.cumsum(shares)[:-1], place, side="right")
        return group
