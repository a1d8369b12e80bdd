"""Learned facts: the numbers that are read off learned values, and the one door they come out by.

A state or an update is a handle until somebody needs a number of it: a client's price or loss, a
standing that ends the run, an evaluation, a report, a reward. Such a number is a *fact*. Its key is
made of everything that it is computed from; it is found out when first asked for (`know`) and
written to the journal, so that a replay, or another run that comes to the same key, reads it
instead of training. Nothing else that is learned reaches the clock, a decision, the log or a table.

What a client is served may depend on what it has trained so far: `jobs` are clients' last finished
jobs, and are in the key where it does. Measurements are the researcher's and take no simulated
time.
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
    """What each client contributes: the test accuracy of the model that it trains alone.

    Found out by a run of its own when first asked for. `make` gives the fact: `accuracy` per
    client, and what finding it out took. `key` names what it was computed from, so that runs that
    share results share it.
    """

    def __init__(self, journal: Journal, key: str, make: Callable[[], Mapping[str, Any]]) -> None:
        self._journal = journal
        self._key = key
        self._make = make

    @property
    def fact(self) -> dict[str, Any]:
        """`accuracy` per client and, if they were found out here, time_s, energy_j and bytes."""
        return dict(self._journal.know(self._key, lambda: dict(self._make())))

    @property
    def known(self) -> dict[str, Any] | None:
        """The fact, if it has been found out."""
        return self._journal.facts.get(self._key)

    @property
    def accuracy(self) -> list[float]:
        """The contribution of each client, a share of right answers."""
        return [float(one) for one in self.fact["accuracy"]]

    def added_to(self, clients: Mapping[int, ClientFacts]) -> dict[int, ClientFacts]:
        """What is known of clients, with what each of them contributes."""
        found = self.accuracy
        return {i: replace(facts, contribution=found[i]) for i, facts in clients.items()}


class LearnedFacts:
    """The facts of one run; `contributions` are those of its clients, if somebody asks for them."""

    def __init__(
        self,
        journal: Journal,
        asked: Asked,
        evaluator: Evaluator,
        trainer: Trainer,
        streams: Streams,
        contributions: Contributions | None = None,
        coding: Coding | None = None,
    ) -> None:
        self.journal = journal
        self.evaluator = evaluator
        self.contributions = contributions
        self._asked = asked
        self._trainer = trainer
        self._streams = streams
        self.crossing = Crossing(asked, coding or Coding(), streams)

    def know(self, what: tuple[object, ...], make: Callable[[], Any]) -> Any:
        """The fact that `what` names, found out by `make` if nobody has before: the door."""
        return self.journal.know(make_key(*what), make)

    # What time and decisions need.

    def price(self, job: Future, ref: StateRef, client: int, held: int) -> Price:
        """What the client round of a job costs, where that depends on the state."""

        def make() -> tuple[float, ...]:
            price = self._asked.learned_price(ref.value(), client, held)
            known = int(price.down_bytes), int(price.up_bytes), float(price.work)
            return (*known, float(price.operations)) if price.operations else known

        return Price(*self.know(("price", job.key), make))

    def losses(self, ref: StateRef, jobs: Jobs) -> FloatArray:
        """Mean loss on each client's own data of the model of `ref` that it is served."""
        return np.array([self._loss(ref, client, job) for client, job in jobs.items()])

    def _loss(self, ref: StateRef, client: int, job: Future | None) -> float:
        def make() -> float:
            downloaded = self.crossing.downwards(ref)
            models = self._asked.served(downloaded, client, _memory(job))
            return self.evaluator.loss(models, on=client_set(client))

        key = ("reported loss", ref.key, client, job.key if job else None)
        return float(self.know(key, make))

    def standing(self, ref: StateRef) -> Standing | None:
        """Where training stands, of an algorithm that says itself when it is over."""
        if not self._asked.algorithm.stands:
            return None

        def make() -> dict[str, Any]:
            return asdict(self._asked.standing(ref.value(), self.evaluator))

        return Standing(**self.know(("standing", ref.key), make))

    # What is measured.

    def report(
        self,
        ref: StateRef,
        arrived: Sequence[Arrived],
        updates: Callable[[], list[Update]],
    ) -> dict[str, Any]:
        """What the algorithm says, for the log, of updates that `ref` is about to aggregate.

        `updates` computes them as the algorithm may see them; {} where it says nothing.
        """
        if type(self._asked.algorithm).report is Algorithm.report:
            return {}

        def make() -> dict[str, Any]:
            state, seen = ref.value(), updates()
            return self._asked.report(state, seen) if seen else {}

        return dict(self.know(("report", ref.key, lineage(arrived)), make))

    def evaluation(self, ref: StateRef, jobs: Jobs) -> dict[str, Any]:
        """Loss and accuracy on the test set of what clients are served after these jobs.

        Keys: loss, accuracy (means over clients if the algorithm serves each its own model) and,
        then, `served`: [loss, accuracy] per client. `flipped`: [loss, accuracy] on the data set's
        test examples with a flipped feature, where it has them.
        """
        personal = self._asked.algorithm.personal

        def make() -> dict[str, Any]:
            models = list(self._served(ref, jobs).values())
            return mean_scores(self.evaluator, models, "served" if personal else None)

        return dict(self.know(("evaluate", ref.key, *([_chain(jobs)] if personal else [])), make))

    def served_at_clients(self, ref: StateRef, jobs: Jobs) -> list[list[float]]:
        """[loss, accuracy] of what each client is served after these jobs, on its own data."""
        chain = _chain(jobs) if self._asked.algorithm.personal else ()
        key = ("at clients", ref.key, chain)
        return self._at_clients(key, partial(self._served, ref, jobs))

    def global_at_clients(self, ref: StateRef, clients: Sequence[int]) -> list[list[float]]:
        """[loss, accuracy] of the server's model on each client's own data."""
        if not self._asked.algorithm.personal:  # it is what everybody is served, at any time
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
        """[loss, accuracy] on the test set of what each client is rewarded with in the end.

        An algorithm that says what it serves (each client a model of its own, or all an ensemble)
        is scored on that. Where all are served the server's model, each client first trains it for
        one more local epoch on its own data, as CFFL, CGSV and FedSAC do to compare such
        algorithms.
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
        recipe = Recipe(replace(local, epochs=1, steps=None, share=None))
        state = ref.value()
        # Its own tensors too: an algorithm's loss may look at them.
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
        """Loss on the test set of what `client` is served before any training.

        Looked at when the run is over, so that the journal need not keep it.
        """
        (models,) = self._served(ref, {client: None}).values()
        return self.evaluator.loss(models, "test")

    def _served(self, ref: StateRef, jobs: Jobs) -> dict[int, list[Parameters]]:
        """What clients are served after these jobs of theirs."""
        return {
            client: self._asked.served(ref.value(), client, _memory(job))
            for client, job in jobs.items()
        }


def _memory(job: Future | None) -> Memory:
    return job.memory() if job else Memory()


def _chain(jobs: Jobs) -> tuple[tuple[int, str | None], ...]:
    """What names all these jobs in a key."""
    return tuple((client, job.key if job else None) for client, job in jobs.items())
