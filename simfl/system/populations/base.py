"""The base of every population."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np

from simfl.common.arrays import IntArray
from simfl.common.time_of_day import TIME_OF_DAY, seconds_after_midnight
from simfl.streams import Streams
from simfl.system.battery import Batteries
from simfl.system.catalogue import Catalogue, CatalogueError
from simfl.system.charging import Charging, batteries_by_group
from simfl.system.device import Server
from simfl.system.failures import Faults
from simfl.system.idle_power import ClientIdle
from simfl.system.interruptions import Leaving
from simfl.system.message_loss import MessageLoss
from simfl.system.region import Electricity
from simfl.system.world import World


@dataclass(frozen=True, kw_only=True)
class Population(ABC):
    """The number of clients and edge servers, and the machines of the servers.

    `profiles` are folders with your own device and link files, relative to the scenario; they take
    precedence over the shipped catalogue.
    """

    tier_keys: ClassVar[tuple[str, ...]] = (
        "edge_server",
        "faults.edge_servers",
        "faults.cloud_link",
    )
    """Keys of edge servers, which flat protocols do not have."""

    backhaul_keys: ClassVar[tuple[str, ...]] = ()
    """Keys of the link to the cloud, which flat protocols may use: see `server_behind`."""

    clients: Annotated[int, ">= 1", "number of clients"]
    start_time: Annotated[
        str, TIME_OF_DAY, "time of day at simulated time 0, for everything that depends on the hour"
    ] = "00:00"
    edges: Annotated[
        int, ">= 1", "edge servers; in a flat run its access points, where clients share a medium"
    ] = 1
    edge_server: Annotated[str, "server profile of the edge servers"] = "edge_xeon_d"
    cloud_server: Annotated[str, "server profile of the cloud"] = "edge_epyc_node"
    server_behind: Annotated[
        Literal["access_point", "backhaul"],
        "path from clients to a flat protocol's server: their own link only, or the backhaul too",
    ] = "access_point"
    side_m: Annotated[
        float, "> 0", "side of the square that contains all clients and edge servers, metres"
    ] = 1000.0
    profiles: Annotated[tuple[Path, ...], "folders with your own device and link files"] = ()
    bits_per_value: Annotated[
        float, "> 0", "stored size of one input value (a pixel), for work counted per bit"
    ] = 8.0
    region: Annotated[
        str | None, "region profile of clients and servers; null: CO2 and money are not counted"
    ] = None
    message_loss: Annotated[
        MessageLoss | None, "losses of messages, which are sent again; null: every message arrives"
    ] = None

    server_idle_share: Annotated[
        float,
        ">= 0",
        "<= 1",
        "share of servers' idle power that is charged to this training; 0: none",
    ] = 1.0
    client_idle: Annotated[
        ClientIdle,
        "when a waiting client's idle power counts: always, while it is available, or in rounds"
        " only",
    ] = "always"
    leaving: Annotated[
        Leaving,
        "what a client does that leaves during a round: finish it, pause until it returns, or"
        " abort",
    ] = "ignore"
    faults: Annotated[Faults, "crashes and repairs of clients, edge servers and links"] = field(
        default_factory=Faults
    )
    noticed_after_s: Annotated[
        float,
        ">= 0",
        "seconds until the server gives up a client that left, crashed, ran empty or lost a message"
        " for good, as after a time-out; 0: at once. The cloud of a hierarchical run gives up edge"
        " servers that crashed",
    ] = 0.0
    memory: Annotated[
        Literal["drop"] | None,
        "clients with too little memory for training; null: the run is refused; drop: their"
        " rounds fail",
    ] = None
    hardware_draw: Annotated[
        int | None,
        ">= 0",
        "number of the draw of the profiles' uncertain figures; null: the profiles' own figures",
    ] = None
    batteries: Annotated[
        Charging | None, "devices with a battery run on it; null: all devices have mains power"
    ] = None

    def __post_init__(self) -> None:
        if self.edges > self.clients:
            raise ValueError(
                f"edges: found {self.edges}, accepted: at most {self.clients}, as many as clients"
            )

        if self.client_idle == "present" and self.has_batteries:
            raise ValueError(
                "client_idle: found present, accepted with batteries: always (an empty device"
                " draws nothing), rounds"
            )

    @property
    def start_s(self) -> float:
        """Seconds after midnight at simulated time 0."""
        return seconds_after_midnight(self.start_time)

    @abstractmethod
    def build(self, streams: Streams, catalogue: Catalogue) -> World:
        """Builds the world: arrays over clients from `streams`, machines from `catalogue`."""

    def charging(self, streams: Streams) -> tuple[Sequence[Charging | None], IntArray]:
        """How batteries are charged (None: mains power), and the index of each client's way."""
        return [self.batteries], np.zeros(self.clients, dtype=np.int64)

    @property
    def has_batteries(self) -> bool:
        """Whether devices with a battery run on it."""
        return self.batteries is not None

    def build_batteries(self, world: World) -> Batteries | None:
        """The clients' batteries at simulated time 0; None: all have mains power."""
        charging, which = self.charging(world.streams)
        machines = world.devices, world.device_index
        return batteries_by_group(charging, which, *machines, world.streams, self.start_s)

    def electricity(self, streams: Streams, catalogue: Catalogue) -> Electricity | None:
        """The regions of the clients' electricity, and last of the servers'; None: not counted."""
        if self.region is None:
            return None
        with named("region"):
            region = self.own_catalogue(catalogue).region(self.region)
        return Electricity([region], np.zeros(self.clients + 1, dtype=np.int64), self.start_s)

    def own_catalogue(self, catalogue: Catalogue) -> Catalogue:
        """`catalogue` with the folders of `profiles` before it; CatalogueError if one is absent."""
        with named("profiles"):
            return catalogue.with_folders(self.profiles)

    def servers(self, catalogue: Catalogue) -> tuple[Server, Server]:
        """The servers of the edge and the cloud; CatalogueError begins with the key at fault."""
        with named("edge_server"):
            edge_server = catalogue.server(self.edge_server)
        with named("cloud_server"):
            return edge_server, catalogue.server(self.cloud_server)


@contextmanager
def named(key: str) -> Iterator[None]:
    """Prefixes the error of a profile with the population's key that names it."""
    try:
        yield
    except ValueError as error:
        raise CatalogueError(f"{key}: {error}") from error
