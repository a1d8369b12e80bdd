"""Sends values with tensors between two processes, by shared memory or a pipe.

A parcel that fits the shared memory costs two copies and a message of a few bytes, which never
waits for the other side; any other goes through the pipe and may wait.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from simfl.learning.workers.packing import Layout, pack, unpack, write

_MESSAGE = struct.Struct("<?qq")
"""Whether the values are in shared memory, bytes of their tensors, bytes of the rest."""


def shared_memory(size_bytes: int) -> Tensor:
    """So many bytes (uint8) of memory that processes can share."""
    flat: Tensor = torch.empty(max(size_bytes, 1), dtype=torch.uint8)
    return flat.share_memory_()  # type: ignore[no-untyped-call,no-any-return]  # untyped in torch


@dataclass(frozen=True)
class Parcel:
    """Values prepared for sending."""

    layout: Layout
    tensors: list[Tensor]
    tensor_bytes: int
    rest: bytes

    @classmethod
    def of(cls, values: Sequence[Any]) -> Parcel:
        """Pack values, whose tensors are read when the parcel is sent; raises the errors of
        `pack`.
        """
        header, layout, tensors, size = pack(values)
        return cls(layout, tensors, size, pickle.dumps((header, layout)))


class Channel:
    """One end of a connection between two processes.

    `outgoing` and `incoming` are buffers of shared memory (uint8), used in turn: as many unread
    parcels may be in transit in one direction as there are buffers. The other end has them swapped.
    """

    def __init__(
        self, connection: Any, outgoing: Sequence[Tensor], incoming: Sequence[Tensor]
    ) -> None:
        self.connection = connection
        self._outgoing = outgoing
        self._incoming = incoming
        self._sent = 0
        self._received = 0

    def has_room(self, parcel: Parcel) -> bool:
        """Whether the parcel fits the shared memory, so that sending it never waits."""
        return parcel.tensor_bytes + len(parcel.rest) <= len(self._outgoing[0])

    def send(self, parcel: Parcel) -> None:
        """Send a parcel; raises OSError if the other side is gone."""
        room = self._outgoing[self._sent % len(self._outgoing)]
        self._sent += 1
        fits = self.has_room(parcel)
        message = _MESSAGE.pack(fits, parcel.tensor_bytes, len(parcel.rest))
        if fits:
            write(room, parcel.layout, parcel.tensors)
            end = parcel.tensor_bytes + len(parcel.rest)
            room.numpy()[parcel.tensor_bytes : end].data[:] = parcel.rest
            self.connection.send_bytes(message)
            return
        flat = torch.empty(parcel.tensor_bytes, dtype=torch.uint8)
        write(flat, parcel.layout, parcel.tensors)
        self.connection.send_bytes(message)
        self.connection.send_bytes(parcel.rest)
        if parcel.tensor_bytes:
            self.connection.send_bytes(flat.numpy().data)

    def receive(self) -> list[Any]:
        """The next values, with copied tensors; raises the errors of `Connection.recv`."""
        room = self._incoming[self._received % len(self._incoming)]
        self._received += 1
        fits, tensor_bytes, rest_bytes = _MESSAGE.unpack(self.connection.recv_bytes())
        if fits:
            rest = room.numpy()[tensor_bytes : tensor_bytes + rest_bytes].tobytes()
        else:
            rest = self.connection.recv_bytes()
            room = torch.empty(tensor_bytes, dtype=torch.uint8)
            if tensor_bytes:
                self.connection.recv_bytes_into(room.numpy().data)
        header, layout = pickle.loads(rest)
        return unpack(header, layout, room)
