"""The two tables of every trace, as Parquet files and in memory.

Availability: one row per interval, columns `client, start_s, end_s, period_s`. Times are in [0,
period_s]; after the period a client's trace repeats. A client that is never present has one row
without times. Capacity: one row per client, columns `client, seconds_per_example, uplink_bps,
downlink_bps`, empty if the source has no value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from simfl.common.arrays import BoolArray, FloatArray, IntArray

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


MAXIMUM_CLIENTS = 1_000_000
"""The most clients in a trace; the largest known trace has half a million."""

MAXIMUM_ROWS = 50_000_000
"""The most rows of a table: 50 intervals for each of the most clients."""

PERIOD_S = (1.0, 1e9)
"""Shortest and longest period. With at most 30 years, a search through all clients' intervals on
one axis, one client after another, still separates fractions of a second.
"""

SECONDS_PER_EXAMPLE = (1e-12, 1e6)
RATE_BPS = (1.0, 1e15)
"""Slowest and fastest capacities; derived values stay far from the limits of floating point."""


class TraceError(ValueError):
    """A trace file is absent or invalid; the message is one line that names it."""


def within(values: ArrayLike, bounds: tuple[float, float]) -> BoolArray:
    """Which of `values` are numbers within the bounds, inclusive."""
    low, high = bounds
    return (np.asarray(values) >= low) & (np.asarray(values) <= high)


@dataclass(frozen=True, eq=False)
class Intervals:
    """The times at which the clients of a trace are present: disjoint, sorted by client and start.

    `client` (rows,) numbers them from 0; `period_s` (clients,) is the period after which each one's
    trace repeats.
    """

    client: IntArray
    start_s: FloatArray
    end_s: FloatArray
    period_s: FloatArray

    @property
    def clients(self) -> int:
        """The number of clients, including those that are never present."""
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
    """The availability table in a Parquet file; TraceError if it is not one."""
    columns = _read(path, INTERVALS)
    numbers, start_s, end_s, period_s = (columns[name] for name in INTERVALS.names)
    _require(path, "period_s", within(period_s, PERIOD_S), period_s, _between(PERIOD_S))
    known = ~np.isnan(start_s)
    complete = known == ~np.isnan(end_s)
    _require(path, "end_s", complete, end_s, "start_s and end_s, or neither")
    ordered = ~known | ((start_s >= 0) & (start_s < end_s) & (end_s <= period_s))
    accepted = "0 <= start_s < end_s <= period_s (intervals end before they start, or lie outside)"
    _require(path, "end_s", ordered, end_s, accepted)
    known_by, first, client = np.unique(
        numbers.astype(np.int64), return_index=True, return_inverse=True
    )
    gapless = numbers < known_by.size  # they are at least 0 and different, so all up to the largest
    accepted = (
        "numbers from 0 without gaps: the others would be taken for the missing ones; a client that"
        " is never present has one row without times"
    )
    _require(path, "client", gapless, numbers, accepted)
    own = period_s == period_s[first][client]
    _require(path, "period_s", own, period_s, "the same period in all rows of a client")
    found, _ = make_intervals(client[known], start_s[known], end_s[known], period_s[first])
    return found


def make_intervals(
    client: ArrayLike, start_s: ArrayLike, end_s: ArrayLike, period_s: ArrayLike
) -> tuple[Intervals, int]:
    """Sorted intervals, joined where they touch, and the number of dropped ones.

    `client` numbers the rows' clients from 0, `period_s` has an entry per client. Intervals are
    dropped unless 0 <= start < end <= period.
    """
    who = np.asarray(client, dtype=np.int64)
    start, end = np.asarray(start_s, dtype=float), np.asarray(end_s, dtype=float)
    period = np.asarray(period_s, dtype=float)
    good = (start >= 0) & (start < end) & (end <= period[who])
    who, start, end = who[good], start[good], end[good]
    order = np.lexsort([start, who])
    who, start, end = who[order], start[order], end[order]
    # With clients shifted apart, the latest end so far is never that of another client.
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
    """`make_intervals` of each client's (start and end of each interval, period), in seconds.

    Intervals may have any times: they are moved into 0..period, and split in two at its end.
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
    """How fast the clients of a trace compute and send; NaN if the source has no value."""

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
    """The capacity table in a Parquet file; TraceError if it is not one."""
    columns = _read(path, CAPACITIES)
    del columns["client"]
    for name, column in columns.items():
        bounds = SECONDS_PER_EXAMPLE if name == "seconds_per_example" else RATE_BPS
        good = np.isnan(column) | within(column, bounds)
        _require(path, name, good, column, f"{_between(bounds)}, or null where it is not known")
    return Capacities(*columns.values())


def _write(table: pa.Table, path: Path) -> None:
    partial = path.with_suffix(".partial")
    try:
        pq.write_table(table, partial.absolute(), compression="zstd")
        partial.replace(path)
    except OSError as error:
        raise TraceError(f"{path}: cannot be written: {error.strerror or error}") from error


def _read(path: Path, schema: pa.Schema) -> dict[str, FloatArray]:
    """The columns of a table with NaN for null and valid clients; others are not read."""
    require_file(path)
    accepted = f"a Parquet file with the columns {', '.join(schema.names)}"
    try:
        with pq.ParquetFile(path.absolute()) as file:
            rows = file.metadata.num_rows
            if rows > MAXIMUM_ROWS:
                raise TraceError(f"{path}: found {rows:,} rows, accepted: at most {MAXIMUM_ROWS:,}")
            for name in schema.names:
                found = file.schema_arrow.field(name).type
                if not pa.types.is_integer(found) and not pa.types.is_floating(found):
                    raise TraceError(f"{path}: {name}: found {found}, accepted: numbers")
            table = file.read(columns=schema.names)
        if not table.num_rows:
            raise TraceError(f"{path}: holds no client")
        columns = {name: _column(path, name, table.column(name)) for name in schema.names}
    # For pages that cannot be unpacked, pyarrow raises OSError instead of one of its own errors.
    except (pa.ArrowException, KeyError, OSError, MemoryError, OverflowError) as error:
        raise TraceError(f"{path}: accepted: {accepted}") from error
    client = columns["client"]
    good = within(client, (0, MAXIMUM_CLIENTS - 1)) & (client == np.floor(client))
    wanted = f"whole numbers from 0 to {MAXIMUM_CLIENTS - 1:,}"
    _require(path, "client", good, client, wanted)
    return columns


def require_file(path: Path) -> None:
    """Raises TraceError if there is no file of that name, or there cannot be one."""
    try:
        is_there = path.is_file()
    except OSError as error:
        raise TraceError(f"{path}: an unreadable file ({error.strerror})") from error
    if not is_there:
        raise TraceError(f"{path}: no such file")


def _column(path: Path, name: str, column: pa.ChunkedArray) -> FloatArray:
    numbers = column.cast(pa.float64())
    values: FloatArray = numbers.to_numpy()
    null = numbers.is_null().to_numpy()
    _require(path, name, np.isfinite(values) | null, values, "finite numbers")
    return values


def _require(path: Path, name: str, good: BoolArray, values: FloatArray, accepted: str) -> None:
    """Raises TraceError with the first row, counted from 0, with a bad value."""
    if not good.all():
        row = int(np.argmin(good))
        found = "NaN or null" if np.isnan(values[row]) else f"{values[row]:.15g}"
        raise TraceError(f"{path}: {name}: row {row} holds {found}, accepted: {accepted}")


def _between(bounds: tuple[float, float]) -> str:
    return f"{bounds[0]:g} to {bounds[1]:g}"
