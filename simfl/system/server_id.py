"""Identifies a server: an edge server, or the cloud."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerId:
    """Edge server `number`, from 0; or `CLOUD`, which is the only server of flat protocols.

    `number` is what the log's column `edge` says, and the place in columns over servers: -1 is the
    cloud's, the last.
    """

    number: int

    @classmethod
    def of(cls, edge: int | None) -> ServerId:
        """As protocols write it: the number of an edge server, None for the cloud."""
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
        """Over whose access point clients reach it; None: each over its home edge's."""
        return self.number if self.is_edge else None

    def __str__(self) -> str:
        """As messages to people name it."""
        return f"edge-{self.number}" if self.is_edge else "the server"


CLOUD = ServerId(-1)
