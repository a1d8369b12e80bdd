"""One run: what a protocol can do, and what that costs.

Every method that takes simulated time is a generator to be driven with `yield from`; everything
that happens is booked as rows of the event log, to the device that spends the time and energy.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from simfl.accounts import Accounts
from simfl.decisions.base import Allocation, Scheduling, Selection, Staleness
from simfl.eventlog import Actors, EventLog
from simfl.protocols.clock import Clock
from simfl.protocols.observations import Observations
from simfl.protocols.publication import Publications
from simfl.protocols.timing_only import TimingOnly
from simfl.protocols.turns import Turns
from simfl.protocols.values import Delivered, StateRef, Values
from simfl.streams import Streams
from simfl.system.world import World

IntArray = NDArray[np.int64]
Waiting = Generator[simpy.Event, Any, Any]


@dataclass(frozen=True)
class Deciders:
    """The decision rules of a run; association has been decided when the run begins."""

    selection: Selection
    scheduling: Scheduling
    allocation: Allocation
    staleness: Staleness


class Run:
    """The state of a running simulation, and the verbs of every protocol."""

    def __init__(
        self,
        world: World,
        values: Values | TimingOnly,
        deciders: Deciders,
        num_examples: IntArray,
        edge: IntArray,
        streams: Streams,
        log: EventLog,
        publications: Publications,
        clock: Clock,
    ) -> None:
        self.world = world
        self.values = values
        self.clock = clock
        self.log = log
        self.publications = publications
        self.edge = edge
        self.observations = Observations(world, num_examples, edge)
        self.all_clients: IntArray = np.arange(world.num_clients)
        self.edges: Sequence[int] = [int(index) for index in np.unique(edge)]
        self._members = {index: np.flatnonzero(edge == index) for index in self.edges}
        self._deciders = deciders
        self._streams = streams
        self._selection_memory: dict[int, Any] = {}
        self._scheduling_memory = deciders.scheduling.initial()
        self._selections: dict[int, int] = {}
        self._backhaul_uses = np.zeros(world.num_edges, dtype=np.int64)
        self._server_free_s: dict[int, float] = {}
        self.laws: dict[str, bool] = {}
        self._turns = Turns(
            world, values, deciders.allocation, self.observations, num_examples, streams, log, clock
        )

    @property
    def env(self) -> simpy.Environment:
        """The SimPy environment."""
        return self.clock.env

    @property
    def actors(self) -> Actors:
        """The numbers of the devices in the log."""
        return self.log.actors

    @property
    def accounts(self) -> Accounts:
        """Seconds, joules and bytes so far."""
        return self.log.accounts

    def members(self, edge: int) -> IntArray:
        """The clients of an edge server."""
        return self._members[edge]

    def begin(self, tier: str) -> StateRef:
        """The state of a server over all clients, before training."""
        return self.values.begin(self.all_clients.tolist(), tier)

    def begin_edge(self, edge: int) -> StateRef:
        """The state of an edge server over its members, before training."""
        return self.values.begin(self._members[edge].tolist(), f"edge-{edge}")

    def select(
        self, ref: StateRef, clients: IntArray, round_number: int, edge: int | None = None
    ) -> IntArray:
        """Which of `clients` take part in this round."""
        players = self.values.players(ref, clients)
        tier = -1 if edge is None else edge
        selection = self._deciders.selection
        memory = self._selection_memory.get(tier, None) or selection.initial()
        count = self._selections.get(tier, 0)
        self._selections[tier] = count + 1
        rng = self._streams.generator("selection", tier + 1, count)
        view = self.observations.clients(players, self.clock.now_s, round_number)
        self._selection_memory[tier], chosen = selection.decide(memory, view, rng)
        if not chosen.size or not np.isin(chosen, players).all():
            raise ValueError(f"{type(selection).__name__} must choose among the clients it is given")
        self._note(
            "select",
            tier,
            version=ref.version,
            round=round_number,
            value=float(chosen.size),
            detail={"eligible": int(players.size), "selected": chosen[:50].tolist()},
        )
        return chosen

    def turns(
        self, clients: IntArray, ref: StateRef, round_number: int, edge: int | None = None
    ) -> Generator[simpy.Event, Any, Delivered]:
        """Clients download, train and upload side by side; ends when the last upload arrives."""
        return (yield from self._turns.together(clients, ref, round_number, edge))

    def aggregate(
        self, ref: StateRef, delivered: Delivered, round_number: int, edge: int | None = None
    ) -> Generator[simpy.Event, Any, StateRef]:
        """The server works on what was delivered; its next state."""
        work = self.values.server_work(ref, delivered)
        yield from self._serve(
            edge,
            work.flops,
            work.bytes_moved,
            ref.version + 1,
            round_number,
            detail={"updates": int(delivered.clients.size)},
        )
        return self.values.aggregate(ref, delivered)

    def merge(
        self, ref: StateRef, edge: int, lower: StateRef, staleness: int
    ) -> Generator[simpy.Event, Any, StateRef]:
        """The cloud mixes in an edge server's state, the less the staler it is."""
        share = float(self._deciders.staleness.share(staleness))
        up_bytes = np.array([self.values.tier_price(ref).up_bytes])
        arrived = Delivered(np.array([edge]), np.array([ref.version - staleness]), up_bytes, [])
        work = self.values.server_work(ref, arrived)
        yield from self._serve(
            None,
            work.flops,
            work.bytes_moved,
            ref.version + 1,
            staleness=staleness,
            value=share,
            about_edge=edge,
            detail={"updates": 1},
        )
        return self.values.merge(ref, [lower], [share])

    def backhaul(
        self, edge: int, ref: StateRef, round_number: int, *, uplink: bool
    ) -> Waiting:
        """A model crosses between an edge server and the cloud."""
        price = self.values.tier_price(ref)
        raw_bytes = price.up_bytes if uplink else price.down_bytes
        if raw_bytes == 0:
            return
        use = int(self._backhaul_uses[edge])
        self._backhaul_uses[edge] += 1
        cost = self.world.backhaul_transfer(edge, use, raw_bytes, uplink)
        actor, start_s = self.actors.edge(edge), self.clock.now_s
        end_s = start_s + float(cost.duration_s)
        self._idle_until_now(actor, edge)
        self._server_free_s[actor] = end_s
        active_j = float(cost.active_j)
        columns = {
            "start_s": start_s,
            "edge": edge,
            "version": ref.version,
            "round": round_number,
        }
        self.log.row(
            "upload" if uplink else "download",
            actor,
            end_s,
            **columns,
            energy_j=self.accounts.power_idle_w[actor] * (end_s - start_s) + active_j,
            extra_j=active_j,
            bytes=int(cost.wire_bytes),
            detail=json.dumps({"active_j": active_j}),
        )
        network_j = float(cost.network_j)
        if network_j:
            self.log.row(
                "network", self.actors.network, end_s, **columns, energy_j=network_j,
                extra_j=network_j,
            )
        yield self.clock.until(end_s)

    def schedule(self, idle: NDArray[np.bool_], round_number: int) -> int:
        """Which idle edge server the cloud dispatches now."""
        view = self.observations.edges(self.clock.now_s, round_number, idle)
        rng = self._streams.generator("scheduling", 0, round_number)
        scheduling = self._deciders.scheduling
        self._scheduling_memory, edge, detail = scheduling.decide(
            self._scheduling_memory, view, rng
        )
        if not idle[edge]:
            raise ValueError(f"{type(scheduling).__name__} picked edge server {edge}, not idle")
        self._note(
            "schedule",
            -1,
            round=round_number,
            value=float(edge),
            about_edge=edge,
            detail={"idle": np.flatnonzero(idle).tolist(), **detail},
        )
        return edge

    def publish(
        self,
        ref: StateRef,
        round_number: int,
        participants: int,
        *,
        staleness: int,
        edge: int | None = None,
    ) -> bool:
        """A new global version is out; whether the run ends with it."""
        evaluation = self.publications.due(ref.version) and self.values.evaluate(
            ref, self.clock.now_s
        )
        if evaluation:
            self._note(
                "evaluate",
                -1,
                version=ref.version,
                round=round_number,
                value=evaluation["accuracy"],
                detail={"loss": evaluation["loss"]},
            )
        self.log.advance(self.clock.now_s)
        return self.publications.add(
            ref,
            evaluation or None,
            time_s=self.clock.now_s,
            energy_j=self.accounts.energy_j(self.clock.now_s),
            bytes_moved=self.accounts.bytes_moved(self.clock.now_s),
            round_number=round_number,
            participants=participants,
            staleness=staleness,
            edge=edge,
        )

    def note_start(self, edge: IntArray | None, departure: str | None) -> None:
        """Log the association, and how the run departs from its algorithm's paper."""
        if edge is not None:
            self._note("associate", -1, detail={"edges": edge.tolist()})
        if departure is not None:
            self._note("departure", -1, detail={"reason": departure})

    def close(self) -> None:
        """End the run now: book what every device waited, write the log, check the laws."""
        now_s = self.clock.now_s
        self._turns.close(now_s)
        for index in range(self.world.num_edges):
            self._idle_until_now(self.actors.edge(index), index)
        self._idle_until_now(self.actors.cloud, -1)
        self.log.finish(now_s)
        self.laws = self.accounts.close(now_s)

    def _serve(
        self,
        edge: int | None,
        flops: float,
        bytes_moved: float,
        version: int,
        round_number: int = -1,
        *,
        about_edge: int = -1,
        detail: Mapping[str, Any],
        **columns: Any,
    ) -> Waiting:
        """A server computes; nothing to compute takes no time and leaves no row."""
        if flops == 0.0 and bytes_moved == 0.0:
            return
        if edge is None:
            actor, kind = self.actors.cloud, "cloud_aggregate"
            cost = self.world.aggregate("cloud", flops, bytes_moved)
        else:
            actor, kind, about_edge = self.actors.edge(edge), "edge_aggregate", edge
            cost = self.world.aggregate("edge", flops, bytes_moved)
        self._idle_until_now(actor, about_edge if edge is not None else -1)
        start_s = self.clock.now_s
        end_s = start_s + float(cost.duration_s)
        self._server_free_s[actor] = end_s
        active_j = float(cost.active_j)
        self.log.row(
            kind,
            actor,
            end_s,
            start_s=start_s,
            edge=about_edge,
            version=version,
            round=round_number,
            energy_j=self.accounts.power_idle_w[actor] * (end_s - start_s) + active_j,
            extra_j=active_j,
            detail=json.dumps(detail),
            **columns,
        )
        yield self.clock.until(end_s)

    def _idle_until_now(self, actor: int, edge: int) -> None:
        since_s, now_s = self._server_free_s.get(actor, 0.0), self.clock.now_s
        if now_s > since_s:
            self.log.row(
                "idle",
                actor,
                now_s,
                start_s=since_s,
                edge=edge,
                energy_j=self.accounts.power_idle_w[actor] * (now_s - since_s),
            )
            self._server_free_s[actor] = now_s

    def _note(
        self,
        kind: str,
        edge: int,
        *,
        detail: Mapping[str, Any],
        about_edge: int | None = None,
        **columns: Any,
    ) -> None:
        """A row that takes no time, by an edge server or (edge -1) the cloud."""
        actor = self.actors.cloud if edge < 0 else self.actors.edge(edge)
        columns["edge"] = edge if about_edge is None else about_edge
        self.log.row(kind, actor, self.clock.now_s, detail=json.dumps(detail), **columns)
