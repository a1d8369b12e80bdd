"""A population of one's own: clients stand around their edge servers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from simfl.plugins import Catalogue, CatalogueMix, Streams, World


@dataclass(frozen=True, kw_only=True)
class Clustered(CatalogueMix):
    """The catalogue's mix of devices, normally scattered around each client's home edge."""

    scatter_m: Annotated[float, ">= 0", "standard deviation of both coordinates"] = 50.0

    def build(self, streams: Streams, catalogue: Catalogue) -> World:
        """A draw is addressed by component, client and coordinate, so no other draw shifts."""
        world = super().build(streams, catalogue)
        client, coordinate = np.arange(self.clients)[:, None], np.arange(2)
        offset_m = self.scatter_m * streams.normal("clustered.position", client, coordinate)
        return replace(world, position_m=world.edge_position_m[world.home_edge] + offset_m)
