"""Queries to clients before selection, for their loss of the current model.

A query is booked like a client round: the client downloads the model, passes over its data once,
forward only, at its highest frequency, and sends one number back. The answers are learned values
that influence decisions, so they are journalled facts.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np
import simpy

from simfl.common.arrays import FloatArray, IntArray
from simfl.common.contract import at_work
from simfl.decisions.base import QueryingSelection
from simfl.learning.parameters import BYTES_PER_VALUE
from simfl.protocols.choice import numbers_among
from simfl.protocols.clock import Clock
from simfl.protocols.dispatcher import Dispatcher, Orders, Workload
from simfl.protocols.learned_values import LearnedValues
from simfl.protocols.observations import Observations
from simfl.protocols.state_ref import StateRef
from simfl.streams import Streams
from simfl.system.processor import TRAINING_FLOPS_PER_FORWARD
from simfl.system.server_id import ServerId
from simfl.system.world import World


class Queries:
    """Asks clients for their losses, and remembers which clients have the current model from it."""

    def __init__(
        self,
        world: World,
        values: LearnedValues,
        dispatcher: Dispatcher,
        observations: Observations,
        num_examples: IntArray,
        streams: Streams,
        clock: Clock,
    ) -> None:
        # Queries have their own draws, so that they do not shift any round's noise.
        self._world = replace(world, streams=Streams(streams.seed("queries")))
        self._values = values
        self._dispatcher = dispatcher
        self._observations = observations
        self._num_examples = num_examples
        self._streams = streams
        self._clock = clock
        self._count: IntArray = np.zeros(world.num_clients, dtype=np.int64)
        self._reached: dict[ServerId, tuple[tuple[str, int], IntArray]] = {}

    def ask(
        self,
        selection: QueryingSelection,
        memory: Any,
        players: IntArray,
        ref: StateRef,
        round_number: int,
        server: ServerId,
        count: int,
    ) -> Generator[simpy.Event, Any, tuple[Any, IntArray, IntArray]]:
        """Queries the selection's candidates among `players`; ends with the last answer.

        `count` is the number of this server's query. Returns the selection's new memory, the
        clients queried, and those of them that answered.
        """
        view = self._observations.clients(players, self._clock.now_s, round_number, server)
        rng = self._streams.generator("selection.candidates", server.stream, count)
        with at_work(selection, "candidates"):
            memory, wanted = selection.candidates(memory, view, rng)
        clients = numbers_among(players, view.clients, wanted, selection)
        orders = self._orders(clients, ref, round_number, server)
        reached: list[IntArray] = []
        asked = self._dispatcher.dispatch(orders, reached.append, computed=_no_job)
        with self._clock.waiting(str(server), f"{clients.size} clients' losses"):
            yield from asked.finished()
        places = np.concatenate([clients[:0], *reached])
        self._reached[server] = ((ref.key, ref.version), clients[places])
        answered = clients[np.isfinite(asked.arrives_s)]
        loss = self._values.losses(ref, answered, self._clock.now_s)
        self._observations.losses(answered, loss)
        return memory, clients, answered

    def brought(self, clients: IntArray, ref: StateRef, server: ServerId) -> IntArray:
        """Bytes of the model of `ref` that a query has already brought to each of `clients`.

        0 if clients get their own models, which differ from the queried one.
        """
        state, reached = self._reached.get(server, (None, clients[:0]))
        if state != (ref.key, ref.version) or not self._values.one_model_for_all:
            return np.zeros(clients.size, dtype=np.int64)
        return np.where(np.isin(clients, reached), self._values.tier_price(ref).down_bytes, 0)

    def _orders(
        self, clients: IntArray, ref: StateRef, round_number: int, server: ServerId
    ) -> Orders:
        numbers = self._count[clients]
        self._count[clients] += 1
        return Orders(
            self._world,
            clients,
            numbers,
            Workload(
                self._num_examples[clients] / TRAINING_FLOPS_PER_FORWARD,
                self._values.batches(self._num_examples[clients]) / TRAINING_FLOPS_PER_FORWARD,
                self._values.work,
                self._values.tier_price(ref).down_bytes,
                BYTES_PER_VALUE,
                self._world.frequency_max_hz[clients],
            ),
            ref.version,
            round_number,
            server,
            query=True,
        )


def _no_job(places: IntArray, times_s: FloatArray) -> None:
    """A query is not a job: no client's memory changes."""
