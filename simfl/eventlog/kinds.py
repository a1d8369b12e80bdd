"""What the event log holds: kinds of events, columns and their units, and who acts."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

# kind -> (what it is, what `value` holds, the keys of `detail`). The order is the canonical one
# of simultaneous rows: what ends a turn comes before what follows from it.
KINDS: dict[str, tuple[str, str, str]] = {
    "download": ("a message reaches a client or edge server", "", "active_j, query, unmet_j"),
    "compute": ("a client trains, or answers a query", "", "cycles, dynamic_j, static_j, query"),
    "upload": ("a client's or edge server's message reaches its server", "", "active_j, query"),
    "network": ("energy spent inside the network between edge and cloud", "", ""),
    "edge_aggregate": (
        "an edge server aggregates its clients' updates",
        "mean share of the updates, where some are stale",
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
        "selected, left_out (more, not listed, of which one is dispatched), eligible, asked",
    ),
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
    "tail": (
        "a device's radio is awake after its last message",
        "",
        "unmet_j (of its power, by an empty battery)",
    ),
}
KIND_INDEX = {kind: index for index, kind in enumerate(KINDS)}

STATES = ("download", "compute", "upload", "tail", "idle", "edge_aggregate", "cloud_aggregate")
"""Kinds that a device is in, one at a time; together they fill its time."""

CLIENT_STATES = ("download", "compute", "upload", "tail", "idle")
"""Those of clients."""

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
    "staleness": "versions that the server moved on since the download: mean over merged updates",
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
        ("staleness", pa.float64()),
        ("value", pa.float64()),
        ("detail", pa.string()),
    ]
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
