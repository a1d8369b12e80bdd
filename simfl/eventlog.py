"""The event log: one row per thing that happened, in one canonical order.

Rows may be added long before they end: a turn whose course is fixed at dispatch is booked whole.
They are written once the clock has passed their end, sorted by time, kind and actor, so that the
file depends on what happened and never on the order in which simultaneous events were processed.
While a run goes on the rows lie in `events/part-NNNNN.parquet`, each renamed into place when it
is complete; `finish` merges them into `events.parquet`.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from simfl.accounts import Accounts
from simfl.eventrows import Columns, cut_rows, join_rows, rows_of, take_rows

# kind -> (what it is, what `value` holds, the keys of `detail`). The order is the canonical one
# of simultaneous rows: what ends a turn comes before what follows from it.
KINDS: dict[str, tuple[str, str, str]] = {
    "download": ("a message reaches a client or edge server", "", "active_j, query"),
    "compute": ("a client trains, or answers a query", "", "cycles, dynamic_j, static_j, query"),
    "upload": ("a client's or edge server's message reaches its server", "", "active_j, query"),
    "network": ("energy spent inside the network between edge and cloud", "", ""),
    "edge_aggregate": ("an edge server aggregates its clients' updates", "", "updates"),
    "cloud_aggregate": ("the cloud aggregates, or merges an edge's model", "share", "updates"),
    "evaluate": ("a global version is evaluated; takes no simulated time", "accuracy", "loss"),
    "associate": (
        "clients are associated with edge servers",
        "",
        "edges, home_edges, js_home, js, switches, proposals, stable",
    ),
    "select": ("clients are selected for a round", "number selected", "selected, eligible, asked"),
    "schedule": (
        "the cloud picks an edge server to dispatch",
        "edge picked",
        "idle, estimated_latency_s, kn, an, bn (posterior), scores, queues, normaliser_s",
    ),
    "departure": ("the run departs from the algorithm's paper", "", "reason"),
    "idle": ("a device waits", "", "unmet_j (of idle power, by an empty battery)"),
    "feasibility": (
        "whether the scheduling rule can give every edge server what it owes",
        "edge servers that it cannot",
        "unattainable, owed_share, attainable_share, latency_s (nominal)",
    ),
    "late": (
        "a client's upload arrives after its round has closed",
        "seconds since the close",
        "then (drop or carry_over)",
    ),
    "report": (
        "what an algorithm says of the updates that a server aggregates",
        "the algorithm's figure; corefed: the smallest utility",
        "the algorithm's own; corefed: rule, clients, losses, offsets, utilities, coefficients",
    ),
    "unavailable": (
        "a client leaves in mid-turn",
        "seconds until it is back",
        "stage, then (goes_on or ends)",
    ),
    "crash": (
        "a client in mid-turn, an edge server at work, or its link to the cloud fails",
        "seconds until it is repaired",
        "stage, then; what (edge_server or cloud_link)",
    ),
    "battery_empty": ("a client's battery runs empty in mid-turn", "", "stage, then"),
}
KIND_INDEX = {kind: index for index, kind in enumerate(KINDS)}

STATES = ("download", "compute", "upload", "edge_aggregate", "cloud_aggregate", "idle")
"""Kinds that a device is in, one at a time; together they fill its time."""

UNITS = {
    "seq": "position in the log",
    "time_s": "s, end of the event",
    "start_s": "s",
    "kind": "one of the event kinds",
    "actor": "client-N, edge-N, cloud or network: who spends time and energy",
    "client": "client number, empty for servers",
    "edge": "edge server involved, empty for a flat server",
    "version": "server version that the row belongs to",
    "round": "round or dispatch number of the protocol",
    "duration_s": "s",
    "energy_j": "J, of the actor, its idle power included",
    "bytes": "bytes on the link, after the codec",
    "frequency_hz": "Hz, CPU frequency while computing",
    "staleness": "versions that the server moved on since the download",
    "value": "the number of this kind",
    "detail": "JSON, keys by kind",
}

SCHEMA = pa.schema(
    [
        ("seq", pa.int64()),
        ("time_s", pa.float64()),
        ("start_s", pa.float64()),
        ("kind", pa.string()),
        ("actor", pa.string()),
        ("client", pa.int32()),
        ("edge", pa.int32()),
        ("version", pa.int64()),
        ("round", pa.int64()),
        ("duration_s", pa.float64()),
        ("energy_j", pa.float64()),
        ("bytes", pa.int64()),
        ("frequency_hz", pa.float64()),
        ("staleness", pa.int64()),
        ("value", pa.float64()),
        ("detail", pa.string()),
    ]
)

CANONICAL_ORDER = ("time_s", "kind", "actor", "start_s", "edge", "round", "version")
ROW_GROUP_ROWS = 100_000
SEGMENT_SECONDS = 60.0
MOST_BLOCKS = 1000
"""Blocks, and single rows, that are kept apart: what is pending is joined when there are more."""


@dataclass(frozen=True)
class Actors:
    """Numbers the devices: clients first, then edge servers, the cloud and the network."""

    clients: int
    edges: int

    @property
    def cloud(self) -> int:
        """The cloud's number."""
        return self.clients + self.edges

    @property
    def network(self) -> int:
        """The number under which energy inside the network is booked."""
        return self.cloud + 1

    @property
    def count(self) -> int:
        """How many actors there are."""
        return self.network + 1

    def edge(self, index: int) -> int:
        """Edge server `index`'s number."""
        return self.clients + index

    def names(self) -> list[str]:
        """Every actor's name, in order."""
        return [
            *(f"client-{index}" for index in range(self.clients)),
            *(f"edge-{index}" for index in range(self.edges)),
            "cloud",
            "network",
        ]


class EventLog:
    """Collects rows, keeps the accounts of them, and writes them in canonical order.

    `folder` None, or `write_rows` False, keeps the accounts only. `check(table, first row)` is
    shown every segment. Raises `OSError` where the disk refuses.
    """

    def __init__(
        self,
        actors: Actors,
        accounts: Accounts,
        folder: Path | None = None,
        rows_per_segment: int = ROW_GROUP_ROWS,
        write_rows: bool = True,
        check: Callable[[pa.Table, int], None] | None = None,
    ) -> None:
        self.actors = actors
        self.accounts = accounts
        self.write_rows = write_rows and folder is not None
        self.rows_written = 0
        self._folder = folder
        self._check = check
        self._rows_per_segment = rows_per_segment
        self._pending: list[Columns] = []
        self._recent: list[Columns] = []
        self._single: list[dict[str, Any]] = []
        self._pending_rows = 0
        self._segments: list[Path] = []
        self._segment_opened = time.monotonic()
        self._last_time_s = 0.0
        self._hash = hashlib.sha256()
        self._names = pa.array(actors.names(), pa.string()) if self.write_rows else None
        if self.write_rows and folder is not None:
            (folder / "events").mkdir(parents=True, exist_ok=True)

    def add(self, rows: Columns) -> None:
        """Book rows, some or all of which may end in the future."""
        if len(rows["time_s"]):
            self._recent.append(rows)
            self._pending_rows += len(rows["time_s"])
            if len(self._recent) >= MOST_BLOCKS:
                self._gather()
            self.accounts.expect(rows)

    def row(self, kind: str, actor: int, time_s: float, **columns: Any) -> None:
        """Book one row; `start_s` defaults to `time_s`."""
        columns.setdefault("start_s", time_s)
        columns["duration_s"] = time_s - columns["start_s"]
        row = {"kind": KIND_INDEX[kind], "actor": actor, "time_s": time_s, **columns}
        self._single.append(row)
        self._pending_rows += 1
        if len(self._single) >= MOST_BLOCKS:
            self._gather()
        self.accounts.expect_one(row)

    def advance(self, now_s: float) -> None:
        """Write what ended before `now_s`, if enough has gathered for a segment."""
        waited = time.monotonic() - self._segment_opened >= SEGMENT_SECONDS
        if self._pending_rows >= self._rows_per_segment or waited:
            self._write(now_s, include_now=False)

    def flush(self, now_s: float) -> None:
        """Write what ended before `now_s`, whatever there is."""
        self._write(now_s, include_now=False)

    def finish(self, horizon_s: float) -> None:
        """Cut what is under way at `horizon_s`, write everything, merge the segments."""
        self._gather()
        self._pending = [cut_rows(rows, horizon_s) for rows in self._pending]
        self._write(horizon_s, include_now=True)
        if self.write_rows and self._folder is not None:
            merge_segments(self._folder)

    @property
    def fingerprint(self) -> str:
        """Hash of time, kind, actor, bytes and version of every row written so far."""
        return self._hash.hexdigest()

    def _gather(self) -> None:
        if self._single:
            self._recent.append(rows_of(self._single))
            self._single = []
        if self._recent:
            self._pending.append(join_rows(self._recent))
            self._recent = []

    def _write(self, now_s: float, *, include_now: bool) -> None:
        self._gather()
        if not self._pending:
            return
        rows = join_rows(self._pending)
        ended = rows["time_s"] <= now_s if include_now else rows["time_s"] < now_s
        rest = take_rows(rows, ~ended)
        self._pending = [rest] if len(rest["time_s"]) else []
        self._pending_rows = len(rest["time_s"])
        rows = take_rows(rows, ended)
        order = np.lexsort([rows[name] for name in reversed(CANONICAL_ORDER)])
        rows = take_rows(rows, order)
        self.accounts.book(rows, self._last_time_s)
        self._segment_opened = time.monotonic()
        if not len(order):
            return
        self._last_time_s = float(rows["time_s"][-1])
        self._hash.update(_trajectory(rows))
        if self.write_rows and self._folder is not None:
            path = self._folder / "events" / f"part-{len(self._segments):05d}.parquet"
            table = self._table(rows)
            write_parquet(table, path)
            if self._check is not None:
                self._check(table, self.rows_written)
            self._segments.append(path)
        self.rows_written += len(order)

    def _table(self, rows: Columns) -> pa.Table:
        count = len(rows["time_s"])
        actor = pa.array(rows["actor"])
        kinds = pa.array(list(KINDS), pa.string())
        client = np.where(rows["actor"] < self.actors.clients, rows["actor"], -1)
        assert self._names is not None
        columns = {
            "seq": pa.array(np.arange(self.rows_written, self.rows_written + count)),
            "kind": kinds.take(pa.array(rows["kind"])),
            "actor": self._names.take(actor),
            "client": _nullable(client),
            "edge": _nullable(rows["edge"]),
            "version": _nullable(rows["version"]),
            "round": _nullable(rows["round"]),
            "staleness": _nullable(rows["staleness"]),
            "frequency_hz": pa.array(rows["frequency_hz"], from_pandas=True),
            "value": pa.array(rows["value"], from_pandas=True),
            "detail": pa.array(rows["detail"], pa.string()),
        }
        for name in ("time_s", "start_s", "duration_s", "energy_j", "bytes"):
            columns[name] = pa.array(rows[name])
        return pa.table({field.name: columns[field.name] for field in SCHEMA}, schema=SCHEMA)


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table so that the file is either absent or complete."""
    partial = path.with_suffix(".partial")
    pq.write_table(table, partial, compression="zstd", row_group_size=ROW_GROUP_ROWS)
    partial.replace(path)


def segment_paths(folder: Path) -> list[Path]:
    """The complete segments of a run folder, in order."""
    return sorted((folder / "events").glob("part-*.parquet"))


def merge_segments(folder: Path) -> None:
    """Merge `events/part-*.parquet` into `events.parquet`, in row groups of a fixed row count."""
    partial = folder / "events.partial"
    with pq.ParquetWriter(partial, SCHEMA, compression="zstd") as writer:
        waiting: list[pa.Table] = []
        for path in segment_paths(folder):
            waiting.append(pq.read_table(path, schema=SCHEMA))
            while sum(table.num_rows for table in waiting) >= ROW_GROUP_ROWS:
                whole = pa.concat_tables(waiting)
                writer.write_table(whole.slice(0, ROW_GROUP_ROWS).combine_chunks())
                waiting = [whole.slice(ROW_GROUP_ROWS)]
        rest = pa.concat_tables(waiting) if waiting else SCHEMA.empty_table()
        if rest.num_rows:
            writer.write_table(rest.combine_chunks())
    partial.replace(folder / "events.parquet")
    shutil.rmtree(folder / "events")


def _nullable(numbers: NDArray[Any]) -> pa.Array:
    return pa.array(numbers, mask=numbers < 0)


def _trajectory(rows: Mapping[str, NDArray[Any]]) -> bytes:
    record = np.empty(
        len(rows["time_s"]),
        dtype=[("time", "<f8"), ("kind", "<i1"), ("actor", "<i4"), ("bytes", "<i8"), ("v", "<i8")],
    )
    for name, column in zip(record.dtype.names or (), _TRAJECTORY, strict=True):
        record[name] = rows[column]
    return record.tobytes()


_TRAJECTORY = ("time_s", "kind", "actor", "bytes", "version")
