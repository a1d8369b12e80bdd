"""Learned facts: numbers computed from learned values, and the only way to get them.

A state or an update is a handle until a number of it is needed: a client's price or loss, a
standing that ends the run, an evaluation, a report, a reward. Such a number is a *fact*. Its key
covers everything that it is computed from; it is computed when first needed (`know`) and written to
the journal, so that a replay, or another run with the same key, reads it instead of training. No
other learned value reaches the clock, a decision, the log or a table.

The models that serve a client may depend on its training so far: `jobs` are the clients' last
finished jobs, and are part of the key in that case. Measurements are the researcher's and take no
simulated time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from simfl.algorithms.asked import Asked
from simfl.algorithms.base import Algorithm, ClientFacts, Standing
from simfl.common.arrays import FloatArray
from simfl.learning.codecs.messages import Coding
from simfl.learning.evaluate import Evaluator, client_set, mean_scores, scores_at_clients
from simfl.learning.job import Brief, Memory, Price, Recipe, Update
from simfl.learning.parameters import Parameters
from simfl.learning.trainer import Future, LocalJob, Trainer
from simfl.protocols.arrivals import Arrived, lineage
from simfl.protocols.crossing import Crossing
from simfl.protocols.state_ref import StateRef
from simfl.provenance.journal import Journal, make_key
from simfl.streams import Streams

Jobs = Mapping[int, Future | None]
"""The last finished job of each client by its number; None: it has finished none."""

NO_PRICE = Price(down_bytes=0, up_bytes=0)


class Contributions:
    """Each client's contribution: the test accuracy of the model that it trains alone.

    Computed by a separate run when first needed. `make` gives the fact: `accuracy` per client, and
    the cost of computing it. `key` identifies its inputs, so that runs that share results share it.
    """

    def __init__(self, journal: Journal, key: str, make: Callable[[], Mapping[str, Any]]) -> None:
        self._journal = journal
        self._key = key
        self._make = make

    @property
    def fact(self) -> dict[str, Any]:
        """`accuracy` per client and, if computed here, time_s, energy_j and bytes."""
        return dict(self._journal.know(self._key, lambda: dict(self._make())))

    @property
    def known(self) -> dict[str, Any] | None:
        """The fact, if it is already known."""
        return self._journal.facts.get(self._key)

    @property
    def accuracy(self) -> list[float]:
        """The contribution of each client, a share of correct answers."""
        return [float(one) for one in self.fact["accuracy"]]

    def added_to(self, clients: Mapping[int, ClientFacts]) -> dict[int, ClientFacts]:
        """The client facts, with each client's contribution."""
        found = self.accuracy
        return {i: replace(facts, contribution=found[i]) for i, facts in clients.items()}


class LearnedFacts:
    """The facts of one run; `contributions` are those of its clients, if needed.

    Served models are scored on the test set, and on the evaluator's sets named in `also_on`.
    """

    def __init__(
        self,
        journal: Journal,
        asked: Asked,
        evaluator: Evaluator,
        trainer: Trainer,
        streams: Streams,
        contributions: Contributions | None = None,
        coding: Coding | None = None,
        also_on: Sequence[str] = (),
    ) -> None:
        self.journal = journal
        self.evaluator = evaluator
        self.contributions = contributions
        self._also_on = tuple(also_on)
        self._asked = asked
        self._trainer = trainer
        self._streams = streams
        self.crossing = Crossing(asked, coding or Coding(), streams)

    def know(self, what: tuple[object, ...], make: Callable[[], Any]) -> Any:
        """The fact named by `what`; computed by `make` if not known yet."""
        return self.journal.know(make_key(*what), make)

    # Facts for time and decisions.

    def price(self, job: Future, ref: StateRef, client: int, held: int) -> Price:
        """The cost of a job's client round, if it depends on the state."""

        def make() -> tuple[float, ...]:
            price = self._asked.learned_price(ref.value(), client, held)
            known = int(price.down_bytes), int(price.up_bytes), float(price.work)
            return (*known, float(price.operations)) if price.operations else known

        return Price(*self.know(("price", job.key), make))

    def losses(self, ref: StateRef, jobs: Jobs) -> FloatArray:
        """Mean loss on each client's own data of the model of `ref` that serves it."""
        return np.array([self._loss(ref, client, job) for client, job in jobs.items()])

    def _loss(self, ref: StateRef, client: int, job: Future | None) -> float:
        def make() -> float:
            downloaded = self.crossing.downwards(ref)
            models = self._asked.served(downloaded, client, _memory(job))
            return self.evaluator.loss(models, on=client_set(client))

        key = ("reported loss", ref.key, client, job.key if job else None)
        return float(self.know(key, make))

    def standing(self, ref: StateRef) -> Standing | None:
        """The progress of training, for an algorithm that decides itself when it is over."""
        if not self._asked.algorithm.stands:
            return None

        def make() -> dict[str, Any]:
            return asdict(self._asked.standing(ref.value(), self.evaluator))

        return Standing(**self.know(("standing", ref.key), make))

    # Measurements.

    def report(
        self,
        ref: StateRef,
        arrived: Sequence[Arrived],
        updates: Callable[[], list[Update]],
    ) -> dict[str, Any]:
        """The algorithm's log entry for updates that `ref` is about to aggregate.

        `updates` computes them as the algorithm may see them; {} without an entry.
        """
        if type(self._asked.algorithm).report is Algorithm.report:
            return {}

        def make() -> dict[str, Any]:
            state, seen = ref.value(), updates()
            return self._asked.report(state, seen) if seen else {}

        return dict(self.know(("report", ref.key, lineage(arrived)), make))

    def evaluation(self, ref: StateRef, jobs: Jobs) -> dict[str, Any]:
        """Loss and accuracy on the test set of the models that serve clients after these jobs.

        Keys: loss, accuracy (means over clients if the algorithm serves each its own model) and, in
        that case, `served`: [loss, accuracy] per client. `also`: [loss, accuracy] on each further
        set by its name, if there are any.
        """
        personal = self._asked.algorithm.personal

        def make() -> dict[str, Any]:
            models = list(self._served(ref, jobs).values())
            return mean_scores(
                self.evaluator, models, self._also_on, "served" if personal else None
            )

        chain = [_chain(jobs)] if personal else []
        return dict(self.know(("evaluate", ref.key, *chain, *self._also_on), make))

    def served_at_clients(self, ref: StateRef, jobs: Jobs) -> list[list[float]]:
        """[loss, accuracy] of each client's served model after these jobs, on its own data."""
        chain = _chain(jobs) if self._asked.algorithm.personal else ()
        key = ("at clients", ref.key, chain)
        return self._at_clients(key, partial(self._served, ref, jobs))

    def global_at_clients(self, ref: StateRef, clients: Sequence[int]) -> list[list[float]]:
        """[loss, accuracy] of the server's model on each client's own data."""
        if not self._asked.algorithm.personal:  # this model serves all clients, at any time
            return self.served_at_clients(ref, dict.fromkeys(clients))
        key = ("global at clients", ref.key)
        return self._at_clients(key, lambda: {n: [ref.value().weights] for n in clients})

    def _at_clients(
        self, key: tuple[object, ...], models: Callable[[], Mapping[int, list[Parameters]]]
    ) -> list[list[float]]:
        scores: list[list[float]] = self.know(
            key, lambda: scores_at_clients(self.evaluator, models())
        )
        return scores

    def rewards(self, ref: StateRef, jobs: Jobs) -> list[list[float]]:
        """[loss, accuracy] on the test set of each client's final reward.

        An algorithm that defines what it serves (each client its own model, or all an ensemble) is
        scored on that. If all are served the server's model, each client first trains it for one
        more local epoch on its own data, as CFFL, CGSV and FedSAC do to compare such algorithms.
        """
        if type(self._asked.algorithm).served is Algorithm.served:
            key: tuple[object, ...] = ("one more epoch", ref.key)
            return list(self.know(key, partial(self._after_one_more_epoch, ref, list(jobs))))
        key = ("rewards", ref.key, _chain(jobs))
        return list(self.know(key, partial(self._rewards, ref, jobs)))

    def _rewards(self, ref: StateRef, jobs: Jobs) -> list[list[float]]:
        state = self._asked.concluded(ref.value(), self.evaluator)
        return self._test_scores(
            self._asked.served(state, client, _memory(job)) for client, job in jobs.items()
        )

    def _after_one_more_epoch(self, ref: StateRef, clients: Sequence[int]) -> list[list[float]]:
        local = self._asked.algorithm.local.at(ref.version)
        recipe = Recipe(replace(local, epochs=1, steps=None, share=None, partial=None))
        state = ref.value()
        # Including the client's own tensors: an algorithm's loss may read them.
        briefs = {
            client: Brief(
                state.weights, recipe, NO_PRICE, own=self._asked.brief(state, client, -1).own
            )
            for client in clients
        }
        seeds = self._streams.seeds("reward", np.array(clients), np.full(len(clients), ref.version))
        futures = [
            self._trainer.submit(
                LocalJob(
                    key=make_key("one more epoch", ref.key, client),
                    client=client,
                    seed=seed,
                    version=ref.version,
                    make_brief=partial(briefs.__getitem__, client),
                )
            )
            for client, seed in zip(clients, seeds, strict=True)
        ]
        return self._test_scores([{**state.weights, **job.result().payload}] for job in futures)

    def _test_scores(self, models: Iterable[Sequence[Parameters]]) -> list[list[float]]:
        found = self.evaluator.metrics_of_each(models)
        return [[metrics.loss, metrics.accuracy] for metrics in found]

    def loss_at_start(self, ref: StateRef, client: int) -> float:
        """Loss on the test set of the model that serves `client` before any training.

        Read after the end of the run, so that the journal need not keep it.
        """
        (models,) = self._served(ref, {client: None}).values()
        return self.evaluator.loss(models, "test")

    def _served(self, ref: StateRef, jobs: Jobs) -> dict[int, list[Parameters]]:
        """The models that serve clients after these jobs."""
        return {
            client: self._asked.served(ref.value(), client, _memory(job))
            for client, job in jobs.items()
        }


def _memory(job: Future | None) -> Memory:
    return job.memory() if job else Memory()


def _chain(jobs: Jobs) -> tuple[tuple[int, str | None], ...]:
    """The part of a key that identifies all these jobs."""
    return tuple((client, job.key if job else None) for client, job in jobs.items())
