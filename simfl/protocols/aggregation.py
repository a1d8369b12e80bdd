"""Aggregation by servers: fresh or stale updates, from clients or from edge servers.

Every method books the server's work and returns the next state's handle.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np
import simpy

from simfl.common.amounts import one_or_each
from simfl.common.arrays import FloatArray, IntArray
from simfl.common.contract import PartMisbehaves, at_work, named
from simfl.decisions.base import Staleness
from simfl.protocols.deliveries import Delivered
from simfl.protocols.learned_values import LearnedValues
from simfl.protocols.servers import Servers
from simfl.protocols.state_ref import StateRef
from simfl.system.server_id import CLOUD, ServerId


class Aggregation:
    """The aggregating side of a run; `edge_examples` are the training examples per edge server.

    `merged_updates` counts the clients' updates that the cloud has merged, or an edge server that
    has reported since. `in_rounds` counts how often each edge server was in a mean of `merge_all`.
    Without `takes_stale_updates` updates of an earlier version are refused.
    """

    def __init__(
        self,
        values: LearnedValues,
        servers: Servers,
        staleness: Staleness,
        edge_examples: FloatArray,
        takes_stale_updates: bool,
    ) -> None:
        self._values = values
        self._servers = servers
        self._staleness = staleness
        self._edge_examples = edge_examples
        self.merged_updates = 0
        self.in_rounds: IntArray = np.zeros(edge_examples.size, dtype=np.int64)
        self._at_edges: IntArray = np.zeros(edge_examples.size, dtype=np.int64)
        self._takes_stale_updates = takes_stale_updates
        self._of_version: list[IntArray] = []

    def new_staleness(self) -> IntArray:
        """The staleness of all updates that the cloud has merged since the last call."""
        found = np.concatenate([np.zeros(0, dtype=np.int64), *self._of_version])
        self._of_version.clear()
        return found

    def aggregate(
        self, ref: StateRef, delivered: Delivered, round_number: int, server: ServerId
    ) -> Generator[simpy.Event, Any, StateRef]:
        """The server aggregates the delivered updates; returns its next state.

        Updates carried over from earlier rounds count as changes of the current weights, scaled by
        the staleness rule relative to a fresh update.
        """
        work = self._values.server_work(ref, delivered)
        staleness = self._staleness_of(delivered, ref)
        shares: FloatArray | None = None
        about: dict[str, Any] = {
            "detail": _listed(staleness),
            "staleness": float(staleness.mean()) if staleness.size else 0.0,
        }
        if staleness.any():
            given = self._shares(staleness)
            fresh = float(self._shares(np.zeros(1, dtype=np.int64))[0])
            shares = np.minimum(given / fresh, 1.0) if fresh else given
            about["value"] = float(shares.mean())
        yield from self._servers.work(
            server,
            work,
            version=ref.version + 1,
            round=round_number,
            **about,
        )
        self._merged(staleness, server)
        given_shares = None if shares is None else shares.tolist()
        self._note(ref, delivered, round_number, server, given_shares)
        return self._values.aggregate(ref, delivered, given_shares)

    def absorb(
        self,
        ref: StateRef,
        delivered: Delivered,
        round_number: int,
        *,
        rebase: bool,
        server_rate: float = 1.0,
    ) -> Generator[simpy.Event, Any, StateRef]:
        """The cloud takes in updates that may be stale, with smaller shares for staler ones.

        With `rebase` the changes are added to the current weights, each times its share; otherwise
        the clients' models are mixed in, with the mean of their shares.
        """
        staleness = self._staleness_of(delivered, ref)
        shares = self._shares(staleness)
        work = self._values.server_work(ref, delivered)
        yield from self._servers.work(
            CLOUD,
            work,
            version=ref.version + 1,
            round=round_number,
            staleness=float(staleness.mean()),
            value=float(shares.mean()),
            detail=_listed(staleness),
        )
        self._merged(staleness, CLOUD)
        self._note(ref, delivered, round_number, CLOUD, shares.tolist() if rebase else None)
        if not rebase:
            mixed = self._values.aggregate(ref, delivered)
            return self._values.merge(ref, [mixed], [server_rate * float(shares.mean())])
        stepped = self._values.aggregate(ref, delivered, shares.tolist())
        return stepped if server_rate == 1.0 else self._values.merge(ref, [stepped], [server_rate])

    def merge_all(
        self, ref: StateRef, lower: Mapping[int, StateRef], round_number: int
    ) -> Generator[simpy.Event, Any, StateRef]:
        """The cloud's next state: the edge servers' mean, weighted by their clients' data."""
        edges = sorted(lower)
        sizes = np.array([self._edge_examples[edge] for edge in edges])
        up_bytes = np.full(len(edges), self._values.tier_price(ref).up_bytes)
        arrived = Delivered.of_servers(np.array(edges), np.full(len(edges), ref.version), up_bytes)
        work = self._values.server_work(ref, arrived)
        yield from self._servers.work(
            CLOUD,
            work,
            version=ref.version + 1,
            round=round_number,
            staleness=0,
            detail={"updates": len(edges)},
        )
        self.in_rounds[edges] += 1
        self._of_version.append(np.zeros(len(edges), dtype=np.int64))
        shares = (sizes / sizes.sum()).tolist()
        return self._values.merge(ref, [lower[edge] for edge in edges], shares)

    def merge(
        self, ref: StateRef, edge: int, lower: StateRef, staleness: int, round_number: int
    ) -> Generator[simpy.Event, Any, StateRef]:
        """The cloud mixes in an edge server's state, with a share that falls with staleness."""
        share = float(self._shares(np.array([staleness]))[0])
        up_bytes = np.array([self._values.tier_price(ref).up_bytes])
        versions = np.array([ref.version - staleness])
        arrived = Delivered.of_servers(np.array([edge]), versions, up_bytes)
        work = self._values.server_work(ref, arrived)
        yield from self._servers.work(
            CLOUD,
            work,
            version=ref.version + 1,
            round=round_number,
            edge=edge,
            staleness=staleness,
            value=share,
            detail={"updates": 1},
        )
        self._of_version.append(np.array([staleness]))
        return self._values.merge(ref, [lower], [share])

    def _staleness_of(self, delivered: Delivered, ref: StateRef) -> IntArray:
        """How stale clients' updates are; raises ValueError if the protocol promised otherwise."""
        staleness = delivered.staleness(ref.version)
        oldest = int(staleness.max(initial=0))
        if oldest and not self._takes_stale_updates:
            raise ValueError(
                f"aggregate: found an update that is {oldest} versions old, accepted: updates of"
                " the current version, or a protocol with `overlapping` or `takes_stale_updates`,"
                " so that algorithms can refuse them"
            )
        return staleness

    def _merged(self, staleness: IntArray, server: ServerId) -> None:
        if server.is_edge:
            self._at_edges[server.number] += staleness.size
        else:
            self.merged_updates += staleness.size
            self._of_version.append(staleness)

    def reported(self, edge: int, *, lost: bool = False) -> None:
        """What an edge server has merged is at the cloud, or `lost` as it crashed."""
        if not lost:
            self.merged_updates += int(self._at_edges[edge])
        self._at_edges[edge] = 0

    def _note(
        self,
        ref: StateRef,
        delivered: Delivered,
        round_number: int,
        server: ServerId,
        shares: Sequence[float] | None = None,
    ) -> None:
        """Logs the algorithm's report on updates that are about to be aggregated."""
        report = self._values.report(ref, delivered, shares)
        if report:
            value = report.pop("value", np.nan)
            about = {"version": ref.version + 1, "round": round_number, "value": value}
            self._servers.note(server, "report", report, **about)

    def _shares(self, staleness: IntArray) -> FloatArray:
        return shares_of(self._staleness, staleness)


def _listed(staleness: IntArray) -> dict[str, Any]:
    """The log entry for updates of this staleness: one value, or a list if they differ."""
    differ = staleness.size and (staleness != staleness[0]).any()
    return {"updates": staleness.size} | ({"staleness_each": staleness.tolist()} if differ else {})


def shares_of(rule: Staleness, staleness: IntArray) -> FloatArray:
    """The shares of updates of this staleness.

    Raises `PartMisbehaves` unless these are shares in [0, 1], one for each or one for all.
    """
    with at_work(rule, "share"):
        given = rule.share(staleness.copy())
    shares = one_or_each(given, staleness.shape, rule, "share")
    wrong = shares[~(shares <= 1.0)]
    if wrong.size:
        raise PartMisbehaves(f"{named(rule, 'share')} gave {wrong[0]:g}, not in [0, 1]")
    return shares
