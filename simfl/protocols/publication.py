"""The global versions of a run: the rounds table, evaluations, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from simfl.algorithms.base import Standing
from simfl.common.arrays import FloatArray
from simfl.eventlog.accounts import Energy
from simfl.protocols.clock import Stalled
from simfl.protocols.state_ref import StateRef
from simfl.protocols.stopping import StopRule


class Diverged(RuntimeError):
    """The evaluated loss is no longer a finite number."""


MOST_VERSIONS_AT_ONCE = 1000


@dataclass(frozen=True)
class Progress:
    """The progress report at each version; accuracy is the last one evaluated.

    `accuracy_name` is "R^2" for a regression, whose value is NaN if all test targets are equal.
    `jobs` were trained so far; `wall_s` is the wall time by phase (training, evaluation).
    """

    time_s: float
    version: int
    accuracy: float | None
    loss: float | None
    energy_j: float
    bytes: int
    jobs: int
    wall_s: Mapping[str, float]
    accuracy_name: str = "accuracy"


class Publications:
    """Collects the rounds and evaluations tables and applies the stop rule."""

    def __init__(
        self,
        stop: StopRule,
        evaluate_every: int,
        watch: Callable[[Progress], None] | None = None,
        at_clients: bool = False,
        accuracy_name: str = "accuracy",
    ) -> None:
        self.rounds: list[dict[str, Any]] = []
        self.evaluations: list[dict[str, Any]] = []
        self.reason: str | None = None
        self.latest: StateRef | None = None
        self._stop = stop
        self.at_clients = at_clients
        self._every = evaluate_every
        self._watch = watch
        self._accuracy_name = accuracy_name
        self._same_moment = 0
        self._last: tuple[float | None, float | None] = (None, None)

    def due(self, version: int) -> bool:
        """Whether to evaluate this version; always true for the last of a version limit."""
        return version % self._every == 0 or version == self._stop.versions

    def add(
        self,
        ref: StateRef,
        evaluation: Mapping[str, Any] | None,
        *,
        time_s: float,
        energy: Energy,
        bytes_moved: int,
        round_number: int,
        participants: int,
        staleness: FloatArray,
        edge: int | None,
        standing: Standing | None = None,
        jobs: int = 0,
        wall_s: Mapping[str, float] | None = None,
        merged_updates: int = 0,
    ) -> bool:
        """Adds a version; returns whether the run ends with it. Raises `Diverged`.

        `merged_updates` are those of clients since the start, `standing` is that of an algorithm
        that decides itself when training is over; "metrics" of the evaluation become additional
        columns of the table.
        """
        loss = evaluation["loss"] if evaluation else None
        accuracy = evaluation["accuracy"] if evaluation else None
        row = {
            "version": ref.version,
            "time_s": time_s,
            "round": round_number,
            "edge": edge,
            "accuracy": accuracy,
            "loss": loss,
            "latency_s": time_s - (self.rounds[-1]["time_s"] if self.rounds else 0.0),
            **energy.columns(),
            "bytes": bytes_moved,
            "participants": participants,
            "updates": staleness.size,
            "staleness": float(staleness.mean()) if staleness.size else 0.0,
            "staleness_max": int(staleness.max(initial=0)),
            **(evaluation or {}).get("metrics", {}),
        }
        self._same_moment = self._same_moment + 1 if row["latency_s"] == 0.0 else 0
        if self._same_moment >= MOST_VERSIONS_AT_ONCE:
            raise Stalled(
                f"time stands still at {time_s:g} s: {self._same_moment} versions since then; does"
                " the protocol drive the run's methods with `yield from`?"
            )
        self.rounds.append(row)
        self.latest = ref
        if evaluation is not None:
            self._last = (accuracy, loss)
            self._score(ref.version, "test", None, [loss, accuracy])
            for on, scores in evaluation.get("also", {}).items():
                self._score(ref.version, on, None, scores)
            for on in ("served", "own"):
                for client, scores in enumerate(evaluation.get(on, ())):
                    self._score(ref.version, "test" if on == "served" else on, client, scores)
        if standing is not None:
            self._score(ref.version, "train", None, [standing.loss, standing.accuracy])
        if self._watch is not None:
            self._watch(
                Progress(
                    time_s,
                    ref.version,
                    *self._last,
                    energy_j=energy.total_j,
                    bytes=bytes_moved,
                    jobs=jobs,
                    wall_s=wall_s or {},
                    accuracy_name=self._accuracy_name,
                )
            )
        if loss is not None and not math.isfinite(loss):
            raise Diverged(f"the loss is {loss} at version {ref.version}, {time_s:g} s")
        over = standing.over if standing else None
        self.reason = over or self._stop.reason(row, merged_updates)
        return self.reason is not None

    def _score(self, version: int, on: str, client: int | None, scores: list[Any]) -> None:
        loss, accuracy = scores
        self.evaluations.append(
            {"version": version, "client": client, "on": on, "loss": loss, "accuracy": accuracy}
        )
