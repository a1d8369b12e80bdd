"""Views for decision rules: columnar arrays of what the decider has observed, never the world.

Every array has one entry per client (or per edge server) in the order of `clients` (`edges`). A
figure that has not been observed yet is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simfl.common.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class ClientView:
    """The clients of a decision, as their server knows them.

    Fields: `time_s`, the current time; `round`, the protocol's round number; `clients`, their
    numbers; `device_class` (sbc, phone, ...), `num_examples`, `edge` and `position_m` (clients, 2)
    as registered; `frequency_min_hz`, `frequency_max_hz` of their CPUs as registered;
    `battery_level` as last reported, 0 to 1 (NaN for mains power); `participations` so far;
    `last_seen_s`, the arrival of their last upload; `last_duration_s` and `last_energy_j` of their
    last round, `past_seconds` and `past_energy_j` summed over their rounds, as reported with the
    upload; `last_loss`, if the selection asks for it, the mean loss on their data of the model that
    they got for the last round or query that they answered in time; `estimated_duration_s` of a
    round by the run's estimator (for an unseen client: from its registered hardware).

    Nominal figures, without noise, of the dispatch that a client would be part of: `cycles` of all
    its computation, which takes cycles / frequency seconds at the highest frequency (and less than
    that below it, if a device is `memory_bound`); `transfer_s` of all its messages, and of its edge
    server's to and from the cloud; `edge_latency_s`, the estimate from dispatch to arrival for its
    edge server (or for the server, without edge servers). Registered figures of a busy CPU core:
    `kappa` (W/Hz^3) and `power_static_w`, with power = static + kappa f^3 (NaN: another law).
    """

    time_s: float
    round: int
    clients: IntArray
    device_class: NDArray[np.str_]
    num_examples: IntArray
    edge: IntArray
    position_m: FloatArray
    frequency_min_hz: FloatArray
    frequency_max_hz: FloatArray
    battery_level: FloatArray
    participations: IntArray
    last_seen_s: FloatArray
    last_duration_s: FloatArray
    last_energy_j: FloatArray
    past_seconds: FloatArray
    past_energy_j: FloatArray
    last_loss: FloatArray
    estimated_duration_s: FloatArray
    cycles: FloatArray
    transfer_s: FloatArray
    edge_latency_s: FloatArray
    kappa: FloatArray
    power_static_w: FloatArray

    @classmethod
    def deferred(
        cls,
        time_s: float,
        round_number: int,
        clients: IntArray,
        columns: Mapping[str, Callable[[], NDArray[Any]]],
    ) -> ClientView:
        """A view whose other `columns` are computed when first read.

        Most rules read only a few columns, and there may be a million clients.
        """
        view = object.__new__(cls)
        vars(view).update(time_s=time_s, round=round_number, clients=clients)
        vars(view)["_columns"] = dict(columns)
        return view

    def instead(self, name: str, column: Callable[[], NDArray[Any]]) -> ClientView:
        """This (deferred) view with column `name` replaced."""
        columns = {**vars(self)["_columns"], name: column}
        return ClientView.deferred(self.time_s, self.round, self.clients, columns)

    def has_read(self, name: str) -> bool:
        """Whether a deferred column was read."""
        return name in vars(self)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NDArray[Any]:
            """A deferred column, computed and kept."""
            columns = vars(self).get("_columns", {})
            if name not in columns:
                raise AttributeError(f"a client view has no {name}", name=name, obj=self)
            vars(self)[name] = columns[name]()
            return vars(self)[name]


@dataclass(frozen=True)
class AssociationView:
    """What is known before training, for association rules.

    `clients` with `label_counts` (clients, labels), data sizes, positions in metres, the edge
    servers' positions, and the `home_edge` that the population or the partition assigned to each
    client.
    """

    clients: IntArray
    num_examples: IntArray
    label_counts: IntArray
    position_m: FloatArray
    edge_position_m: FloatArray
    home_edge: IntArray


@dataclass(frozen=True)
class EdgeView:
    """The edge servers, as the cloud knows them when it dispatches one.

    Fields: `time_s`; `round`, the number of this dispatch; `idle` (edges,), whether each may be
    picked; `data_share` (edges,) of all training examples; `dispatches` so far;
    `last_dispatch_round` (-1: never); `last_latency_s` dispatch to arrival; `estimated_latency_s`
    by the estimator, NaN for an edge server without clients.
    """

    time_s: float
    round: int
    idle: BoolArray
    data_share: FloatArray
    dispatches: IntArray
    last_dispatch_round: IntArray
    last_latency_s: FloatArray
    estimated_latency_s: FloatArray
