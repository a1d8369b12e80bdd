"""Identifies a server: an edge server, or the cloud."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerId:
    """Edge server `number`, from 0; or `CLOUD`, the only server of flat protocols.

    `number` is the log's column `edge`, and the index in columns over servers: -1 is the cloud, the
    last.
    """

    number: int

    @classmethod
    def of(cls, edge: int | None) -> ServerId:
        """From the notation of protocols: an edge server's number, or None for the cloud."""
        return CLOUD if edge is None else cls(int(edge))

    @property
    def is_edge(self) -> bool:
        """Whether it is an edge server."""
        return self.number >= 0

    @property
    def stream(self) -> int:
        """Its number in the addresses of random draws, which are not negative."""
        return self.number + 1

    @property
    def access_point(self) -> int | None:
        """The access point through which clients reach it; None: each its home edge's."""
        return self.number if self.is_edge else None

    def __str__(self) -> str:
        """Its name in messages to people."""
        return f"edge-{self.number}" if self.is_edge else "the server"


CLOUD = ServerId(-1)
