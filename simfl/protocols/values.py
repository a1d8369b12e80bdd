"""The learned values of a run: the interface between simulated time and training.

A protocol holds keyed handles and never a tensor: `StateRef` for a server's state, `Future` for a
client's update. A handle's value is computed on demand, which may be much later than its simulated
time; its key identifies it from the start.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from simfl.algorithms.asked import Asked
from simfl.algorithms.base import Algorithm, ClientFacts, ServerState, Standing, Work
from simfl.common.arrays import FloatArray, IntArray
from simfl.common.model_work import ModelWork
from simfl.common.notices import Notice
from simfl.common.part_name import called
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Brief, LocalTraining, Price, Prices, Recipe, Update
from simfl.learning.parameters import all_finite
from simfl.learning.trainer import Future, LocalJob, Trainer
from simfl.learning.workers.tally import WorkerShare
from simfl.protocols.arrivals import Arrived, arrivals, lineage
from simfl.protocols.deliveries import Delivered
from simfl.protocols.learned_facts import Contributions, Jobs, LearnedFacts
from simfl.protocols.learned_values import Effort, LearnedValues
from simfl.protocols.publication import Diverged
from simfl.protocols.state_ref import StateRef, StateStore
from simfl.provenance.journal import Snapshot, make_key
from simfl.streams import Streams
from simfl.system.processor import TRAINING_FLOPS_PER_FORWARD

NonFinite = Literal["stop", "drop", "reset"]


class Values(LearnedValues):
    """The learned values of a run: keyed states and jobs, and the `facts` computed from them.

    `root` covers everything that every value depends on (algorithm, model, data, seed, numeric
    platform, source of plug-ins).
    """

    def __init__(
        self,
        root: str,
        asked: Asked,
        trainer: Trainer,
        facts: LearnedFacts,
        clients: Mapping[int, ClientFacts],
        streams: Streams,
        snapshot: Snapshot | None = None,
        store: StateStore | None = None,
        non_finite: NonFinite = "stop",
    ) -> None:
        self.root = root
        self.asked = asked
        self.trainer = trainer
        self.facts = facts
        self.clients = clients
        self._streams = streams
        self._snapshot = snapshot or Snapshot()
        self._store = store
        self._non_finite = non_finite
        self._refs: weakref.WeakSet[StateRef] = weakref.WeakSet()
        self._futures: weakref.WeakSet[Future] = weakref.WeakSet()
        self._latest: dict[int, tuple[float, Future, Future | None]] = {}

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm."""
        return self.asked.algorithm

    @property
    def evaluator(self) -> Evaluator:
        """Scores models, also on data sets that no client trains on."""
        return self.facts.evaluator

    @property
    def contributions(self) -> Contributions | None:
        """Each client's contribution, if needed."""
        return self.facts.contributions

    def begin(self, clients: Sequence[int], tier: str) -> StateRef:
        """The state before training of the server named by `tier`, with its clients."""
        seed = self._streams.seed("model")

        def make() -> ServerState:
            known = {client: self.clients[client] for client in clients}
            if self.algorithm.needs_contributions and self.contributions is not None:
                known = self.contributions.added_to(known)
            return self.asked.start(known, self.evaluator, seed)

        return self._ref(make_key("begin", self.root, tier, tuple(clients)), 0, make, [], tier=tier)

    @property
    def min_updates(self) -> int:
        """The fewest updates that a server can aggregate."""
        return self.algorithm.min_updates

    @property
    def one_model_for_all(self) -> bool:
        """Whether all clients get the same, whole model."""
        return not (self.algorithm.personal or self.algorithm.learned_price)

    def players(self, ref: StateRef, clients: IntArray) -> IntArray:
        """Which of `clients` the algorithm lets play at this version."""
        return self.asked.players(ref.version, clients)

    def plain_work(self, num_examples: IntArray, version: int) -> tuple[FloatArray, FloatArray]:
        """Examples that plain training passes over, and its mini-batches, per client.

        A forward pass over the whole data, to measure a loss, counts as its share of a training
        pass. A gradient over the whole data is computed batch by batch, because of memory.
        """
        return _amounts(self.asked.recipe(version), num_examples, self._smallest)

    def trained(
        self, clients: IntArray, rounds: IntArray, num_examples: IntArray, version: int
    ) -> tuple[FloatArray, FloatArray]:
        """Examples and steps of each client's training, of which some do only a part."""
        recipe, shares = self.asked.recipe(version), self._parts(clients, rounds)
        if shares is None:
            return _amounts(recipe, num_examples, self._smallest)

        def of(part: LocalTraining, sizes: IntArray) -> tuple[FloatArray, FloatArray]:
            return _amounts(replace(recipe, local=part), sizes, self._smallest)

        return recipe.local.amounts(shares, num_examples, of)

    @property
    def _smallest(self) -> int:
        return self.asked.network.smallest_batch

    def _parts(self, clients: IntArray, rounds: IntArray) -> FloatArray | None:
        """The share of the local work that each client does; None: all of it."""
        partial_work = self.algorithm.local.partial
        if partial_work is None:
            return None
        return partial_work.shares(self._streams, clients, rounds)

    def batches(self, num_examples: IntArray) -> FloatArray:
        """Mini-batches of one pass, per client."""
        batches: FloatArray = self.asked.recipe(0).local.batches(num_examples)
        return batches

    @property
    def work(self) -> ModelWork:
        """The work of the model."""
        return self.asked.network.work

    def forwards(self, ref: StateRef, moved: IntArray, clients: int) -> IntArray | None:
        """Bytes that the server sends to each client at once (`Algorithm.forwards`)."""
        return self.asked.forwards(ref.version, moved.tolist(), clients)

    def tier_price(self, ref: StateRef) -> Price:
        """Bytes between an edge server and the cloud, per dispatch."""
        return self.asked.tier_price(ref.version)

    def submit(
        self, clients: IntArray, rounds: IntArray, ref: StateRef, held: IntArray
    ) -> list[Future]:
        """Submits the jobs of some clients' rounds, without training them yet."""
        numbers = clients.tolist()
        seeds = self._streams.seeds("job", clients, rounds)
        # Jobs of clients without memory are independent: one whose update is dropped is not
        # trained.
        latest = self._latest if self._remembers(ref.version) else {}
        previous = [latest[client][1] if client in latest else None for client in numbers]
        parts = self._parts(clients, rounds)
        shares = [None] * clients.size if parts is None else parts.tolist()
        columns = zip(numbers, rounds.tolist(), held.tolist(), seeds, previous, shares, strict=True)
        return [self._submit(ref, *column) for column in columns]

    def _submit(
        self,
        ref: StateRef,
        client: int,
        round_count: int,
        held: int,
        seed: int,
        previous: Future | None,
        share: float | None,
    ) -> Future:
        chain, coding = previous.key if previous else None, self.facts.crossing.coding
        receive = None if coding.downlink is None else partial(self.facts.crossing.start, ref)

        def make_brief() -> Brief:
            brief = self.asked.brief(ref.value(), client, held)
            if share is None:
                return brief
            recipe = replace(brief.recipe, local=brief.recipe.local.part(share))
            return replace(brief, recipe=recipe)

        future = self.trainer.submit(
            LocalJob(
                key=make_key("job", ref.key, client, round_count, held, chain),
                client=client,
                seed=seed,
                version=ref.version,
                make_brief=make_brief,
                awaits=ref,
                previous=previous,
                make_common=lambda: ref.common(self.asked),
                receive=receive,
                uplink=coding.uplink,
            )
        )
        future.recall(self._snapshot.updates, self._snapshot.memories)
        self._futures.add(future)
        return future

    def computed(self, clients: IntArray, futures: Sequence[Future], time_s: FloatArray) -> None:
        """Clients end the computation of their jobs at `time_s`: the jobs join their chains.

        inf: the client never got its job.
        """
        if not futures or not self._remembers(futures[0].version):
            return
        for client, future, ended_s in zip(clients.tolist(), futures, time_s.tolist(), strict=True):
            if ended_s < np.inf:
                latest = self._latest.get(client)
                self._latest[client] = (ended_s, future, latest[1] if latest else None)

    def _remembers(self, version: int) -> bool:
        return self.asked.recipe(version).remembers or self.facts.crossing.coding.remembers

    def last_job(self, client: int, now_s: float) -> Future | None:
        """The client's last job whose computation has ended by `now_s`, if it left a memory."""
        if client not in self._latest:
            return None
        ended_s, future, before = self._latest[client]
        return future if ended_s <= now_s else before

    def prices(
        self,
        clients: IntArray,
        futures: Sequence[Future],
        ref: StateRef,
        held: IntArray,
    ) -> Prices:
        """The cost of each client's round; learned prices are journalled facts."""
        if not self.algorithm.learned_price:
            return self.asked.prices(clients.tolist(), ref.version)
        return Prices.of(
            [
                self.facts.price(future, ref, int(client), int(kept))
                for client, future, kept in zip(clients, futures, held, strict=True)
            ]
        )

    def server_work(self, ref: StateRef, delivered: Delivered) -> Work:
        """The cost of aggregating these updates, including passes over validation data."""
        work, passes = self.asked.work(ref.version, delivered.up_bytes)
        if not passes:
            return work
        examples = passes * self.evaluator.num_examples("validation")
        return replace(work, flops=work.flops + examples * self.work.forward_flops)

    def aggregate(
        self, ref: StateRef, delivered: Delivered, shares: Sequence[float] | None = None
    ) -> StateRef:
        """The server's next state, with updates in canonical order (client, then job).

        With `shares`, one per update, each update counts as its change times its share, applied to
        this state's weights (`Update.rebased`).
        """
        if delivered.clients.size < self.algorithm.min_updates:
            raise ValueError(
                f"{called(self.algorithm)} aggregates at least"
                f" {self.algorithm.min_updates} updates, found {delivered.clients.size}"
            )
        arrived = arrivals(ref.version, delivered, shares)

        def make() -> ServerState:
            state = ref.value()
            return self._aggregated(state, self._sound(state, arrived))

        def release() -> None:
            for one in arrived:  # clients' chains hold futures; they need only the memory
                one.future.release()

        key = make_key("aggregate", ref.key, lineage(arrived))
        base = None
        if self.facts.crossing.coding.acts:  # this stays in memory with everything derived from it
            base = ref.base if ref.upper is None else ref
        return self._ref(key, ref.version + 1, make, [ref], release, tier=ref.tier, base=base)

    def _sound(self, state: ServerState, arrived: Sequence[Arrived]) -> list[Update]:
        """The updates as the algorithm may see them."""
        statistics = self.asked.network.buffer_names
        updates = [one.update(state, statistics) for one in arrived]
        if self._non_finite == "stop":
            return updates
        return [update for update in updates if all_finite(update.payload)]

    def _aggregated(self, state: ServerState, updates: list[Update]) -> ServerState:
        """The algorithm's aggregation; raises `Diverged` if it is not finite."""
        if len(updates) < self.algorithm.min_updates:
            return state
        try:
            aggregated = self.asked.aggregate(state, updates, self.evaluator)
        except (ArithmeticError, LookupError, ValueError) as error:
            if all(update.is_finite for update in updates):
                raise
            raise Diverged(f"an update for version {state.version + 1} is not finite") from error
        if not all_finite(aggregated.weights):
            raise Diverged(f"the weights of version {state.version + 1} are not finite")
        return aggregated

    def merge(self, ref: StateRef, lower: Sequence[StateRef], shares: Sequence[float]) -> StateRef:
        """A higher tier's next state, after mixing in lower ones with these shares."""
        key = make_key("merge", ref.key, tuple(one.key for one in lower), tuple(shares))
        bases = [one.base for one in lower if one.base is not None]
        bases += [one.upper for one in bases if one.upper is not None]

        def make() -> ServerState:
            brought = [self.facts.crossing.upwards(one) for one in lower]
            merged = self.asked.merge(ref.value(), brought, shares)
            if len(shares) > 1 or shares[0] <= 1.0:
                return merged
            # With a step longer than the change, running statistics could become negative.
            statistics = {n: brought[0].weights[n] for n in self.asked.network.buffer_names}
            return replace(merged, weights={**merged.weights, **statistics})

        return self._ref(key, ref.version + 1, make, [ref, *lower, *bases], tier=ref.tier)

    def adopt(self, ref: StateRef, upper: StateRef) -> StateRef:
        """A lower tier's state after it took over the higher tier's; its own version stays."""
        return self._ref(
            make_key("adopt", ref.key, upper.key),
            ref.version,
            lambda: self.asked.adopt(ref.value(), self.facts.crossing.downwards(upper)),
            [ref, upper],
            tier=ref.tier,
            upper=upper if self.facts.crossing.coding.acts else None,
        )

    def losses(self, ref: StateRef, clients: IntArray, now_s: float) -> FloatArray:
        """Mean loss on each client's own data of the model of `ref` that serves it."""
        return self.facts.losses(ref, self._jobs_behind(clients.tolist(), now_s))

    def standing(self, ref: StateRef) -> Standing | None:
        """The progress of training, for an algorithm that decides itself when it is over."""
        return self.facts.standing(ref)

    def report(
        self, ref: StateRef, delivered: Delivered, shares: Sequence[float] | None = None
    ) -> dict[str, Any]:
        """The algorithm's log entry for updates that `ref` is about to `aggregate`; {} if none."""
        arrived = arrivals(ref.version, delivered, shares)
        return self.facts.report(ref, arrived, lambda: self._sound(ref.value(), arrived))

    def evaluation(self, ref: StateRef, now_s: float) -> dict[str, Any]:
        """The evaluation on the test set of the models that serve clients at `now_s`."""
        whose = sorted(self.clients) if self.algorithm.personal else [min(self.clients)]
        return self.facts.evaluation(ref, self._jobs_behind(whose, now_s))

    def served_at_clients(self, ref: StateRef, now_s: float) -> list[list[float]]:
        """[loss, accuracy] of each client's served model at `now_s`, on its own data."""
        return self.facts.served_at_clients(ref, self._jobs_behind(sorted(self.clients), now_s))

    def global_at_clients(self, ref: StateRef) -> list[list[float]]:
        """[loss, accuracy] of the server's model on each client's own data."""
        return self.facts.global_at_clients(ref, sorted(self.clients))

    def rewards(self, ref: StateRef, now_s: float) -> list[list[float]]:
        """[loss, accuracy] on the test set of each client's reward at `now_s`."""
        jobs = {client: self.last_job(client, now_s) for client in sorted(self.clients)}
        return self.facts.rewards(ref, jobs)

    def loss_at_start(self, clients: Sequence[int]) -> float:
        """Loss on the test set of the model that serves the first of `clients` before training."""
        return self.facts.loss_at_start(self.begin(clients, "cloud"), clients[0])

    def _jobs_behind(self, clients: Sequence[int], now_s: float) -> Jobs:
        """Clients' last jobs finished by `now_s`, if served models depend on them."""
        if not self.algorithm.personal:
            return dict.fromkeys(clients)
        return {client: self.last_job(client, now_s) for client in clients}

    def _ref(
        self,
        key: str,
        version: int,
        make: Callable[[], ServerState],
        parents: Sequence[StateRef],
        release: Callable[[], None] = lambda: None,
        **place: Any,
    ) -> StateRef:
        held = self._snapshot.states.get(key)
        ref = StateRef(key, version, make, parents, held, self._store, release, **place)
        self._refs.add(ref)
        return ref

    @property
    def effort(self) -> Effort:
        """The effort of learning so far."""
        trainer, journal = self.trainer, self.facts.journal
        return Effort(
            jobs_asked=trainer.jobs_asked,
            jobs_trained=trainer.trained,
            jobs_reused=trainer.reused,
            facts_reused=journal.reused,
            facts_recalled=journal.recalled,
        )

    def wall_s(self) -> dict[str, float]:
        """Wall seconds by phase."""
        return {"training": self.trainer.seconds, "evaluation": self.evaluator.seconds}

    def close(self) -> None:
        """Releases the trainer's workers and the data.

        Waiting processes and their run refer to each other, so a run's objects are freed only when
        the garbage collector next examines old objects: many runs later, each with its data.
        """
        self.trainer.close()
        self.trainer.shards.clear()
        self.evaluator.close()

    def trained_where(self) -> list[WorkerShare]:
        """The number of jobs trained by each worker."""
        return self.trainer.trained_where()

    def notices(self) -> list[Notice]:
        """Warnings of the algorithm and the trainer."""
        return [*self.asked.notices(), *self.trainer.notices()]

    def snapshot(self) -> Snapshot:
        """All known learned values that the rest of the run may still read."""
        known = {ref.key: ref.value() for ref in self._refs if ref.known}
        taken = Snapshot(known, jobs_asked=self.trainer.jobs_asked)
        for future in self._futures:
            future.save(taken.updates, taken.memories)
        return taken


def _amounts(recipe: Recipe, num_examples: Any, smallest: int) -> tuple[Any, Any]:
    """Examples passed over and steps of a recipe (array in, arrays out).

    A gradient over the whole data is computed batch by batch, because of memory. A forward pass
    over the data, to measure a loss, counts as its share of a training pass.
    """
    local, batches = recipe.local, recipe.local.batches(num_examples, smallest)
    whole = recipe.kind == "gradient" and not local.counts_steps()
    looks = 1 / TRAINING_FLOPS_PER_FORWARD if "loss_before" in recipe.measure else 0.0
    passes = 1.0 if whole else local.passes(num_examples, smallest)
    steps = batches if whole else local.num_steps(num_examples, smallest)
    return (passes + looks) * num_examples, steps + looks * batches
