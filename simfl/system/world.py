"""The simulated hardware: a million clients as columns, every cost as a vectorised function.

Clients share a few devices and links; a client's own figures (frequency range, speed, rate,
position) are columns. Draws are addressed by (component, client, round), so a round's noise depends
neither on the other participants nor on the draws of other components.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray, IntArray
from simfl.common.model_work import ModelWork
from simfl.streams import Streams
from simfl.system.across_backhaul import AcrossBackhaul, check_rules
from simfl.system.catalogue import Profile
from simfl.system.checked_costs import (
    compute_cost_of,
    cycles_of,
    cycles_per_training_of,
    unpowered_cycles_of,
)
from simfl.system.codecs.base import Codec
from simfl.system.codecs.float32 import Float32
from simfl.system.cost import ComputeCost, MissingCost
from simfl.system.device import Device, Server
from simfl.system.grouping import by_value
from simfl.system.link import Link
from simfl.system.message_loss import MessageLoss
from simfl.system.messages import Transmission
from simfl.system.messenger import ClientLinks, MessageNoise, Messenger, Places
from simfl.system.noise import lognormal
from simfl.system.region import Electricity
from simfl.system.round_plan import RoundPlan
from simfl.system.segments import COMPUTE, DOWNLOAD, Kind, Row, Segments
from simfl.system.server_id import ServerId
from simfl.system.sharing.bands import check_bands
from simfl.system.sharing.base import Sharing
from simfl.system.sharing.dedicated import Dedicated
from simfl.system.sharing.turns import check_turns


@dataclass(frozen=True, eq=False)
class World:
    """Clients, edge servers and a cloud, as a population builds them.

    Columns have one row per client (`edge_position_m`: per edge); `device_index` and `link_index`
    point into `devices` and `links`. `speed_factor` divides a client's compute times, `work_factor`
    multiplies its work, `rate_factor` its link's rates, `downlink_factor` (None: 1) that of the
    downlink once more. `compute_noise` (one for all, or a column) and `transfer_noise` are the
    sigmas of lognormal factors with mean 1 on each computation's and each transfer's duration;
    `jitter` multiplies the links' own sigmas of the factor on their latency; `fades` False leaves
    radio channels at their mean. Without `message_loss` every message arrives. A server gives a
    client whose round was broken off up after `noticed_after_s`. A computation's duration has
    another factor, `straggler_shift` + `straggler_mean` * Exp(1), the shifted exponential of Lee et
    al., IEEE T-IT 2018. `example_bits` is the stored size of one example, None if not given.
    `lacking_bytes` is the memory that clients lack for training, 0 if it suffices; None: it
    suffices for all. `access_sharing` is the sharing rule at an access point, `medium_index` (None:
    `link_index`) the medium of each client, `band_share` its share of a band, `backhaul_sharing`
    the sharing rule of edge servers on the backhaul. `behind_backhaul`: there are no edge servers,
    and clients' messages to the cloud cross the backhaul behind their access point. `electricity`
    is that of the clients and, last, of the servers. `profiles` are the files behind the machines.
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
    compute_noise: float | FloatArray = 0.0
    transfer_noise: float = 0.0
    jitter: float = 1.0
    fades: bool = True
    message_loss: MessageLoss | None = None
    noticed_after_s: float = 0.0
    straggler_shift: float = 1.0
    straggler_mean: float = 0.0
    example_bits: float | None = None
    electricity: Electricity | None = None
    uplink_codec: Codec = field(default_factory=Float32)
    downlink_codec: Codec = field(default_factory=Float32)
    access_sharing: Sharing = field(default_factory=Dedicated)
    backhaul_sharing: Sharing = field(default_factory=Dedicated)
    medium_index: IntArray | None = None
    band_share: FloatArray | None = None
    downlink_factor: FloatArray | None = None
    behind_backhaul: bool = False
    profiles: Sequence[Profile] = ()
    lacking_bytes: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.backhaul.needs_places:
            raise ValueError("backhaul: its rate depends on distance, but the cloud has no place")
        if self.medium_index is not None and self.access_sharing.cuts_band:
            check_bands(self.links, self.link_names, self.link_index, self.medium_index)
        if self.access_sharing.takes_turns:
            check_turns(self.links, self.link_names, self.link_index)
        if self.behind_backhaul:
            check_rules(self.access_sharing, self.backhaul_sharing)

    @property
    def num_clients(self) -> int:
        """The number of clients."""
        return len(self.device_index)

    def lacking(self, clients: IntArray, needed_bytes: FloatArray) -> FloatArray:
        """The bytes that clients' devices lack out of `needed_bytes`; 0 if they suffice."""
        known = np.array([device.memory_bytes for device in self.devices], dtype=float)
        beyond = needed_bytes - known[self.device_index[clients]]
        lacking: FloatArray = np.where(beyond > 0, beyond, 0.0)  # none for an unknown memory
        return lacking

    @property
    def num_edges(self) -> int:
        """The number of edge servers."""
        return len(self.edge_position_m)

    def air(self, clients: IntArray, server: ServerId) -> list[tuple[int, ...]]:
        """Each client's access point, and its medium there."""
        point = server.access_point
        points = self.home_edge[clients] if point is None else np.full(clients.size, point)
        return list(zip(points.tolist(), self.media[clients].tolist(), strict=True))

    def rate_factors(self, *, uplink: bool) -> FloatArray:
        """The factor on each client's rate in a direction."""
        if uplink or self.downlink_factor is None:
            return self.rate_factor
        return self.rate_factor * self.downlink_factor

    @property
    def media(self) -> IntArray:
        """Each client's medium at an access point."""
        return self.link_index if self.medium_index is None else self.medium_index

    @cached_property
    def client_sharing(self) -> Sharing:
        """The sharing rule between clients and their server."""
        shared = self.access_sharing.contended or self.backhaul_sharing.contended
        if self.behind_backhaul and shared:
            return AcrossBackhaul(self.access_sharing, self.backhaul_sharing)
        return self.access_sharing

    @cached_property
    def power_idle_w(self) -> FloatArray:
        """Each client's idle power: device and radio."""
        device_w = np.array([device.power_idle_w for device in self.devices])
        link_w = np.array([link.power_idle_w for link in self.links])
        total: FloatArray = device_w[self.device_index] + link_w[self.link_index]
        return total

    @cached_property
    def messenger(self) -> Messenger:
        """The links of this world, and the random draws of messages."""
        return Messenger(
            self.streams,
            ClientLinks(
                self.links,
                self.link_index,
                self.rate_factor,
                self.rate_factors(uplink=False),
                self.band_share,
                self.media,
            ),
            self.backhaul,
            Places(self.home_edge, self.position_m, self.edge_position_m),
            MessageNoise(self.transfer_noise, self.jitter, self.fades, self.message_loss),
            self.uplink_codec,
            self.downlink_codec,
            self.behind_backhaul,
        )

    @cached_property
    def power_law(self) -> tuple[FloatArray, FloatArray]:
        """Kappa (W/Hz^3) and static power (W) of a busy core per client: `Processor.power_law`.

        NaN for devices without such a law.
        """
        laws = [device.processor.power_law() or (np.nan, np.nan) for device in self.devices]
        kappa, static_w = np.array(laws, dtype=float)[self.device_index].T
        return kappa, static_w

    @property
    def without_noise(self) -> World:
        """The same hardware with every duration at its mean, as registered."""
        return replace(
            self,
            compute_noise=0.0,
            transfer_noise=0.0,
            jitter=0.0,
            fades=False,
            message_loss=None,
            straggler_shift=self.straggler_shift + self.straggler_mean,
            straggler_mean=0.0,
        )

    @property
    def edge_power_idle_w(self) -> float:
        """An edge server's idle power: machine and backhaul interface."""
        return self.edge_server.power_idle_w + self.backhaul.power_idle_w

    @property
    def cloud_power_idle_w(self) -> float:
        """The cloud server's idle power."""
        return self.cloud_server.power_idle_w

    def cycles(
        self,
        clients: ArrayLike,
        examples: ArrayLike,
        work: ModelWork | float | None,
        steps: ArrayLike = 0.0,
        trainings: ArrayLike = 0.0,
    ) -> FloatArray:
        """Nominal cycles, before noise, of training on `examples` in `steps` steps.

        `examples` and `steps` include passes and the brief's work, `trainings` is how often the
        fixed time of a training is spent. `work` is the model's; a number is that of a forward
        pass's operations, all of them in dense layers.
        """
        asked = _indices(clients)
        of_model = ModelWork(dense=work) if isinstance(work, int | float) else work
        rows = np.broadcast_to(np.asarray(examples, dtype=float), asked.shape)
        batches = np.broadcast_to(np.asarray(steps, dtype=float), asked.shape)
        times = np.broadcast_to(np.asarray(trainings, dtype=float), asked.shape)
        total = np.empty(len(asked))
        for device, own in self._by_device(asked):
            try:
                total[own] = cycles_of(
                    device.processor, rows[own], of_model, batches[own], self.example_bits
                )
            except MissingCost as missing:
                raise missing.of(device.name) from missing
            total[own] += times[own] * cycles_per_training_of(device.processor)
        return total * self.work_factor[asked]

    def levels(self, client: int) -> FloatArray | None:
        """The clock frequencies in Hz of a client's device; None: any in its range."""
        device = self.devices[int(self.device_index[client])]
        return device.processor.levels()

    def round_frequency(
        self, clients: ArrayLike, frequency_hz: ArrayLike, *, at_most: bool = False
    ) -> FloatArray:
        """`frequency_hz` within each client's range, at its device's nearest level.

        With `at_most` the highest level that is not faster, or otherwise the lowest.
        """
        asked = _indices(clients)
        wanted = np.broadcast_to(np.asarray(frequency_hz, dtype=float), asked.shape)
        if np.isnan(wanted).any():
            raise ValueError("frequency_hz: found NaN, accepted: a frequency per client")
        rounded: FloatArray = np.clip(
            wanted, self.frequency_min_hz[asked], self.frequency_max_hz[asked]
        )
        for device, own in self._by_device(asked):
            processor = device.processor
            if processor.levels() is not None:
                to_level = processor.level_below if at_most else processor.nearest_level
                rounded[own] = to_level(rounded[own])
        return rounded

    def plan_rounds(
        self,
        clients: ArrayLike,
        rounds: ArrayLike,
        examples: ArrayLike,
        work: ModelWork | float | None,
        down_bytes: ArrayLike,
        up_bytes: ArrayLike,
        frequency_hz: ArrayLike,
        edges: ArrayLike | None = None,
        radio_idle_s: ArrayLike = 0.0,
        steps: ArrayLike = 0.0,
    ) -> RoundPlan:
        """The cost of one round of each client: download, computation at `frequency_hz`, upload.

        `rounds` counts each client's own rounds (it addresses the noise); training passes over
        `examples` in `steps` steps, both times the brief's work, with a model of this `work` (see
        `cycles`); bytes are before the codec. `edges` are the access points (each client's home
        edge, if not given); `radio_idle_s` the seconds since the client's last message, 0 for a
        radio that is awake, inf for one that has not sent yet. Arrays have one entry per client;
        scalars hold for all. MissingCost names a device without figures.
        """
        asked = _indices(clients)
        frequency = self.round_frequency(asked, frequency_hz)
        before_s = np.broadcast_to(np.asarray(radio_idle_s, dtype=float), asked.shape)
        download = self.access_transfer(asked, rounds, down_bytes, False, edges, before_s)
        cycles, compute = self._compute(asked, rounds, (examples, steps), work, frequency)
        begun_s = np.where(download.wire_bytes > 0, 0.0, before_s)
        computed_s = begun_s + compute.duration_s
        upload = self.access_transfer(asked, rounds, up_bytes, True, edges, computed_s)
        working, tail_j = self._working(asked, compute, begun_s)
        segments = Segments.join([download.segments, working, upload.segments])
        if download.failed.any():
            segments = segments.without(segments.stage > DOWNLOAD, download.failed)
        return RoundPlan(
            segments,
            download,
            upload,
            frequency,
            cycles,
            compute.duration_s,
            compute.dynamic_j,
            compute.static_j,
            tail_j,
            np.where(
                download.failed,
                download.since_last_attempt_s,
                np.where(upload.wire_bytes > 0, upload.since_last_attempt_s, computed_s),
            ),
        )

    def _working(
        self, clients: IntArray, cost: ComputeCost, radio_idle_s: FloatArray
    ) -> tuple[Segments, FloatArray]:
        """Computations, at this time after the last message: first with the radio in its tail."""
        everybody, nothing = np.ones(clients.size, dtype=bool), np.zeros(clients.size)
        tail_s, tail_j = self.messenger.tail(clients, radio_idle_s, cost.duration_s)
        if not tail_s.any():
            row = Row(COMPUTE, Kind.WORK, everybody, cost.duration_s, cost.active_j, nothing)
            return Segments.of([row], clients.size), nothing
        rest_s = cost.duration_s - tail_s
        share = np.divide(tail_s, cost.duration_s, out=np.zeros_like(tail_s), where=tail_s > 0)
        first_j = share * cost.active_j
        rows = [
            Row(COMPUTE, Kind.WORK, everybody, tail_s, first_j + tail_j, tail_j),
            Row(COMPUTE, Kind.WORK, everybody, rest_s, cost.active_j - first_j, nothing),
        ]
        return Segments.of(rows, clients.size), tail_j

    def access_transfer(
        self,
        clients: ArrayLike,
        rounds: ArrayLike,
        raw_bytes: ArrayLike,
        uplink: bool,
        edges: ArrayLike | None = None,
        radio_idle_s: ArrayLike = 0.0,
    ) -> Transmission:
        """Cost of one message of each client to its edge (or back), one entry per client.

        `edges` and `radio_idle_s` as in `plan_rounds`.
        """
        return self.messenger.access(
            _indices(clients), rounds, raw_bytes, uplink, edges, radio_idle_s
        )

    def backhaul_transfer(
        self,
        edge: ArrayLike,
        counter: ArrayLike,
        raw_bytes: ArrayLike,
        uplink: bool,
        radio_idle_s: ArrayLike = 0.0,
    ) -> Transmission:
        """Cost of messages between edge servers and the cloud; `active_j` is the edge's end.

        `counter` counts an edge's messages in this direction (it addresses the noise). One entry
        each; single numbers hold for all.
        """
        return self.messenger.backhaul(edge, counter, raw_bytes, uplink, radio_idle_s)

    def aggregate(
        self, tier: Literal["edge", "cloud"], flops: ArrayLike, bytes_moved: ArrayLike
    ) -> ComputeCost:
        """Cost of a server's work on the edge's or the cloud's machine."""
        server = self.edge_server if tier == "edge" else self.cloud_server
        return server.execute(flops, bytes_moved)

    def _compute(
        self,
        clients: IntArray,
        rounds: ArrayLike,
        training: tuple[ArrayLike, ArrayLike],
        work: ModelWork | float | None,
        frequency_hz: FloatArray,
    ) -> tuple[FloatArray, ComputeCost]:
        """Executed cycles of `training`, which is (examples, steps), and their cost.

        Noise and a slow device stretch a computation at unchanged power: more cycles are spent on
        the same work (stalls, other programs), so seconds and joules grow together.
        """
        sigma = self.compute_noise
        sigma = sigma[clients] if isinstance(sigma, np.ndarray) else sigma
        noise = lognormal(self.streams, sigma, "compute", clients, rounds)
        noise = noise * self._straggling(clients, rounds)
        examples, steps = training
        rows = np.broadcast_to(np.asarray(examples, dtype=float), clients.shape)
        trainings = (rows > 0).astype(float)
        nominal = self.cycles(clients, rows, work, steps, trainings)
        cycles = nominal * noise / self.speed_factor[clients]
        batches = np.broadcast_to(np.asarray(steps, dtype=float), clients.shape)
        duration_s, dynamic_j, static_j = np.empty((3, len(clients)))
        for device, own in self._by_device(clients):
            cost = compute_cost_of(device.processor, cycles[own], frequency_hz[own])
            factor = self.work_factor[clients[own]]
            waited = factor * unpowered_cycles_of(
                device.processor, batches[own], trainings[own], nominal[own] / factor
            )
            powered = 1.0 - np.divide(
                waited, nominal[own], out=np.zeros_like(waited), where=waited > 0
            )
            duration_s[own], dynamic_j[own] = cost.duration_s, powered * cost.dynamic_j
            static_j[own] = powered * cost.static_j
        return cycles, ComputeCost(duration_s, dynamic_j, static_j)

    def _straggling(self, clients: IntArray, rounds: ArrayLike) -> FloatArray | float:
        """Shifted exponential factors; with mean 0 only the shift, and nothing is drawn."""
        if not self.straggler_mean:
            return self.straggler_shift
        draws = self.streams.exponential("compute.straggler", clients, rounds)
        return self.straggler_shift + self.straggler_mean * draws

    def _by_device(self, clients: IntArray) -> Iterator[tuple[Device, IntArray]]:
        for index, own in by_value(self.device_index[clients]):
            yield self.devices[index], own


def _indices(clients: ArrayLike) -> IntArray:
    """Client numbers as a one-dimensional array."""
    return np.atleast_1d(np.asarray(clients, dtype=np.int64))
