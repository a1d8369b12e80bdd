"""The simulated hardware: a million clients as columns, every cost as a vectorised function.

Clients share a few devices and links; what is a client's own (clock range, speed, rate, place) is
a column. Draws are addressed by (component, client, turn), so a turn's noise depends neither on
who else takes part nor on what the other components drew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from simfl.streams import Streams
from simfl.system.codec import Codec, Float32
from simfl.system.cost import ComputeCost, FloatArray, IntArray, MissingCost, WireTransfer
from simfl.system.device import Device, Server
from simfl.system.link import Link


@dataclass(frozen=True, eq=False)
class TurnPlan:
    """What one turn of each asked client costs; columns in the order of the clients asked.

    Bytes are those on the wire. Joules are the client's own beyond its idle power, but for the
    `..._network_j`. `cycles` are those executed, noise and device spread included.
    """

    frequency_hz: FloatArray
    down_bytes: IntArray
    download_s: FloatArray
    download_j: FloatArray
    download_network_j: FloatArray
    cycles: FloatArray
    compute_s: FloatArray
    dynamic_j: FloatArray
    static_j: FloatArray
    up_bytes: IntArray
    upload_s: FloatArray
    upload_j: FloatArray
    upload_network_j: FloatArray


@dataclass(frozen=True, eq=False)
class World:
    """Clients, edge servers and a cloud, as a population builds them.

    Columns have one row per client (`edge_position_m`: per edge); `device_index` and `link_index`
    point into `devices` and `links`. `speed_factor` divides a client's compute times, `work_factor`
    multiplies its work, `rate_factor` its link's rates. `compute_noise` and `transfer_noise` are
    the sigmas of lognormal factors with mean 1 on each computation's and each transfer's duration;
    `jitter` multiplies the links' own sigmas of the factor on their latency.
    """

    streams: Streams
    devices: Sequence[Device]
    device_index: IntArray
    links: Sequence[Link]
    link_names: Sequence[str]
    link_index: IntArray
    home_edge: IntArray
    position_m: FloatArray
    edge_position_m: FloatArray
    frequency_min_hz: FloatArray
    frequency_max_hz: FloatArray
    speed_factor: FloatArray
    work_factor: FloatArray
    rate_factor: FloatArray
    edge_server: Server
    cloud_server: Server
    backhaul: Link
    compute_noise: float = 0.0
    transfer_noise: float = 0.0
    jitter: float = 1.0
    uplink_codec: Codec = field(default_factory=Float32)
    downlink_codec: Codec = field(default_factory=Float32)

    @property
    def num_clients(self) -> int:
        """How many clients there are."""
        return len(self.device_index)

    @property
    def num_edges(self) -> int:
        """How many edge servers there are."""
        return len(self.edge_position_m)

    @property
    def predictable(self) -> bool:
        """Whether every transfer's duration is known when it starts."""
        return self.backhaul.predictable and all(link.predictable for link in self.links)

    @cached_property
    def power_idle_w(self) -> FloatArray:
        """Each client's idle power: device and radio."""
        device_w = np.array([device.power_idle_w for device in self.devices])
        link_w = np.array([link.power_idle_w for link in self.links])
        total: FloatArray = device_w[self.device_index] + link_w[self.link_index]
        return total

    @cached_property
    def _jitter_sigma(self) -> FloatArray:
        """Each link's sigma of the factor on its latency."""
        return self.jitter * np.array([link.jitter_sigma for link in self.links])

    @cached_property
    def power_law(self) -> tuple[FloatArray, FloatArray]:
        """Per client kappa (W/Hz^3) and static power (W) of a busy core, as `Processor.power_law`.

        NaN for devices that have no such law.
        """
        laws = [device.processor.power_law() or (np.nan, np.nan) for device in self.devices]
        kappa, static_w = np.array(laws, dtype=float)[self.device_index].T
        return kappa, static_w

    @property
    def without_noise(self) -> World:
        """The same hardware with every duration at its mean: what it is registered with."""
        return replace(self, compute_noise=0.0, transfer_noise=0.0, jitter=0.0)

    @property
    def edge_power_idle_w(self) -> float:
        """An edge server's idle power: machine and backhaul interface."""
        return self.edge_server.power_idle_w + self.backhaul.power_idle_w

    @property
    def cloud_power_idle_w(self) -> float:
        """The cloud server's idle power."""
        return self.cloud_server.power_idle_w

    def cycles(
        self, clients: ArrayLike, examples: ArrayLike, forward_flops: float | None
    ) -> FloatArray:
        """Nominal cycles, before noise, of training on `examples` (passes and work included)."""
        asked = _indices(clients)
        rows = np.broadcast_to(np.asarray(examples, dtype=float), asked.shape)
        total = np.empty(len(asked))
        for device, own in self._by_device(asked):
            try:
                total[own] = device.processor.cycles(rows[own], forward_flops)
            except MissingCost as missing:
                raise missing.of(device.name) from missing
        return total * self.work_factor[asked]

    def levels(self, client: int) -> FloatArray | None:
        """The clock frequencies in Hz of a client's device; None: any in its range."""
        device = self.devices[int(self.device_index[client])]
        return device.processor.levels()

    def round_frequency(self, clients: ArrayLike, frequency_hz: ArrayLike) -> FloatArray:
        """`frequency_hz` within each client's range, at its device's nearest level."""
        asked = _indices(clients)
        wanted = np.broadcast_to(np.asarray(frequency_hz, dtype=float), asked.shape)
        if np.isnan(wanted).any():
            raise ValueError("frequency_hz: found NaN, accepted: a frequency per client")
        rounded: FloatArray = np.clip(
            wanted, self.frequency_min_hz[asked], self.frequency_max_hz[asked]
        )
        for device, own in self._by_device(asked):
            if device.processor.levels() is not None:
                rounded[own] = device.processor.nearest_level(rounded[own])
        return rounded

    def plan_turns(
        self,
        clients: ArrayLike,
        turns: ArrayLike,
        examples: ArrayLike,
        forward_flops: float | None,
        down_bytes: ArrayLike,
        up_bytes: ArrayLike,
        frequency_hz: ArrayLike,
    ) -> TurnPlan:
        """Cost of one turn of each client: download, computation at `frequency_hz`, upload.

        `turns` counts each client's own turns (it addresses the noise), `examples` is what passes
        through training, times the brief's work; bytes are raw ones, before the codec. Arrays have
        one entry per client; scalars hold for all. MissingCost names a device without figures.
        """
        asked = _indices(clients)
        frequency = self.round_frequency(asked, frequency_hz)
        download = self.access_transfer(asked, turns, down_bytes, uplink=False)
        cycles, compute = self._compute(asked, turns, examples, forward_flops, frequency)
        upload = self.access_transfer(asked, turns, up_bytes, uplink=True)
        return TurnPlan(
            frequency_hz=frequency,
            down_bytes=download.wire_bytes,
            download_s=download.duration_s,
            download_j=download.active_j,
            download_network_j=download.network_j,
            cycles=cycles,
            compute_s=compute.duration_s,
            dynamic_j=compute.dynamic_j,
            static_j=compute.static_j,
            up_bytes=upload.wire_bytes,
            upload_s=upload.duration_s,
            upload_j=upload.active_j,
            upload_network_j=upload.network_j,
        )

    def access_transfer(
        self, clients: ArrayLike, turns: ArrayLike, raw_bytes: ArrayLike, uplink: bool
    ) -> WireTransfer:
        """Cost of one message of each client to its edge (or back), one entry per client."""
        asked = _indices(clients)
        wire_bytes = self._encoded(np.broadcast_to(np.asarray(raw_bytes), asked.shape), uplink)
        component = "access.up" if uplink else "access.down"
        sigma = self._jitter_sigma[self.link_index[asked]]
        noise, jitter = self._transfer_noise(component, asked, turns, sigma)
        rate_factor = self.rate_factor[asked] / noise
        duration_s, active_j, network_j = np.empty((3, len(asked)))
        for index, own in _groups(self.link_index[asked]):
            cost = self.links[index].transmit(
                8.0 * wire_bytes[own], uplink, rate_factor[own], jitter[own]
            )
            duration_s[own], active_j[own] = cost.duration_s, cost.active_j
            network_j[own] = cost.network_j
        return WireTransfer(duration_s, active_j, network_j, wire_bytes)

    def backhaul_transfer(
        self, edge: ArrayLike, counter: ArrayLike, raw_bytes: ArrayLike, uplink: bool
    ) -> WireTransfer:
        """Cost of a message between an edge and the cloud; `active_j` is the edge's end.

        `counter` counts the edge's messages in this direction (it addresses the noise).
        """
        wire_bytes = self._encoded(np.asarray(raw_bytes), uplink)
        component = "backhaul.up" if uplink else "backhaul.down"
        sigma = self.jitter * self.backhaul.jitter_sigma
        noise, jitter = self._transfer_noise(component, edge, counter, sigma)
        cost = self.backhaul.transmit(8.0 * wire_bytes, uplink, 1.0 / noise, jitter)
        return WireTransfer(cost.duration_s, cost.active_j, cost.network_j, wire_bytes)

    def aggregate(
        self, tier: Literal["edge", "cloud"], flops: ArrayLike, bytes_moved: ArrayLike
    ) -> ComputeCost:
        """Cost of a server's work on the edge's or the cloud's machine."""
        server = self.edge_server if tier == "edge" else self.cloud_server
        return server.execute(flops, bytes_moved)

    def _compute(
        self,
        clients: IntArray,
        turns: ArrayLike,
        examples: ArrayLike,
        forward_flops: float | None,
        frequency_hz: FloatArray,
    ) -> tuple[FloatArray, ComputeCost]:
        """Executed cycles and their cost.

        Noise and a slow device stretch a computation at unchanged power: more cycles are spent on
        the same work (stalls, other programs), so seconds and joules grow together.
        """
        noise = self._lognormal(self.compute_noise, "compute", clients, turns)
        nominal = self.cycles(clients, examples, forward_flops)
        cycles = nominal * noise / self.speed_factor[clients]
        duration_s, dynamic_j, static_j = np.empty((3, len(clients)))
        for device, own in self._by_device(clients):
            cost = device.processor.compute(cycles[own], frequency_hz[own])
            duration_s[own], dynamic_j[own] = cost.duration_s, cost.dynamic_j
            static_j[own] = cost.static_j
        return cycles, ComputeCost(duration_s, dynamic_j, static_j)

    def _transfer_noise(
        self, component: str, entity: ArrayLike, counter: ArrayLike, sigma: ArrayLike
    ) -> tuple[FloatArray, FloatArray]:
        """Factors on a transfer's whole duration, and on its latency (which includes the first)."""
        noise = self._lognormal(self.transfer_noise, f"{component}.noise", entity, counter)
        return noise, noise * self._lognormal(sigma, f"{component}.jitter", entity, counter)

    def _lognormal(
        self, sigma: ArrayLike, component: str, entity: ArrayLike, counter: ArrayLike
    ) -> FloatArray:
        """Factors with mean 1; without spread they are 1, and nothing is drawn."""
        if not np.any(sigma):
            return np.ones(np.broadcast_shapes(np.shape(entity), np.shape(counter)))
        return self.streams.lognormal(sigma, component, entity, counter)

    def _encoded(self, raw_bytes: ArrayLike, uplink: bool) -> IntArray:
        codec = self.uplink_codec if uplink else self.downlink_codec
        return codec.encoded_bytes(raw_bytes)

    def _by_device(self, clients: IntArray) -> Iterator[tuple[Device, IntArray]]:
        for index, own in _groups(self.device_index[clients]):
            yield self.devices[index], own


def _indices(clients: ArrayLike) -> IntArray:
    """Client numbers as a one-dimensional array."""
    return np.atleast_1d(np.asarray(clients, dtype=np.int64))


def _groups(index: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Each value in `index`, ascending, with the rows that hold it."""
    for value in np.flatnonzero(np.bincount(index)):
        yield int(value), np.flatnonzero(index == value)
