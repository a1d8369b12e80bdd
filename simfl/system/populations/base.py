"""The base of every population."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np

from simfl.common.time_of_day import TIME_OF_DAY, seconds_after_midnight
from simfl.streams import Streams
from simfl.system.catalogue import Catalogue, CatalogueError
from simfl.system.charging import Charging
from simfl.system.device import Server
from simfl.system.failures import Faults
from simfl.system.idle_power import ClientIdle
from simfl.system.interruptions import Leaving
from simfl.system.message_loss import MessageLoss
from simfl.system.region import Electricity
from simfl.system.world import World


@dataclass(frozen=True, kw_only=True)
class Population(ABC):
    """How many clients and edges there are, and which machines serve them.

    `profiles` are folders with device and link files of one's own, relative to the scenario; they
    win over the shipped catalogue.
    """

    tier_keys: ClassVar[tuple[str, ...]] = (
        "edge_server",
        "faults.edge_servers",
        "faults.cloud_link",
    )
    """Keys about edge servers, which a flat protocol has not."""

    backhaul_keys: ClassVar[tuple[str, ...]] = ()
    """Keys about the link to the cloud, which a flat protocol may have: see `server_behind`."""

    clients: Annotated[int, ">= 1", "number of clients"]
    start_time: Annotated[
        str, TIME_OF_DAY, "time of day at simulated time 0, for all that goes by the hour"
    ] = "00:00"
    edges: Annotated[
        int, ">= 1", "edge servers; in a flat run its access points, where clients share a medium"
    ] = 1
    edge_server: Annotated[str, "server profile of the edges"] = "edge_xeon_d"
    cloud_server: Annotated[str, "server profile of the cloud"] = "edge_epyc_node"
    server_behind: Annotated[
        Literal["access_point", "backhaul"],
        "what clients cross to a flat protocol's server: their own link, or the backhaul too",
    ] = "access_point"
    side_m: Annotated[float, "> 0", "side of the square in which all stand, metres"] = 1000.0
    profiles: Annotated[tuple[Path, ...], "folders with own device and link files"] = ()
    bits_per_value: Annotated[
        float, "> 0", "stored size of one input value (a pixel), for work counted per bit"
    ] = 8.0
    region: Annotated[
        str | None, "region profile of clients and servers; null: CO2 and money are not counted"
    ] = None
    message_loss: Annotated[
        MessageLoss | None, "lost messages are sent again; null: every message arrives"
    ] = None

    server_idle_share: Annotated[
        float, ">= 0", "<= 1", "of servers' idle power: what this training is charged with; 0: none"
    ] = 1.0
    client_idle: Annotated[
        ClientIdle,
        "when a waiting client's idle power counts: always, while it is there, in rounds only",
    ] = "always"
    leaving: Annotated[
        Leaving, "a client that goes away in mid-round: goes on, goes on when it is back, or stops"
    ] = "ignore"
    faults: Annotated[Faults, "what crashes and is repaired"] = field(default_factory=Faults)
    memory: Annotated[
        Literal["drop"] | None,
        "clients whose memory training fills: null, the run is refused; drop, their rounds fail",
    ] = None
    hardware_draw: Annotated[
        int | None,
        ">= 0",
        "draw of the uncertain figures of profiles that the machines have; null: as profiles say",
    ] = None
    batteries: Annotated[
        Charging | None, "devices with a battery run on it; null: everybody has mains power"
    ] = None

    def __post_init__(self) -> None:
        if self.edges > self.clients:
            raise ValueError(
                f"edges: found {self.edges}, accepted: at most {self.clients}, as many as clients"
            )

        if self.client_idle == "present" and self.batteries is not None:
            raise ValueError(
                "client_idle: found present, accepted with batteries: always (a device that is"
                " empty draws nothing), rounds"
            )

    @property
    def start_s(self) -> float:
        """Seconds after midnight at simulated time 0."""
        return seconds_after_midnight(self.start_time)

    @abstractmethod
    def build(self, streams: Streams, catalogue: Catalogue) -> World:
        """The world: arrays over clients, drawn from `streams`, machines from `catalogue`."""

    def electricity(self, streams: Streams, catalogue: Catalogue) -> Electricity | None:
        """Whose electricity the clients use, and last the servers; None: nobody counts it."""
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
        """The edges' server and the cloud's; CatalogueError names the key at fault first."""
        with named("edge_server"):
            edge_server = catalogue.server(self.edge_server)
        with named("cloud_server"):
            return edge_server, catalogue.server(self.cloud_server)


@contextmanager
def named(key: str) -> Iterator[None]:
    """Put the population's key before what is wrong with the profile that it names."""
    try:
        yield
    except ValueError as error:
        raise CatalogueError(f"{key}: {error}") from error
