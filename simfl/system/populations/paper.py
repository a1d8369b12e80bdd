"""The usual population of papers: one idealised device, with uniformly drawn parameters.

Defaults follow FedCure's evaluation (cycles per example, clock and rate ranges, 5 % lognormal
noise) with kappa = 1e-28 of Tran et al., INFOCOM 2019 (their alpha / 2). The papers name neither
static nor idle power, so both are zero unless given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.streams import Streams
from simfl.system.catalogue import Catalogue
from simfl.system.cpu import Cpu
from simfl.system.device import Device
from simfl.system.link import FixedRateLink
from simfl.system.populations.base import Population
from simfl.system.topology import home_edge, square_positions
from simfl.system.world import World


@dataclass(frozen=True, kw_only=True)
class Paper(Population):
    """Single-core devices with E = kappa W f^2; (low, high) ranges are uniform over clients."""

    backhaul_keys: ClassVar[tuple[str, ...]] = ("backhaul_bps", "backhaul_j_per_byte")

    cycles_per_example: Annotated[
        tuple[float, float], "cycles to train on one example, low and high"
    ] = (1.0e7, 3.0e7)
    cycles_per_bit: Annotated[
        tuple[float, float] | None, "cycles per bit of the example, instead of cycles_per_example"
    ] = None
    frequency_max_hz: Annotated[tuple[float, float], "highest clock, low and high"] = (1.0e9, 3.0e9)
    frequency_min_hz: Annotated[float, "> 0", "lowest clock of every client"] = 1.0e8
    kappa: Annotated[float, ">= 0", "joules are kappa * cycles * frequency^2"] = 1.0e-28
    power_static_w: Annotated[float, ">= 0", "static power above idle power, while computing"] = 0.0
    power_idle_w: Annotated[float, ">= 0", "always paid"] = 0.0
    memory_bytes: Annotated[
        float | None, "> 0", "memory of each client's device; null: enough for any model"
    ] = None
    access_bps: Annotated[tuple[float, float], "client-edge rate, low and high"] = (5.0e6, 20.0e6)
    power_transmit_w: Annotated[float, ">= 0", "the client's power while it sends"] = 0.5
    power_receive_w: Annotated[float, ">= 0", "the client's power while it receives"] = 0.5
    backhaul_bps: Annotated[float, "> 0", "edge-cloud rate"] = 1.0e8
    backhaul_j_per_byte: Annotated[float, ">= 0", "energy of the wide-area network"] = 2.0e-7
    latency_s: Annotated[float, ">= 0", "latency of every message, on both hops"] = 0.0
    noise: Annotated[
        float,
        ">= 0",
        "<= 10",
        "sigma of the lognormal factor on every compute and transfer time",
    ] = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("cycles_per_example", "cycles_per_bit", "frequency_max_hz", "access_bps"):
            low, high = getattr(self, key) or (1.0, 1.0)
            if not 0 < low <= high:
                raise ValueError(f"{key}: found [{low:g}, {high:g}], accepted: 0 < low <= high")
        if self.frequency_min_hz > self.frequency_max_hz[0]:
            raise ValueError("frequency_min_hz: above the lowest frequency_max_hz")

    @property
    def idle_keys(self) -> dict[str, str]:
        """Own keys that nothing reads, given the other keys, each with the reason."""
        idle = {}
        if self.memory_bytes is None:
            idle["memory_bytes"] = "no device runs out of memory"
        if self.cycles_per_bit is not None:
            idle["cycles_per_example"] = "cycles_per_bit is used instead"
        return idle

    def build(self, streams: Streams, catalogue: Catalogue) -> World:
        """Builds the world: the shared device and link hold means, columns the draws."""
        edge_server, cloud_server = self.servers(self.own_catalogue(catalogue))
        per_bit = self.cycles_per_bit is not None
        work = self.cycles_per_bit or self.cycles_per_example
        cycles = self._draw(streams, "population.cycles_per_example", work)
        rate_bps = self._draw(streams, "population.access_bps", self.access_bps)
        mean_cycles, mean_bps = float(np.mean(work)), float(np.mean(self.access_bps))
        processor = Cpu(
            cores=1,
            frequency_min_hz=self.frequency_min_hz,
            frequency_max_hz=self.frequency_max_hz[1],
            kappa=self.kappa,
            power_static_w=self.power_static_w,
            cycles_per_example=None if per_bit else mean_cycles,
            cycles_per_bit=mean_cycles if per_bit else None,
        )
        zeros = np.zeros(self.clients, dtype=np.int64)
        return World(
            streams=streams,
            devices=[Device("paper", "paper", processor, self.power_idle_w, self.memory_bytes)],
            device_index=zeros,
            links=[self._link(mean_bps, self.power_transmit_w, self.power_receive_w, 0.0)],
            link_names=["paper"],
            link_index=zeros,
            home_edge=home_edge(self.clients, self.edges),
            position_m=square_positions(streams, "client", self.clients, self.side_m),
            edge_position_m=square_positions(streams, "edge", self.edges, self.side_m),
            frequency_min_hz=np.full(self.clients, self.frequency_min_hz),
            frequency_max_hz=self._draw(
                streams, "population.frequency_max_hz", self.frequency_max_hz
            ),
            speed_factor=np.ones(self.clients),
            work_factor=cycles / mean_cycles,
            rate_factor=rate_bps / mean_bps,
            edge_server=edge_server,
            cloud_server=cloud_server,
            backhaul=self._link(self.backhaul_bps, 0.0, 0.0, self.backhaul_j_per_byte),
            compute_noise=self.noise,
            transfer_noise=self.noise,
        )

    def _draw(self, streams: Streams, component: str, limits: tuple[float, float]) -> FloatArray:
        """Uniform between `limits`, one draw per client."""
        low, high = limits
        return low + (high - low) * streams.uniform(component, np.arange(self.clients))

    def _link(
        self, rate_bps: float, transmit_w: float, receive_w: float, j_per_byte: float
    ) -> FixedRateLink:
        return FixedRateLink(
            uplink_bps=rate_bps,
            downlink_bps=rate_bps,
            rtt_s=2.0 * self.latency_s,
            power_transmit_w=transmit_w,
            power_receive_w=receive_w,
            power_idle_w=0.0,
            energy_j_per_byte=j_per_byte,
        )
