"""Segments: the table of activities of a client round or a message.

A row is a segment (waking the radio up, latency, a flow of bits, work, ...), a column a client.
Both executors (protocols/ahead.py, protocols/stepped.py) walk the same table from top to bottom.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.common.arrays import BoolArray, FloatArray, IntArray

STAGES = ("download", "compute", "upload")
DOWNLOAD, COMPUTE, UPLOAD = range(3)


class Kind(IntEnum):
    """What happens in a segment."""

    TAIL = 0
    """Waiting for an answer with the radio in its tail."""
    SLEEP = 1
    """Waiting for an answer with the radio asleep."""
    WAKE = 2
    """The radio wakes up (promotion)."""
    LATENCY = 3
    FLOW = 4
    """Bits are sent. A flow that has begun is an attempt to send the message."""
    WORK = 5
    AWAY = 6
    """The client is absent, and its round pauses."""
    RESUMED = 7
    """The rest of a flow that an absence has interrupted."""


@dataclass(frozen=True, eq=False)
class Row:
    """One segment of many clients: `happens` tells whose rounds include it.

    `seconds` and `joules`, beyond idle power, are per client; `tail_j` is the part of `joules` for
    the radio's tail.
    """

    stage: int
    kind: Kind
    happens: BoolArray
    seconds: FloatArray
    joules: FloatArray
    tail_j: FloatArray


@dataclass(frozen=True, eq=False)
class Segments:
    """Rows in sequence: `stage` and `kind` (segments,), all else (segments, clients).

    Where a segment does not happen, its seconds and joules are 0.
    """

    stage: IntArray
    kind: IntArray
    happens: BoolArray
    seconds: FloatArray
    joules: FloatArray
    tail_j: FloatArray

    @classmethod
    def of(cls, rows: Sequence[Row], clients: int) -> Segments:
        """The table of these rows, without those that take nothing from any client."""
        kept = [row for row in rows if _matters(row)]
        shape = (len(kept), clients)

        def table(name: str, dtype: type) -> NDArray[Any]:
            whole: NDArray[Any] = np.empty(shape, dtype)
            for place, row in enumerate(kept):
                whole[place] = getattr(row, name)
            return whole

        return cls(
            np.array([row.stage for row in kept], dtype=np.int64),
            np.array([row.kind for row in kept], dtype=np.int64),
            table("happens", np.bool_),
            table("seconds", np.float64),
            table("joules", np.float64),
            table("tail_j", np.float64),
        )

    @staticmethod
    def join(several: Sequence[Segments]) -> Segments:
        """Tables of the same clients, one below another."""
        names = ("stage", "kind", "happens", "seconds", "joules", "tail_j")
        columns = (np.concatenate([getattr(one, name) for one in several]) for name in names)
        return Segments(*columns)

    def __len__(self) -> int:
        return len(self.stage)

    def rows(self, which: slice | IntArray) -> Segments:
        """Some of the rows."""
        return Segments(
            self.stage[which],
            self.kind[which],
            self.happens[which],
            self.seconds[which],
            self.joules[which],
            self.tail_j[which],
        )

    def take(self, places: IntArray) -> Segments:
        """Some of the columns."""
        return Segments(
            self.stage,
            self.kind,
            self.happens[:, places],
            self.seconds[:, places],
            self.joules[:, places],
            self.tail_j[:, places],
        )

    def without(self, rows: BoolArray, places: BoolArray) -> Segments:
        """The same, where these rows do not happen to the clients in a mask."""
        kept = ~(rows[:, None] & places)
        return Segments(
            self.stage,
            self.kind,
            self.happens & kept,
            self.seconds * kept,
            self.joules * kept,
            self.tail_j * kept,
        )

    def span(self, stage: int) -> slice:
        """The rows of a stage, which are consecutive."""
        first, last = np.searchsorted(self.stage, (stage, stage + 1))
        return slice(int(first), int(last))

    def total_s(self, stage: int) -> FloatArray:
        """Seconds of a stage, per client."""
        return added(self.seconds[self.span(stage)])

    def total_j(self, stage: int) -> FloatArray:
        """Joules of a stage beyond idle power, per client."""
        return added(self.joules[self.span(stage)])


def added(rows: FloatArray) -> FloatArray:
    """The sum of segments, shape (segments, clients), in their order.

    numpy's own sum is faster for many clients, but its order of additions depends on the memory
    layout: the last bit of a client could depend on whether there are other clients.
    """
    if len(rows) and (rows.shape[1] == 1 or not rows.flags.c_contiguous):
        total: FloatArray = np.add.accumulate(rows, axis=0)[-1]
    else:
        total = rows.sum(axis=0)
    return total


def _matters(row: Row) -> bool:
    """Whether a row has an effect: always for work and flows, not for empty waits and wake-ups."""
    if row.kind == Kind.WORK:
        return True
    if row.kind == Kind.FLOW:
        return bool(row.happens.any())
    return bool(row.seconds.any() or row.joules.any())
