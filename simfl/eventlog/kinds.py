"""The schema of the event log: kinds of events, columns with units, and actors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

# kind -> (description, what `value` holds, the keys of `detail`). The order is the canonical order
# of simultaneous rows: what ends a round comes before what follows from it.
KINDS: dict[str, tuple[str, str, str]] = {
    "download": ("a message reaches a client or edge server", "", "query"),
    "compute": ("a client trains, or answers a query", "", "query"),
    "upload": ("a client's or edge server's message reaches its server", "", "query"),
    "network": ("energy spent inside the network between edge and cloud", "", ""),
    "edge_aggregate": (
        "an edge server aggregates its clients' updates",
        "mean share of the updates, if some are stale",
        "updates, staleness_each (of each update, where they differ)",
    ),
    "cloud_aggregate": (
        "the cloud aggregates, or merges an edge's model",
        "mean share of the updates",
        "updates, staleness_each (of each update, where they differ)",
    ),
    "evaluate": ("a global version is evaluated; takes no simulated time", "accuracy", "loss"),
    "associate": (
        "clients are associated with edge servers",
        "",
        "edges, home_edges, js_home, js, switches, proposals, stable",
    ),
    "select": (
        "clients are selected for a round",
        "number selected",
        "selected, left_out (further selected clients, not listed, if only one is dispatched),"
        " eligible (available and free), asked, waited_s (with wait_for)",
    ),
    "schedule": (
        "the cloud picks an edge server to dispatch",
        "edge picked",
        "idle, estimated_latency_s, kn, an, bn (posterior), scores, queues, normaliser_s",
    ),
    "departure": ("the run departs from the algorithm's paper", "", "reason"),
    "idle": ("a device waits", "", ""),
    "feasibility": (
        "whether the scheduling rule can give every edge server its owed share",
        "number of edge servers for which it cannot",
        "unattainable, owed_share, attainable_share, latency_s (nominal)",
    ),
    "late": (
        "a client's upload arrives after its round has closed",
        "seconds since the close",
        "then (drop or carry_over)",
    ),
    "report": (
        "an algorithm's report on the updates that a server aggregates",
        "the algorithm's figure; corefed: the smallest utility",
        "the algorithm's own; corefed: rule, clients, losses, offsets, utilities, coefficients",
    ),
    "unavailable": (
        "a client leaves during a round",
        "seconds until it returns",
        "stage, then (goes_on or ends)",
    ),
    "crash": (
        "a client during a round, an edge server at work, or its link to the cloud fails; or an"
        " edge server that is to be dispatched is broken",
        "seconds until it is repaired",
        "stage, then; what (edge_server or cloud_link)",
    ),
    "battery_empty": ("a client's battery runs empty during a round", "", "stage, then"),
    "tail": ("a device's radio is awake after its last message", "", ""),
    "expectation": (
        "servers' expectations if clients share channels, or radios sleep",
        "",
        "servers, together (clients of each), latency_s (of a dispatch), awake_s (radios awake),"
        " alone_s (without contention), round_s and round_alone_s (the clients' mean), backhaul_s"
        " and backhaul_alone_s (of the models to all edge servers)",
    ),
    "out_of_memory": (
        "a client has received the model, but lacks the memory to train it",
        "missing bytes",
        "stage, then (ends)",
    ),
    "given_up": (
        "a server gives a round up, because too few updates arrived",
        "updates that are dropped",
        "needed (updates)",
    ),
}
KIND_INDEX = {kind: index for index, kind in enumerate(KINDS)}

STATES = ("download", "compute", "upload", "tail", "idle", "edge_aggregate", "cloud_aggregate")
"""States of a device, one at a time; together they fill its time."""

CLIENT_STATES = ("download", "compute", "upload", "tail", "idle")
"""The states of clients."""

FORMAT_VERSION = 3
"""The version of the run folder's layout. 1 had no such number, and costs as text in `detail`.

2 did not distinguish clients' joules from servers'.
"""

CUTS = ("unavailable", "crash", "battery_empty", "edge_server", "cloud_link", "end")
"""What can interrupt a row; "end" is the end of the run."""

_MESSAGES = ("download", "upload")
_ACTIVE = (*_MESSAGES, "compute", "edge_aggregate", "cloud_aggregate")
_COMPUTATIONS = ("compute",)


@dataclass(frozen=True)
class Column:
    """A column of the log.

    `unit` is its unit or meaning. `arrow` is its type in the files; None: it is kept for the
    accounts and not written. `dtype` is its type in a block of rows (`eventlog.rows`); None: it is
    created when rows are written. A row without a value has `default`; None: a value is required.
    `kinds` are the kinds of events that have it (None: all); for other kinds it is empty (null).
    NaN is null as well, and so is -1 if it is the default.
    """

    unit: str
    arrow: pa.DataType | None
    dtype: type | None = None
    default: float | None = None
    kinds: tuple[str, ...] | None = None

    @property
    def required(self) -> bool:
        """Whether every row needs a value here; text may be left out."""
        return self.dtype not in (None, object) and self.default is None


_REAL, _WHOLE, _TEXT = pa.float64(), pa.int64(), pa.string()
_F, _I, _NAN = np.float64, np.int64, float("nan")

COLUMNS: dict[str, Column] = {
    "seq": Column("position in the log", _WHOLE),
    "time_s": Column("s, end of the event", _REAL, _F),
    "start_s": Column("s", _REAL, _F),
    "kind": Column("one of the event kinds", _TEXT, np.int8),
    "actor": Column(
        "client-N, edge-N, cloud or network, which spends the time and energy", _TEXT, np.int32
    ),
    "client": Column("client number, empty for servers", pa.int32()),
    "edge": Column("edge server involved, empty for a flat server", pa.int32(), np.int32, -1),
    "version": Column("server version that the row belongs to", _WHOLE, _I, -1),
    "round": Column("round or dispatch number of the protocol", _WHOLE, _I, -1),
    "duration_s": Column("s", _REAL, _F, 0.0),
    "energy_j": Column("J, of the actor, including its idle power", _REAL, _F, 0.0),
    "extra_j": Column("J, of the actor, above its idle power", None, _F, 0.0),
    "bytes": Column("bytes that arrived, after the codec", _WHOLE, _I, 0),
    "frequency_hz": Column(
        "Hz, CPU frequency while computing", _REAL, _F, _NAN, kinds=_COMPUTATIONS
    ),
    "staleness": Column(
        "new versions since the download: mean over merged updates",
        _REAL,
        _F,
        -1,
    ),
    "value": Column("the value of this kind", _REAL, _F, _NAN),
    "active_j": Column(
        "J above idle power of the activity, including those missing in an empty battery; those of"
        " a tail are energy_j + unmet_j - power_idle_w duration_s",
        _REAL,
        _F,
        _NAN,
        _ACTIVE,
    ),
    "tail_j": Column("J of active_j in the radio's tail", _REAL, _F, 0.0, _ACTIVE),
    "tail_ends_s": Column("s, end of that tail, which begins with the row", None, _F, _NAN),
    "attempts": Column("attempts to send the message", _WHOLE, np.int32, -1, _MESSAGES),
    "lost_bytes": Column("bytes sent but not delivered", _WHOLE, _I, 0, _MESSAGES),
    "unmet_j": Column("J that an empty battery did not give", _REAL, _F, 0.0, CLIENT_STATES),
    "cut_by": Column(
        f"what interrupted it: {', '.join(CUTS)} (of the run)",
        _TEXT,
        np.int8,
        -1,
        (*STATES, "network"),
    ),
    "dynamic_j": Column(
        "J of active_j that depend on the frequency", _REAL, _F, _NAN, _COMPUTATIONS
    ),
    "static_j": Column(
        "J of active_j of a busy core at any frequency", _REAL, _F, _NAN, _COMPUTATIONS
    ),
    "cycles": Column("cycles executed, over all cores", _REAL, _F, _NAN, _COMPUTATIONS),
    "detail": Column("JSON, keys by kind", _TEXT, object),
}
"""The only list of columns: others can be neither entered nor written."""

UNITS = {name: column.unit for name, column in COLUMNS.items() if column.arrow is not None}

SCHEMA = pa.schema(
    [(name, column.arrow) for name, column in COLUMNS.items() if column.arrow is not None],
    metadata={"format_version": str(FORMAT_VERSION)},
)

CANONICAL_ORDER = ("time_s", "kind", "actor", "start_s", "edge", "round", "version")


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
