"""The base of every population."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated

from simfl.streams import Streams
from simfl.system.catalogue import Catalogue
from simfl.system.world import World


@dataclass(frozen=True, kw_only=True)
class Population(ABC):
    """How many clients and edges there are, and which machines serve them.

    `profiles` are folders with device and link files of one's own, relative to the scenario; they
    win over the shipped catalogue.
    """

    clients: Annotated[int, ">= 1", "number of clients"]
    edges: Annotated[int, ">= 1", "number of edge servers"] = 1
    edge_server: Annotated[str, "server profile of the edges"] = "edge_xeon_d"
    cloud_server: Annotated[str, "server profile of the cloud"] = "edge_epyc_node"
    side_m: Annotated[float, "> 0", "side of the square in which all stand, metres"] = 1000.0
    profiles: Annotated[tuple[str, ...], "folders with own device and link files"] = ()

    def __post_init__(self) -> None:
        if self.edges > self.clients:
            raise ValueError(f"edges: {self.edges} edges for {self.clients} clients; some had none")

    @abstractmethod
    def build(self, streams: Streams, catalogue: Catalogue) -> World:
        """The world: arrays over clients, drawn from `streams`, machines from `catalogue`."""
