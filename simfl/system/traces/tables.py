"""The two tables that every trace becomes, as Parquet files and in memory.

Availability: one row per interval, columns `client, start_s, end_s, period_s`. Times lie in
[0, period_s], after which a client's trace begins again. A client that is never there has one row
without times. Capacity: one row per client, columns `client, seconds_per_example, uplink_bps,
downlink_bps`, empty where the source says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from simfl.system.cost import FloatArray, IntArray

INTERVALS = pa.schema(
    [
        ("client", pa.int64()),
        ("start_s", pa.float64()),
        ("end_s", pa.float64()),
        ("period_s", pa.float64()),
    ]
)
CAPACITIES = pa.schema(
    [
        ("client", pa.int64()),
        ("seconds_per_example", pa.float64()),
        ("uplink_bps", pa.float64()),
        ("downlink_bps", pa.float64()),
    ]
)


class TraceError(ValueError):
    """A trace file is absent or not what it should be; one line that names it."""


@dataclass(frozen=True, eq=False)
class Intervals:
    """When the clients of a trace are there: disjoint intervals, sorted by client and start.

    `client` (rows,) numbers them from 0; `period_s` (clients,) is after how long each one's trace
    begins again.
    """

    client: IntArray
    start_s: FloatArray
    end_s: FloatArray
    period_s: FloatArray

    @property
    def clients(self) -> int:
        """How many clients there are, those included that are never there."""
        return self.period_s.size

    @property
    def share(self) -> FloatArray:
        """Each client's availability over its period."""
        there_s = np.bincount(self.client, self.end_s - self.start_s, minlength=self.clients)
        shares: FloatArray = there_s / self.period_s
        return shares

    def write(self, path: Path) -> None:
        """Write the Parquet file."""
        absent = np.flatnonzero(np.bincount(self.client, minlength=self.clients) == 0)
        client = np.concatenate([self.client, absent])
        order = np.argsort(client, kind="stable")
        blank = np.full(absent.size, np.nan)
        columns = [
            pa.array(client[order]),
            pa.array(np.concatenate([self.start_s, blank])[order], from_pandas=True),
            pa.array(np.concatenate([self.end_s, blank])[order], from_pandas=True),
            pa.array(self.period_s[client[order]]),
        ]
        _write(pa.table(columns, schema=INTERVALS), path)


def read_intervals(path: Path) -> Intervals:
    """The availability table in a Parquet file; TraceError if it is none."""
    columns = _read(path, INTERVALS)
    if np.isnan(columns["period_s"]).any() or (columns["period_s"] <= 0).any():
        raise TraceError(f"{path}: period_s: must be above 0 in every row")
    numbers = columns["client"].astype(np.int64)
    _, first, client = np.unique(numbers, return_index=True, return_inverse=True)
    known = ~np.isnan(columns["start_s"])
    found, dropped = make_intervals(
        client[known],
        columns["start_s"][known],
        columns["end_s"][known],
        columns["period_s"][first],
    )
    if dropped:
        raise TraceError(
            f"{path}: {dropped} intervals end before they start, or lie outside 0..period_s"
        )
    return found


def make_intervals(
    client: ArrayLike, start_s: ArrayLike, end_s: ArrayLike, period_s: ArrayLike
) -> tuple[Intervals, int]:
    """Intervals sorted and joined where they touch, and how many were dropped.

    `client` numbers the rows' clients from 0, `period_s` has an entry per client. Dropped is what
    is not within 0 <= start < end <= period.
    """
    who = np.asarray(client, dtype=np.int64)
    start, end = np.asarray(start_s, dtype=float), np.asarray(end_s, dtype=float)
    period = np.asarray(period_s, dtype=float)
    good = (start >= 0) & (start < end) & (end <= period[who])
    who, start, end = who[good], start[good], end[good]
    order = np.lexsort([start, who])
    who, start, end = who[order], start[order], end[order]
    # Shifted apart, client by client, the latest end so far never comes from another client.
    shift = who * (2.0 * period.max(initial=1.0))
    latest = np.maximum.accumulate(end + shift) if who.size else end
    opens = np.ones(who.size, dtype=bool)
    opens[1:] = (start + shift)[1:] > latest[:-1]
    first = np.flatnonzero(opens)
    ends = np.maximum.reduceat(end, first) if who.size else end
    return Intervals(who[first], start[first], ends, period), int((~good).sum())


def intervals_of(
    traces: Sequence[tuple[Sequence[tuple[float, float]], float]],
) -> tuple[Intervals, int]:
    """As `make_intervals`, of (start and end of each interval, period) of each client, seconds.

    Intervals may lie at any time: they are moved into 0..period, and what crosses its end becomes
    two.
    """
    pairs = [pair for own, _ in traces for pair in own]
    start, end = np.array(pairs, dtype=float).reshape(-1, 2).T
    period_s = np.array([one for _, one in traces], dtype=float)
    who = np.repeat(np.arange(len(traces)), [len(own) for own, _ in traces])
    period = period_s[who]
    begin = start % period
    stop = begin + np.minimum(end - start, period)
    over = stop > period
    return make_intervals(
        np.concatenate([who, who[over]]),
        np.concatenate([begin, np.zeros(int(over.sum()))]),
        np.concatenate([np.minimum(stop, period), stop[over] - period[over]]),
        period_s,
    )


@dataclass(frozen=True, eq=False)
class Capacities:
    """How fast the clients of a trace compute and send; NaN where the source says nothing."""

    seconds_per_example: FloatArray
    uplink_bps: FloatArray
    downlink_bps: FloatArray

    def write(self, path: Path) -> None:
        """Write the Parquet file."""
        columns = [
            pa.array(np.arange(self.seconds_per_example.size)),
            *(
                pa.array(getattr(self, name), from_pandas=True)
                for name in CAPACITIES.names
                if name != "client"
            ),
        ]
        _write(pa.table(columns, schema=CAPACITIES), path)


def read_capacities(path: Path) -> Capacities:
    """The capacity table in a Parquet file; TraceError if it is none."""
    columns = _read(path, CAPACITIES)
    for name, column in columns.items():
        if name != "client" and (column <= 0).any():
            raise TraceError(f"{path}: {name}: must be above 0 where it is given")
    return Capacities(*(columns[name] for name in CAPACITIES.names if name != "client"))


def _write(table: pa.Table, path: Path) -> None:
    partial = path.with_suffix(".partial")
    pq.write_table(table, partial, compression="zstd")
    partial.replace(path)


def _read(path: Path, schema: pa.Schema) -> dict[str, FloatArray]:
    if not path.is_file():
        raise TraceError(f"{path}: no such file")
    try:
        table = pq.read_table(path)
        columns = {name: table.column(name).cast(pa.float64()).to_numpy() for name in schema.names}
    except (pa.ArrowException, KeyError) as error:
        accepted = ", ".join(schema.names)
        raise TraceError(f"{path}: accepted: a Parquet file with the columns {accepted}") from error
    if not table.num_rows:
        raise TraceError(f"{path}: holds no client")
    return columns
