"""A population with compute and network speeds from a trace.

The trace has the time per example and the rates; a device and a link profile supply the energy,
which a trace lacks. Files are made by `simfl convert-trace` (FedScale's capacities, FLHetBench's
latencies, MobiPerf's and FLASH's speeds).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np

from simfl.common.files import TracePath
from simfl.streams import Streams
from simfl.system.catalogue import Catalogue, CatalogueError
from simfl.system.cpu import Cpu
from simfl.system.populations.base import Population, named
from simfl.system.populations.rates import (
    RateTrace,
    RateTraceFormat,
    drawn_rows,
    known_rows,
    traced_rates,
)
from simfl.system.topology import home_edge, square_positions
from simfl.system.traces.tables import read_capacities
from simfl.system.world import World


@dataclass(frozen=True, kw_only=True)
class Traced(Population):
    """Each client draws a row of the compute trace and, independently, one of the rate trace.

    A trace's seconds per example hold at the device's highest frequency and for any model, as in
    FedScale.
    """

    backhaul_keys: ClassVar[tuple[str, ...]] = ("backhaul",)

    compute_trace: Annotated[TracePath, "Parquet file with seconds_per_example"]
    rate_trace: RateTrace = None
    rate_trace_format: RateTraceFormat = None
    device: Annotated[
        str, "device profile with a CPU, for power, frequencies and memory, not for times"
    ] = "phone_mid_sd660"
    link: Annotated[
        str, "link profile, for latency and power, and for rates without a rate_trace"
    ] = "wifi5_ac"
    backhaul: Annotated[str, "link profile between edges and cloud"] = "wan_edge_cloud"
    compute_noise: Annotated[float, ">= 0", "<= 10", "sigma between rounds, of compute times"] = 0.0
    transfer_noise: Annotated[float, ">= 0", "<= 10", "sigma between rounds, of transfer times"] = (
        0.0
    )

    def build(self, streams: Streams, catalogue: Catalogue) -> World:
        """Builds the world: one device and link at traces' means, clients' factors as columns."""
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
        with named("compute_trace"):
            seconds = known_rows(
                self.compute_trace, read_capacities(self.compute_trace).seconds_per_example
            )
        own_s = drawn_rows(streams, "population.compute_trace", client, seconds)
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
            seconds_per_training=0.0,
        )
        links, rate_factor, downlink_factor = [link], np.ones(self.clients), None
        if self.rate_trace is not None:
            links, rate_factor, downlink_factor = traced_rates(
                self.rate_trace,
                self.rate_trace_format,
                {"link": self.link},
                {self.link: link},
                streams,
                self.clients,
            )
        low_hz, high_hz = processor.frequency_min_hz, processor.frequency_max_hz
        nobody = np.zeros(self.clients, dtype=np.int64)
        return World(
            streams=streams,
            devices=[replace(device, processor=processor)],
            device_index=nobody,
            links=links,
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
            downlink_factor=downlink_factor,
            edge_server=edge_server,
            cloud_server=cloud_server,
            backhaul=backhaul,
            compute_noise=self.compute_noise,
            transfer_noise=self.transfer_noise,
        )
