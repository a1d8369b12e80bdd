"""Everybody's messages: what is drawn for each, and what sending it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray, IntArray
from simfl.streams import Streams
from simfl.system.codecs.base import Codec, encoded_bytes
from simfl.system.cost import WireTransfer
from simfl.system.costs_of import transfer_cost_of
from simfl.system.link import Link
from simfl.system.link_columns import LinkColumns
from simfl.system.message_loss import MessageLoss
from simfl.system.messages import send
from simfl.system.noise import lognormal
from simfl.system.outgoing import Outgoing
from simfl.system.radio_paths import RadioPaths
from simfl.system.sharing.max_min import BACKHAUL
from simfl.system.sharing.message import SharedMessage


@dataclass(frozen=True, eq=False)
class Messenger:
    """The links of a world, with the world's fields of the same names.

    Over links of their own messages cost what `access` and `backhaul` say. `shared_access` and
    `shared_backhaul` give the same messages, with the same draws, for media that senders share.
    """

    streams: Streams
    links: Sequence[Link]
    link_index: IntArray
    backhaul_link: Link
    home_edge: IntArray
    position_m: FloatArray
    edge_position_m: FloatArray
    rate_factor: FloatArray
    band_share: FloatArray | None
    transfer_noise: float
    jitter: float
    fades: bool
    message_loss: MessageLoss | None
    uplink_codec: Codec
    downlink_codec: Codec

    @cached_property
    def _columns(self) -> LinkColumns:
        """Figures of each access link and, last, of the backhaul."""
        return LinkColumns.of([*self.links, self.backhaul_link])

    @property
    def client_radios(self) -> LinkColumns:
        """Figures of every client's link."""
        return self._columns.take(self.link_index)

    @property
    def server_radios(self) -> LinkColumns:
        """Figures of every edge server's link to the cloud and, last, of the cloud: it has none."""
        edges = len(self.edge_position_m)
        radios = self._columns.take(np.full(edges + 1, len(self.links)))
        return radios.where(np.arange(edges + 1) < edges)

    def tail_j(self, clients: IntArray, begin_s: ArrayLike, end_s: ArrayLike) -> FloatArray:
        """Joules of each radio's tail from `begin_s` to `end_s` seconds after its last message.

        inf, no message so far, has no tail.
        """
        columns = self._columns.take(self.link_index[clients])
        joules = columns.tail_j(end_s) - columns.tail_j(begin_s)
        return np.where(np.isinf(end_s), 0.0, joules)

    def access(
        self,
        clients: IntArray,
        turns: ArrayLike,
        raw_bytes: ArrayLike,
        uplink: bool,
        edges: ArrayLike | None,
        radio_idle_s: ArrayLike,
    ) -> WireTransfer:
        """One message of each client to its edge, or back."""
        outgoing = self._access(clients, turns, raw_bytes, uplink, edges)
        return outgoing.sent(np.broadcast_to(radio_idle_s, clients.shape))

    def shared_access(
        self,
        clients: IntArray,
        turns: ArrayLike,
        raw_bytes: ArrayLike,
        uplink: bool,
        edge: int | None,
        radio_idle_s: ArrayLike,
    ) -> list[SharedMessage]:
        """The same to `edge`, or (None) by way of the clients' home edges to the cloud."""
        outgoing = self._access(clients, turns, raw_bytes, uplink, edge)
        behind = () if edge is not None else (BACKHAUL,)
        return outgoing.shared(
            np.broadcast_to(radio_idle_s, clients.shape),
            np.ones(clients.size) if self.band_share is None else self.band_share[clients],
            [(point + 1, *behind) for point in outgoing.paths.access_points.tolist()],
        )

    def backhaul(
        self,
        edge: ArrayLike,
        counter: ArrayLike,
        raw_bytes: ArrayLike,
        uplink: bool,
        radio_idle_s: ArrayLike,
    ) -> WireTransfer:
        """A message between an edge server and the cloud; broadcasts."""
        wire_bytes = self._encoded(raw_bytes, uplink)
        columns = self._columns.take(len(self.links))
        component, noise, jitter = self._drawn("backhaul", edge, counter, uplink, columns)
        once = transfer_cost_of(self.backhaul_link, 8.0 * wire_bytes, uplink, 1.0 / noise, jitter)
        luck = self._luck(component, edge, counter)
        return send(once, wire_bytes, columns, radio_idle_s, self.message_loss, luck)

    def shared_backhaul(
        self, edge: int, counter: int, raw_bytes: int, uplink: bool, radio_idle_s: FloatArray
    ) -> SharedMessage:
        """The same, of one edge server."""
        one, place = np.array([edge]), np.array([len(self.links)])
        columns = self._columns.take(place)
        component, noise, jitter = self._drawn("backhaul", one, counter, uplink, columns)
        outgoing = Outgoing(
            [*self.links, self.backhaul_link],
            place,
            self._paths(one, counter, uplink, one),
            self._encoded([raw_bytes], uplink),
            1.0 / noise,
            jitter,
            columns,
            self.message_loss,
            self._luck(component, one, counter),
        )
        return outgoing.shared(radio_idle_s, np.ones(1), [(BACKHAUL,)])[0]

    def _access(
        self,
        clients: IntArray,
        turns: ArrayLike,
        raw_bytes: ArrayLike,
        uplink: bool,
        edges: ArrayLike | None,
    ) -> Outgoing:
        link_index = self.link_index[clients]
        columns = self._columns.take(link_index)
        component, noise, jitter = self._drawn("access", clients, turns, uplink, columns)
        points = self.home_edge[clients] if edges is None else edges
        raw = np.broadcast_to(np.asarray(raw_bytes), clients.shape)
        return Outgoing(
            self.links,
            link_index,
            self._paths(clients, turns, uplink, points),
            self._encoded(raw, uplink),
            self.rate_factor[clients] / noise,
            jitter,
            columns,
            self.message_loss,
            self._luck(component, clients, turns),
        )

    def _paths(
        self, senders: IntArray, turns: ArrayLike, uplink: bool, points: ArrayLike
    ) -> RadioPaths:
        return RadioPaths(
            self.streams,
            uplink,
            senders,
            np.broadcast_to(points, senders.shape),
            np.broadcast_to(turns, senders.shape),
            self.position_m,
            self.edge_position_m,
            self.fades,
        )

    def _drawn(
        self,
        link: str,
        entity: ArrayLike,
        counter: ArrayLike,
        uplink: bool,
        columns: LinkColumns,
    ) -> tuple[str, FloatArray, FloatArray]:
        """The component of the draws; factors on the whole duration, and on the latency.

        The latter includes the former.
        """
        component = f"{link}.{'up' if uplink else 'down'}"
        noise = lognormal(self.streams, self.transfer_noise, f"{component}.noise", entity, counter)
        sigma = self.jitter * columns.jitter_sigma
        jitter = lognormal(self.streams, sigma, f"{component}.jitter", entity, counter)
        return component, noise, noise * jitter

    def _luck(self, component: str, entity: ArrayLike, counter: ArrayLike) -> FloatArray:
        """What decides how often messages are sent; nothing is drawn where none can be lost."""
        if self.message_loss is None:
            return np.ones(np.broadcast_shapes(np.shape(entity), np.shape(counter)))
        return self.streams.uniform(f"{component}.loss", entity, counter)

    def _encoded(self, raw_bytes: ArrayLike, uplink: bool) -> IntArray:
        return encoded_bytes(self.uplink_codec if uplink else self.downlink_codec, raw_bytes)
