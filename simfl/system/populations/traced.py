"""A population whose clients compute and send as fast as those of a trace.

The trace says how long an example takes and what the rates are; a device and a link profile say
what that costs, for a trace does not. Files are made by `simfl convert-trace` (FedScale's
capacities, FLHetBench's latencies, MobiPerf's and FLASH's speeds).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.streams import Streams
from simfl.system.catalogue import Catalogue, CatalogueError
from simfl.system.cpu import Cpu
from simfl.system.link import FixedRateLink
from simfl.system.populations.base import Population, named
from simfl.system.topology import home_edge, square_positions
from simfl.system.traces.tables import Capacities, read_capacities
from simfl.system.world import World


@dataclass(frozen=True, kw_only=True)
class Traced(Population):
    """Each client draws a row of the compute trace and, for itself, one of the rate trace.

    A trace's seconds per example hold at the device's highest clock and whatever the model, as
    FedScale's do. A client's downlink departs from the trace's mean by the factor of its uplink.
    """

    backhaul_keys: ClassVar[tuple[str, ...]] = ("backhaul",)

    compute_trace: Annotated[Path, "Parquet file with seconds_per_example"]
    rate_trace: Annotated[Path | None, "Parquet file with uplink_bps and downlink_bps"] = None
    device: Annotated[str, "device profile with a CPU, for power, clocks and memory"] = (
        "phone_mid_sd660"
    )
    link: Annotated[str, "link profile: latency and power, and rates without a rate_trace"] = (
        "wifi5_ac"
    )
    backhaul: Annotated[str, "link profile between edges and cloud"] = "wan_edge_cloud"
    compute_noise: Annotated[float, ">= 0", "<= 10", "from round to round, of compute times"] = 0.0
    transfer_noise: Annotated[float, ">= 0", "<= 10", "from round to round, of transfer times"] = (
        0.0
    )

    def build(self, streams: Streams, catalogue: Catalogue) -> World:
        """The world: one device and link at the traces' means, columns the clients' own factors."""
        catalogue = self.own_catalogue(catalogue)
        with named("device"):
            device = catalogue.device(self.device)
            if not isinstance(device.processor, Cpu):
                raise CatalogueError(f"{self.device} has no CPU, accepted: a device with one")
        with named("link"):
            link = catalogue.link(self.link)
        with named("backhaul"):
            backhaul = catalogue.link(self.backhaul)
        edge_server, cloud_server = self.servers(catalogue)
        client = np.arange(self.clients)
        seconds = self._column("compute_trace", self.compute_trace, _seconds)
        own_s = _drawn(streams, "population.compute_trace", client, seconds)
        mean_s = float(seconds.mean())
        processor = replace(
            device.processor,
            cycles_per_example=mean_s * device.processor.cores * device.processor.frequency_max_hz,
            cycles_per_bit=None,
            flops_per_s=None,
            efficiency=None,
            rates=None,
            bandwidth_bytes_per_s=None,
            seconds_per_step=0.0,
            seconds_per_place=0.0,
        )
        rate_factor = np.ones(self.clients)
        if self.rate_trace is not None:
            if not isinstance(link, FixedRateLink):
                raise CatalogueError(f"link: {self.link} has no fixed rate that a trace could set")
            rates = self._column("rate_trace", self.rate_trace, _rates_bps)
            own_bps = _drawn(streams, "population.rate_trace", client, rates)
            mean_bps = rates.mean(axis=0)
            link = replace(link, uplink_bps=float(mean_bps[0]), downlink_bps=float(mean_bps[1]))
            rate_factor = own_bps[:, 0] / mean_bps[0]
        low_hz, high_hz = processor.frequency_min_hz, processor.frequency_max_hz
        nobody = np.zeros(self.clients, dtype=np.int64)
        return World(
            streams=streams,
            devices=[replace(device, processor=processor)],
            device_index=nobody,
            links=[link],
            link_names=[self.link],
            link_index=nobody,
            home_edge=home_edge(self.clients, self.edges),
            position_m=square_positions(streams, "client", self.clients, self.side_m),
            edge_position_m=square_positions(streams, "edge", self.edges, self.side_m),
            frequency_min_hz=np.full(self.clients, low_hz),
            frequency_max_hz=np.full(self.clients, high_hz),
            speed_factor=mean_s / own_s,
            work_factor=np.ones(self.clients),
            rate_factor=rate_factor,
            edge_server=edge_server,
            cloud_server=cloud_server,
            backhaul=backhaul,
            compute_noise=self.compute_noise,
            transfer_noise=self.transfer_noise,
        )

    def _column(self, key: str, file: Path, pick: Callable[[Capacities], FloatArray]) -> FloatArray:
        """The rows of a trace that have figures; CatalogueError, naming the key, if none has."""
        with named(key):
            rows = pick(read_capacities(file))
            known = ~np.isnan(rows).reshape(len(rows), -1).any(axis=1)
            if not known.any():
                raise CatalogueError(f"{file}: has no such figures")
            return rows[known]


def _seconds(table: Capacities) -> FloatArray:
    return table.seconds_per_example


def _rates_bps(table: Capacities) -> FloatArray:
    return np.stack([table.uplink_bps, table.downlink_bps], axis=1)


def _drawn(streams: Streams, component: str, client: IntArray, rows: FloatArray) -> FloatArray:
    """A row for each client, drawn with replacement."""
    place = (streams.uniform(component, client) * len(rows)).astype(np.int64)
    return rows[np.minimum(place, len(rows) - 1)]
