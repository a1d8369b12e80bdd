"""Publishes new global versions: evaluates, logs, counts, and keeps them for a resume."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray
from simfl.common.contract import short
from simfl.eventlog.log import EventLog
from simfl.protocols.aggregation import Aggregation
from simfl.protocols.clock import Clock
from simfl.protocols.dispatcher import Dispatcher
from simfl.protocols.given import versions_late, whole
from simfl.protocols.learned_values import LearnedValues
from simfl.protocols.publication import Publications
from simfl.protocols.servers import Servers
from simfl.protocols.setting import Declared
from simfl.protocols.state_ref import StateRef
from simfl.system.server_id import CLOUD


class Publisher:
    """Publishes versions; `checkpoint` is called with the values of each."""

    def __init__(
        self,
        declared: Declared,
        values: LearnedValues,
        publications: Publications,
        aggregation: Aggregation,
        dispatcher: Dispatcher,
        servers: Servers,
        log: EventLog,
        clock: Clock,
        checkpoint: Callable[[LearnedValues], None] | None,
    ) -> None:
        self._declared = declared
        self._values = values
        self.publications = publications
        self._aggregation = aggregation
        self._dispatcher = dispatcher
        self._servers = servers
        self._log = log
        self._clock = clock
        self._checkpoint = checkpoint

    def publish(
        self,
        ref: StateRef,
        round_number: int,
        participants: int,
        *,
        staleness: ArrayLike,
        edge: int | None = None,
    ) -> bool:
        """Publishes a new global version; returns whether the run ends with it.

        `participants` are the clients behind it, each once; `staleness` is that of each merged
        update (of a client or an edge server), or one number for all. Raises ValueError after the
        version with which the run ended, and for what an own protocol may not publish.
        """
        if self.publications.reason is not None:
            raise ValueError(
                f"publish: found version {ref.version}, accepted: none after the run's end"
                f" ({self.publications.reason}); a protocol returns when publish returns True"
            )
        round_number = whole("round_number", round_number)
        participants = whole("participants", participants)
        late = self._checked(ref, participants, versions_late(staleness))
        now_s, evaluation = self._clock.now_s, None
        standing = self._values.standing(ref)
        if self.publications.due(ref.version) or (standing and standing.over):
            evaluation = self._evaluation(ref, round_number)
        self._dispatcher.settle()
        self._log.advance(now_s)
        if self._checkpoint is not None:
            self._checkpoint(self._values)
        accounts = self._log.accounts
        return self.publications.add(
            ref,
            evaluation,
            time_s=now_s,
            energy=accounts.energy(now_s),
            bytes_moved=accounts.bytes_moved(now_s),
            round_number=round_number,
            participants=participants,
            staleness=late,
            edge=edge,
            standing=standing,
            jobs=self._values.effort.jobs_trained,
            wall_s=self._values.wall_s(),
            merged_updates=self._aggregation.merged_updates,
        )

    def _checked(self, ref: StateRef, participants: int, staleness: FloatArray) -> FloatArray:
        """The staleness of the merged updates, of which an own protocol may give one for all.

        Raises ValueError for a version that is not new, or an own protocol's false figures.
        """
        latest = self.publications.latest
        if latest is not None and ref.version <= latest.version:
            raise ValueError(
                f"publish: found version {ref.version}, accepted: above {latest.version}, the last"
                " published one"
            )
        merged = self._aggregation.new_staleness()
        if not self._declared.is_own or not merged.size:
            return staleness
        clients = self._log.actors.clients
        if participants > clients:
            raise ValueError(
                f"participants: found {participants}, accepted: at most {clients}, the number of"
                " clients"
            )
        told = np.full(merged.size, staleness[0]) if staleness.size == 1 else staleness
        if not np.array_equal(np.sort(merged), np.sort(told)):
            raise ValueError(
                f"staleness: found {short(staleness.tolist())}, accepted:"
                f" {short(merged.tolist())}, of the updates merged since the last version"
                " (delivered.staleness(version) before they are aggregated)"
            )
        return told

    def _evaluation(self, ref: StateRef, round_number: int) -> dict[str, Any] | None:
        """Evaluates a version and logs the result; None if there is nothing to measure."""
        now_s = self._clock.now_s
        evaluation = self._values.evaluation(ref, now_s)
        if evaluation is None:
            return None
        if self.publications.at_clients:
            evaluation["own"] = self._values.served_at_clients(ref, now_s)
        about = {"version": ref.version, "round": round_number, "value": evaluation["accuracy"]}
        if about["value"] is None:  # a protocol with its own values may know only the loss
            del about["value"]
        self._servers.note(CLOUD, "evaluate", {"loss": evaluation["loss"]}, **about)
        return evaluation
