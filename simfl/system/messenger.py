"""The messages of all clients and servers: their random draws, and their segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray, IntArray
from simfl.streams import Streams
from simfl.system.codecs.base import Codec, encoded_bytes
from simfl.system.link import Link
from simfl.system.link_columns import LinkColumns
from simfl.system.message_loss import MessageLoss
from simfl.system.messages import Outgoing, Transmission
from simfl.system.noise import lognormal
from simfl.system.radio_paths import RadioPaths
from simfl.system.relayed import Relayed
from simfl.system.segments import DOWNLOAD, UPLOAD
from simfl.system.server_id import ServerId
from simfl.system.sharing.base import Sender
from simfl.system.sharing.max_min import BACKHAUL


@dataclass(frozen=True, eq=False)
class ClientLinks:
    """The link of each client, among `links`, and the client's own factors: one entry per client.

    `up_factor` and `down_factor` multiply the link's rates; `band_share` (None: equal ones) is each
    client's share of a band, and clients with the same `medium` at an access point share it.
    """

    links: Sequence[Link]
    index: IntArray
    up_factor: FloatArray
    down_factor: FloatArray
    band_share: FloatArray | None
    medium: IntArray


@dataclass(frozen=True, eq=False)
class Places:
    """Positions of clients and edge servers, shapes (n, 2) and (m, 2), and each client's edge."""

    home_edge: IntArray
    position_m: FloatArray
    edge_position_m: FloatArray


@dataclass(frozen=True, eq=False)
class MessageNoise:
    """The random effects on messages, as in `World`: durations, latencies, fading and losses."""

    transfer_noise: float
    jitter: float
    fades: bool
    message_loss: MessageLoss | None


@dataclass(frozen=True, eq=False)
class Messenger:
    """The links of a world: the costs of messages, and their senders.

    `access` and `backhaul` give the costs of messages; `senders` and `backhaul_senders` send the
    same messages, with the same draws, over channels that senders share. With `behind_backhaul`,
    clients' messages also cross the backhaul.
    """

    streams: Streams
    access_links: ClientLinks
    backhaul_link: Link
    places: Places
    noise: MessageNoise
    uplink_codec: Codec
    downlink_codec: Codec
    behind_backhaul: bool

    @cached_property
    def _columns(self) -> LinkColumns:
        """Figures of each access link and, last, of the backhaul."""
        return LinkColumns.of([*self.access_links.links, self.backhaul_link])

    @property
    def client_radios(self) -> LinkColumns:
        """Figures of every client's link."""
        return self._columns.take(self.access_links.index)

    @property
    def server_radios(self) -> LinkColumns:
        """Figures of every edge server's link to the cloud and, last, zeros for the cloud."""
        edges = len(self.places.edge_position_m)
        radios = self._columns.take(np.full(edges + 1, len(self.access_links.links)))
        return radios.where(np.arange(edges + 1) < edges)

    @property
    def jitters(self) -> bool:
        """Whether the latency of clients' messages varies."""
        sigma = self.client_radios.jitter_sigma
        beyond = self.behind_backhaul and self.backhaul_link.jitter_sigma
        return bool(self.noise.jitter and (sigma.any() or beyond))

    def tail(
        self, clients: IntArray, radio_idle_s: FloatArray, lasts_s: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Seconds and joules of each radio's tail in the next `lasts_s` seconds.

        Its last message ended `radio_idle_s` ago; inf, for no message so far, means no tail.
        """
        columns = self._columns.take(self.access_links.index[clients])
        left_s = np.where(np.isinf(radio_idle_s), 0.0, columns.tail_s - radio_idle_s)
        tail_s: FloatArray = np.clip(left_s, 0.0, lasts_s)
        return tail_s, tail_s * columns.tail_w

    def access(
        self,
        clients: IntArray,
        rounds: ArrayLike,
        raw_bytes: ArrayLike,
        uplink: bool,
        edges: ArrayLike | None,
        radio_idle_s: ArrayLike,
    ) -> Transmission:
        """One message of each client to its server, or from it."""
        about = clients, rounds, raw_bytes, uplink
        idle_s, outgoing = np.broadcast_to(radio_idle_s, clients.shape), self._access(*about, edges)
        if self.behind_backhaul:
            return self._relayed(outgoing, *about).sent(idle_s)
        return outgoing.sent(idle_s)

    def senders(
        self,
        clients: IntArray,
        rounds: ArrayLike,
        raw_bytes: ArrayLike,
        uplink: bool,
        server: ServerId,
        sent: Transmission,
    ) -> list[Sender]:
        """The senders of the messages of `access`, over shared channels.

        Clients reach an edge server through its access point, and the cloud through their home
        edges'.
        """
        about, own = (clients, rounds, raw_bytes, uplink), self.access_links
        outgoing = self._access(*about, server.access_point)
        behind, points = () if server.is_edge else (BACKHAUL,), outgoing.paths.access_points
        weight = np.ones(clients.size) if own.band_share is None else own.band_share[clients]
        routes = [(point + 1, *behind) for point in points.tolist()]
        if not self.behind_backhaul:
            return outgoing.senders(sent, weight, routes)
        media = points * (own.medium.max(initial=0) + 1) + own.medium[clients]
        return self._relayed(outgoing, *about).senders(sent, weight, routes, 2 * media + uplink)

    def backhaul(
        self,
        edge: ArrayLike,
        counter: ArrayLike,
        raw_bytes: ArrayLike,
        uplink: bool,
        radio_idle_s: ArrayLike,
    ) -> Transmission:
        """A message between an edge server and the cloud; broadcasts to one dimension."""
        outgoing = self._backhaul(edge, counter, raw_bytes, uplink)
        return outgoing.sent(np.broadcast_to(radio_idle_s, outgoing.wire_bytes.shape))

    def backhaul_senders(
        self, edge: int, counter: int, raw_bytes: int, uplink: bool, sent: Transmission
    ) -> list[Sender]:
        """The senders of the messages of `backhaul`, over a backhaul that edge servers share."""
        outgoing = self._backhaul(edge, counter, raw_bytes, uplink)
        return outgoing.senders(sent, np.ones(1), [(BACKHAUL,)])

    def _backhaul(
        self, edge: ArrayLike, counter: ArrayLike, raw_bytes: ArrayLike, uplink: bool
    ) -> Outgoing:
        edges, counters, raw = np.broadcast_arrays(*np.atleast_1d(edge, counter, raw_bytes))
        return self._over_backhaul("backhaul", edges, counters, raw, uplink)

    def _over_backhaul(
        self, link: str, senders: IntArray, counters: ArrayLike, raw_bytes: ArrayLike, uplink: bool
    ) -> Outgoing:
        """Messages over the backhaul alone, with the draws of `link`, by sender and counter."""
        places = np.full(senders.shape, len(self.access_links.links))
        columns = self._columns.take(places)
        component, noise, jitter = self._drawn(link, senders, counters, uplink, columns)
        raw = np.broadcast_to(np.asarray(raw_bytes), senders.shape)
        return Outgoing(
            [*self.access_links.links, self.backhaul_link],
            places,
            self._paths(senders, counters, uplink, 0),
            self._encoded(raw, uplink),
            1.0 / noise,
            jitter,
            columns,
            self.noise.message_loss,
            self._loss_draws(component, senders, counters),
            UPLOAD if uplink else DOWNLOAD,
        )

    def _access(
        self,
        clients: IntArray,
        rounds: ArrayLike,
        raw_bytes: ArrayLike,
        uplink: bool,
        edges: ArrayLike | None,
    ) -> Outgoing:
        own = self.access_links
        link_index = own.index[clients]
        columns = self._columns.take(link_index)
        component, noise, jitter = self._drawn("access", clients, rounds, uplink, columns)
        points = self.places.home_edge[clients] if edges is None else edges
        raw = np.broadcast_to(np.asarray(raw_bytes), clients.shape)
        return Outgoing(
            own.links,
            link_index,
            self._paths(clients, rounds, uplink, points),
            self._encoded(raw, uplink),
            (own.up_factor if uplink else own.down_factor)[clients] / noise,
            jitter,
            columns,
            self.noise.message_loss,
            self._loss_draws(component, clients, rounds),
            UPLOAD if uplink else DOWNLOAD,
        )

    def _relayed(
        self,
        access: Outgoing,
        clients: IntArray,
        rounds: ArrayLike,
        raw_bytes: ArrayLike,
        uplink: bool,
    ) -> Relayed:
        """The same messages with the backhaul as a second link."""
        numbers = np.broadcast_to(np.asarray(rounds), clients.shape)
        backhaul = self._over_backhaul("client_backhaul", clients, numbers, raw_bytes, uplink)
        return Relayed(access, backhaul)

    def _paths(
        self, senders: IntArray, rounds: ArrayLike, uplink: bool, points: ArrayLike
    ) -> RadioPaths:
        return RadioPaths(
            self.streams,
            uplink,
            senders,
            np.broadcast_to(points, senders.shape),
            np.broadcast_to(rounds, senders.shape),
            self.places.position_m,
            self.places.edge_position_m,
            self.noise.fades,
        )

    def _drawn(
        self,
        link: str,
        entity: ArrayLike,
        counter: ArrayLike,
        uplink: bool,
        columns: LinkColumns,
    ) -> tuple[str, FloatArray, FloatArray]:
        """The component of the draws, and factors on the total duration and on the latency.

        The latter include the former.
        """
        component = f"{link}.{'up' if uplink else 'down'}"
        sigma = self.noise.transfer_noise
        noise = lognormal(self.streams, sigma, f"{component}.noise", entity, counter)
        sigmas = self.noise.jitter * columns.jitter_sigma
        jitter = lognormal(self.streams, sigmas, f"{component}.jitter", entity, counter)
        return component, noise, noise * jitter

    def _loss_draws(self, component: str, entity: ArrayLike, counter: ArrayLike) -> FloatArray:
        """The draws for the number of attempts; none are made if no message can be lost."""
        if self.noise.message_loss is None:
            return np.ones(np.broadcast_shapes(np.shape(entity), np.shape(counter)))
        return self.streams.uniform(f"{component}.loss", entity, counter)

    def _encoded(self, raw_bytes: ArrayLike, uplink: bool) -> IntArray:
        return encoded_bytes(self.uplink_codec if uplink else self.downlink_codec, raw_bytes)
