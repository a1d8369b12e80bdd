"""What a decider may look at: columnar arrays of what it has observed so far, never the world.

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
    """The clients that a decision is about, as their server knows them.

    Fields: `time_s` now; `round` number of the protocol; `clients` their numbers; `device_class`
    (sbc, phone, ...), `num_examples`, `edge` and `position_m` (clients, 2) as registered;
    `frequency_min_hz`, `frequency_max_hz` of their CPUs as registered; `battery_level` as last
    reported, 0 to 1 (NaN for mains power); `participations` so far; `last_seen_s` when their last
    upload arrived; `last_duration_s` and `last_energy_j` of their last round, `past_seconds` and
    `past_energy_j` summed over their rounds, as reported with the upload; `last_loss`, where the
    selection asks for it, the mean loss on their data of the model that they got for the last round
    or question that they answered in time; `estimated_duration_s` of a round by the run's estimator
    (of a client that was not seen yet: what its hardware promises).

    Of the dispatch that a client would be part of, nominal, without noise: `cycles` of all its
    computation, so that its seconds are cycles / frequency; `transfer_s` of all its messages, and
    its edge server's to and from the cloud; `edge_latency_s` estimated from dispatch to arrival, of
    its edge server (of the server, where there are no edge servers). Of a busy CPU core as
    registered: `kappa` (W/Hz^3) and `power_static_w`, power being static + kappa f^3 (NaN: another
    law).
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
        """A view whose other `columns` are made when they are first read.

        Most rules read a few of them, and there may be a million clients.
        """
        view = object.__new__(cls)
        vars(view).update(time_s=time_s, round=round_number, clients=clients)
        vars(view)["_columns"] = dict(columns)
        return view

    def instead(self, name: str, column: Callable[[], NDArray[Any]]) -> ClientView:
        """This view of a deferred kind with another column `name`."""
        columns = {**vars(self)["_columns"], name: column}
        return ClientView.deferred(self.time_s, self.round, self.clients, columns)

    def has_read(self, name: str) -> bool:
        """Whether a deferred column was read."""
        return name in vars(self)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NDArray[Any]:
            """A deferred column, made and kept."""
            columns = vars(self).get("_columns", {})
            if name not in columns:
                raise AttributeError(f"a client view has no {name}", name=name, obj=self)
            vars(self)[name] = columns[name]()
            return vars(self)[name]


@dataclass(frozen=True)
class AssociationView:
    """What is known before training: `clients` with `label_counts` (clients, labels), data sizes,
    positions in metres, the edge servers' positions, and the `home_edge` that the population or
    the partition gave each client."""

    clients: IntArray
    num_examples: IntArray
    label_counts: IntArray
    position_m: FloatArray
    edge_position_m: FloatArray
    home_edge: IntArray


@dataclass(frozen=True)
class EdgeView:
    """The edge servers, as the cloud knows them when it may dispatch one.

    Fields: `time_s`; `round` number of this dispatch; `idle` (edges,) whether it may be picked;
    `data_share` (edges,) of all training examples; `dispatches` so far; `last_dispatch_round`
    (-1: never); `last_latency_s` dispatch to arrival; `estimated_latency_s` by the estimator, NaN
    for an edge server without clients.
    """

    time_s: float
    round: int
    idle: BoolArray
    data_share: FloatArray
    dispatches: IntArray
    last_dispatch_round: IntArray
    last_latency_s: FloatArray
    estimated_latency_s: FloatArray
