"""The engine's wrapper of an algorithm: checks every answer against the algorithm's contract.

Shipped algorithms are not checked here, because the tests check the same. In-place writes to
tensors would change states that others hold, and a replay of the run; torch counts such writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd import grad

from simfl.algorithms.base import Algorithm, ClientFacts, ServerState, Standing, Work
from simfl.common.amounts import amounts, distinct_of, number, whole_amounts
from simfl.common.arrays import IntArray
from simfl.common.contract import PartMisbehaves, at_work, is_users_own, misbehaves, named
from simfl.common.notices import Notice, notice
from simfl.common.plain import to_json
from simfl.common.quantity import quantity
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import MEASURES, Brief, Memory, Price, Prices, Recipe, Update
from simfl.learning.minibatch import Minibatch
from simfl.learning.network import Network
from simfl.learning.parameters import BYTES_PER_VALUE, Parameters


class Asked:
    """Calls one algorithm; raises `PartMisbehaves` for an invalid answer."""

    def __init__(self, algorithm: Algorithm, network: Network) -> None:
        self.algorithm = algorithm
        self.network = network
        self._own = is_users_own(algorithm)
        self._tested = 0
        self._unpaid_bytes = 0

    def start(
        self, clients: Mapping[int, ClientFacts], evaluator: Evaluator, seed: int
    ) -> ServerState:
        """The state before training (`Algorithm.start`)."""
        with at_work(self.algorithm, "start"):
            given = self.algorithm.start(self.network, clients, evaluator, seed)
        return self._state(given, "start")

    def players(self, version: int, clients: IntArray) -> IntArray:
        """Which of `clients` may play at this version."""
        asked = clients.tolist()
        with at_work(self.algorithm, "players"):
            given = self.algorithm.players(version, asked)
        if given is asked and not self._own:
            return clients
        chosen = distinct_of(clients, given)
        if chosen is None:
            raise misbehaves(
                self.algorithm, "players", given, "some of the given clients, once each"
            )
        return chosen

    def recipe(self, version: int) -> Recipe:
        """The recipe of local work at this version."""
        with at_work(self.algorithm, "recipe"):
            given = self.algorithm.recipe(self.network, version)
            if self._own:
                self._check_recipe(given)
        return given

    def prices(self, clients: Sequence[int], version: int) -> Prices:
        """The cost of rounds, if it follows from the model alone."""
        with at_work(self.algorithm, "price"):
            given = [self.algorithm.price(self.network, one, version) for one in clients]
        return self._prices(given, "price")

    def tier_price(self, version: int) -> Price:
        """Bytes between the tiers."""
        with at_work(self.algorithm, "tier_price"):
            given = self.algorithm.tier_price(self.network, version)
        return self._one_price(given, "tier_price") if self._own else given

    def forwards(self, version: int, moved: Sequence[int], clients: int) -> IntArray | None:
        """Bytes sent to each client as soon as a version exists."""
        with at_work(self.algorithm, "forwards"):
            given = self.algorithm.forwards(self.network, version, moved, clients)
        if given is None or not self._own:
            return given
        return whole_amounts(given, (clients,), self.algorithm, "forwards")

    def work(self, version: int, up_bytes: IntArray) -> tuple[Work, float]:
        """The cost of aggregation, with the forward passes over the server's validation data."""
        algorithm, network = self.algorithm, self.network
        with at_work(algorithm, "server_work"):
            work = algorithm.server_work(network, version, up_bytes)
        with at_work(algorithm, "validation_passes"):
            passes = algorithm.validation_passes(network, version, len(up_bytes))
        if not self._own:
            return work, passes
        if not isinstance(work, Work):
            raise misbehaves(algorithm, "server_work", work, "a Work")
        amounts([work.flops, work.bytes_moved], (2,), algorithm, "server_work")
        return work, float(amounts(passes, (), algorithm, "validation_passes"))

    def brief(self, state: ServerState, client: int, held: int) -> Brief:
        """The brief of one client."""
        with self._asking("brief", state.weights):
            given = self.algorithm.brief(self.network, state, client, held)
        if not self._own:
            return given
        if not isinstance(given, Brief):
            raise misbehaves(self.algorithm, "brief", given, "a Brief")
        self._check_recipe(given.recipe, "brief")
        self._check_work(given, state.version, client)
        if given.start is not state.weights:
            self._check_weights(given.start, "brief")
        self._check_beside(given)
        self._check_correction(given)
        correction = sum(one.numel() for one in given.correction.values()) * BYTES_PER_VALUE
        if given.price.down_bytes < self.network.size_bytes + correction:
            self._unpaid_bytes = max(self._unpaid_bytes, correction)
        return given

    def learned_price(self, state: ServerState, client: int, held: int) -> Price:
        """The cost of a round, if it depends on the state."""
        return self._one_price(self.brief(state, client, held).price, "brief")

    def common(self, state: ServerState) -> Any:
        """The tensors that all jobs of a state share."""
        with self._asking("common", state.weights):
            return self.algorithm.common(state)

    def aggregate(
        self, state: ServerState, updates: Sequence[Update], evaluator: Evaluator
    ) -> ServerState:
        """The next state after these updates."""
        before = evaluator.used
        evaluator.used = set()
        with self._asking("aggregate", state, *(one.payload for one in updates)):
            given = self.algorithm.aggregate(state, updates, evaluator)
        self._tested += "test" in evaluator.used
        evaluator.used |= before
        return self._state(given, "aggregate")

    def notices(self) -> list[Notice]:
        """Warnings of what a user's own algorithm does."""
        found = []
        if self._own and self._tested:
            name = named(self.algorithm, "aggregate")
            message = f"{name} evaluated models on the test set, in {self._tested} aggregations"
            found.append(notice("tested_while_training", message, self._tested))
        if self._unpaid_bytes:
            message = (
                f"{named(self.algorithm, 'brief')} gives clients corrections of"
                f" {quantity(self._unpaid_bytes, 'B')}, and the price of the download does not"
                " contain them"
            )
            found.append(notice("unpaid_correction", message))
        return found

    def merge(
        self, state: ServerState, lower: Sequence[ServerState], shares: Sequence[float]
    ) -> ServerState:
        """The next state after lower ones are mixed in."""
        self._check_memory("merge", state, lower)
        with self._asking("merge", state, *lower):
            given = self.algorithm.merge(state, lower, shares)
        return self._state(given, "merge")

    def adopt(self, state: ServerState, upper: ServerState) -> ServerState:
        """A lower tier's state after it took over the higher one's."""
        self._check_memory("adopt", state, [upper])
        with self._asking("adopt", state, upper):
            given = self.algorithm.adopt(state, upper)
        return self._state(given, "adopt")

    def concluded(self, state: ServerState, evaluator: Evaluator) -> ServerState:
        """The last state, ready to serve rewards."""
        with self._asking("concluded", state):
            given = self.algorithm.concluded(state, evaluator)
        return self._state(given, "concluded")

    def served(self, state: ServerState, client: int, memory: Memory) -> list[Parameters]:
        """The models that serve a client."""
        with self._asking("served", state.weights, memory.private):
            given: Any = self.algorithm.served(state, client, memory)
        if not self._own:
            return list(given)
        if not isinstance(given, list | tuple) or not given:
            raise misbehaves(self.algorithm, "served", given, "a list of models, at least one")
        for weights in given:
            if weights is not state.weights:
                self._check_weights(weights, "served")
        return list(given)

    def standing(self, state: ServerState, evaluator: Evaluator) -> Standing:
        """The standing of training."""
        with self._asking("standing", state):
            given = self.algorithm.standing(state, evaluator)
        if not isinstance(given, Standing):
            raise misbehaves(self.algorithm, "standing", given, "a Standing")
        loss, accuracy = (
            float(number(one, self.algorithm, "standing")) for one in (given.loss, given.accuracy)
        )
        return Standing(loss, accuracy, None if given.over is None else str(given.over))

    def report(self, state: ServerState, updates: Sequence[Update]) -> dict[str, Any]:
        """The log entry for updates about to be aggregated, as JSON values."""
        with self._asking("report", state, *(one.payload for one in updates)):
            given = self.algorithm.report(state, updates)
            if not isinstance(given, Mapping):
                raise misbehaves(self.algorithm, "report", given, "figures by name")
            report: dict[str, Any] = json.loads(to_json(dict(given)))
        if "value" in report:
            number(report["value"], self.algorithm, "report: value")
        return report

    @contextmanager
    def _asking(self, method: str, *given: ServerState | Mapping[str, Tensor]) -> Iterator[None]:
        """Like `at_work`; also checks that the method leaves its arguments unchanged."""
        held = given if self._own else ()
        before = _marks(held)
        with at_work(self.algorithm, method):
            yield
        if _marks(held) != before:
            raise _changed_in_place(self.algorithm, method)

    def _check_memory(
        self, method: Literal["merge", "adopt"], state: ServerState, others: Sequence[ServerState]
    ) -> None:
        """Refuses memory that the base's merge and adopt would lose: they carry weights only."""
        inherited = getattr(type(self.algorithm), method) is getattr(Algorithm, method)
        if not self._own or not inherited:
            return
        lost = {key for one in others if one.memory is not state.memory for key in one.memory}
        if lost:
            raise PartMisbehaves(
                f"{named(self.algorithm, method)} is inherited from Algorithm, which passes only"
                " weights between servers and would lose the memory"
                f" {', '.join(sorted(map(str, lost)))}; accepted: its own merge and adopt, or"
                " refusals of such protocols"
            )

    def _state(self, given: Any, method: str) -> ServerState:
        if self._own:
            if not isinstance(given, ServerState):
                raise misbehaves(self.algorithm, method, given, "a ServerState")
            self._check_weights(given.weights, method)
        state: ServerState = given
        return state

    def _check_weights(self, weights: Any, method: str) -> None:
        """Checks that weights have every tensor of the model, with its shape and type."""
        if not isinstance(weights, Mapping):
            raise misbehaves(self.algorithm, method, weights, "weights: tensors by name")
        for name, like in self.network.template.items():
            found = weights.get(name)
            if not isinstance(found, Tensor):
                raise misbehaves(
                    self.algorithm, f"{method}: {name}", found, "every tensor of the model"
                )
            if (found.shape, found.dtype) != (like.shape, like.dtype):
                said = f"{tuple(found.shape)} {found.dtype}"
                wanted = f"{tuple(like.shape)} {like.dtype}"
                raise misbehaves(self.algorithm, f"{method}: {name}", said, wanted)

    def _check_beside(self, brief: Brief) -> None:
        """Checks that tensors trained beside the model have other names, and start values."""
        beside = brief.recipe.beside
        if not beside:
            return
        known = sorted(beside.intersection(self.network.tensor_names))
        if known:
            accepted = "beside: names that the model does not have"
            raise misbehaves(self.algorithm, "brief", known, accepted)
        if brief.recipe.kind == "gradient":
            accepted = "beside: nothing, as a gradient job trains nothing"
            raise misbehaves(self.algorithm, "brief", sorted(beside), accepted)
        for name in sorted(beside):
            found = brief.start.get(name)
            if not isinstance(found, Tensor) or not found.is_floating_point():
                accepted = "a tensor of real numbers for every name of beside"
                raise misbehaves(self.algorithm, f"brief: start[{name!r}]", found, accepted)

    def _check_correction(self, brief: Brief) -> None:
        """Checks that a correction fits the gradients: names, shapes and types."""
        if brief.correction and brief.recipe.kind == "gradient":
            accepted = "no correction of a gradient job, which makes no step"
            raise misbehaves(self.algorithm, "brief", sorted(brief.correction), accepted)
        trainable, beside = brief.recipe.trainable, brief.recipe.beside
        wanted = self.network.trainable_names if trainable is None else trainable
        for name, found in brief.correction.items():
            method = f"brief: correction[{name!r}]"
            if name not in wanted | beside:
                raise misbehaves(self.algorithm, method, name, "parameters that are trained")
            like = brief.start[name]
            if not isinstance(found, Tensor):
                raise misbehaves(self.algorithm, method, found, "a tensor")
            if (found.shape, found.dtype) != (like.shape, like.dtype):
                said = f"{tuple(found.shape)} {found.dtype}"
                raise misbehaves(self.algorithm, method, said, f"{tuple(like.shape)} {like.dtype}")

    def _check_recipe(self, given: Any, method: str = "recipe") -> None:
        if not isinstance(given, Recipe):
            raise misbehaves(self.algorithm, method, given, "a Recipe")
        known = frozenset(self.network.tensor_names)
        strangers = (given.private | (given.trainable or frozenset())) - known
        if strangers:
            raise misbehaves(self.algorithm, method, sorted(strangers), "names of the model")
        if given.measure - MEASURES:
            accepted = f"measure: of {', '.join(sorted(MEASURES))}"
            raise misbehaves(self.algorithm, method, sorted(given.measure), accepted)
        local = given.local
        counts = (local.epochs, local.steps, local.batch_size)
        if not all(one is None or one >= 1 for one in counts):
            raise misbehaves(self.algorithm, method, local, "epochs, steps, batch_size >= 1")

    def _check_work(self, brief: Brief, version: int, client: int) -> None:
        """Refuses other local work than the recipe's if its price is that of the recipe's.

        Also if clients do parts of it (`local.partial`): a price is a multiple of the recipe's. A
        pass over the data is as much work in batches of any size.
        """
        algorithm, network, own = self.algorithm, self.network, brief.recipe
        usual = algorithm.recipe(network, version)
        sizes = ("batch_size",) if own.local.steps is not None else ()
        changed = [
            f"{key} {getattr(own.local, key)}"
            for key in ("epochs", "steps", "share", *sizes)
            if getattr(own.local, key) != getattr(usual.local, key)
        ]
        if own.kind != usual.kind:
            changed.append(f"kind {own.kind}")
        if not changed:
            return
        if algorithm.local.partial is not None:
            raise PartMisbehaves(
                f"{named(algorithm, 'brief')} gave client {client} other local work than the recipe"
                f" ({', '.join(changed)}) beside local.partial, so that its part would not be what"
                " its price says; accepted: one of them"
            )
        learned = algorithm.learned_price
        price = brief.price if learned else algorithm.price(network, client, version)
        if price.work == 1.0:
            where = "its price" if learned else f"price(network, {client}, {version})"
            raise PartMisbehaves(
                f"{named(algorithm, 'brief')} gave client {client} other local work than the recipe"
                f" ({', '.join(changed)}), but {where} has a work of 1, so that it would take the"
                " time and energy of the recipe; accepted: the recipe's work, or a price whose work"
                " is this client's work divided by it"
            )

    def _one_price(self, given: Any, method: str) -> Price:
        column = self._prices([given], method)
        down_bytes, up_bytes = int(column.down_bytes[0]), int(column.up_bytes[0])
        return Price(down_bytes, up_bytes, float(column.work[0]), float(column.operations[0]))

    def _prices(self, given: Sequence[Any], method: str) -> Prices:
        """Columns of prices: whole bytes, finite work, nothing negative."""
        if not self._own:
            return Prices.of(given)
        wrong = [one for one in given if not isinstance(one, Price)]
        if wrong:
            raise misbehaves(self.algorithm, method, wrong[0], "a Price")
        part, shape = self.algorithm, (len(given),)
        return Prices(
            whole_amounts([one.down_bytes for one in given], shape, part, f"{method}: down_bytes"),
            whole_amounts([one.up_bytes for one in given], shape, part, f"{method}: up_bytes"),
            amounts([one.work for one in given], shape, part, f"{method}: work"),
            amounts([one.operations for one in given], shape, part, f"{method}: operations"),
        )


MIXED = 1e-6
"""Gradients below this share of the largest one are rounding errors."""


@dataclass(frozen=True)
class AskedLoss:
    """A user's own loss, checked at every step; raises `PartMisbehaves`.

    At the first step with several jobs, the first one's loss must not depend on the others' models,
    and at the first one with padding no loss may depend on padded rows: results would depend on
    which jobs happen to be trained together. `tried` has which of this was checked.
    """

    algorithm: Algorithm
    tried: set[str] = field(default_factory=set, compare=False)

    def __call__(self, parameters: Parameters, batch: Minibatch) -> Tensor:
        """One loss per job."""
        heard = list[Tensor]()
        padded = "rows" not in self.tried and not bool(batch.valid.all())
        if padded:
            batch = _listening(batch, heard)
        losses = self._losses(parameters, batch)
        if losses.requires_grad:
            if "jobs" not in self.tried and len(losses) > 1:
                self._refuse_mixed_jobs(parameters, losses)
            if padded:
                self._refuse_padded_rows(batch.valid, heard, losses)
        return losses

    def _refuse_mixed_jobs(self, parameters: Parameters, losses: Tensor) -> None:
        leaves = [one for one in parameters.values() if one.requires_grad]
        found = [one for one in _gradients(losses[0], leaves) if one is not None]
        own = max((float(one[0].abs().max()) for one in found), default=0.0)
        others = max((float(one[1:].abs().max()) for one in found), default=0.0)
        if others > MIXED * own:
            raise PartMisbehaves(
                f"{named(self.algorithm, 'loss')} mixes jobs that happen to be trained together:"
                " the first one's loss depends on the models of others, accepted: reductions over"
                " trailing axes only (sum(), norm() and mean(0) go over all jobs)"
            )
        if own > 0.0:
            self.tried.add("jobs")

    def _refuse_padded_rows(self, valid: Tensor, heard: list[Tensor], losses: Tensor) -> None:
        outputs = [one for one in heard if one.requires_grad and one.shape[:2] == valid.shape]
        for found in _gradients(losses.sum(), outputs):
            if found is None:
                continue
            by_row = found.abs().flatten(2).amax(-1) if found.dim() > valid.dim() else found.abs()
            largest = float(by_row.max())
            if float((by_row * (valid == 0)).max()) > MIXED * largest:
                raise PartMisbehaves(
                    f"{named(self.algorithm, 'loss')} counts padded rows, which are no examples,"
                    " accepted: rows weighted by batch.shares, or batch.mean_loss"
                )
            if largest > 0.0:
                self.tried.add("rows")

    def _losses(self, parameters: Parameters, batch: Minibatch) -> Tensor:
        held = (
            parameters,
            batch.start,
            batch.own,
            {"inputs": batch.inputs, "targets": batch.targets},
        )
        before = _marks(held)
        with at_work(self.algorithm, "loss"):
            losses: Any = self.algorithm.loss(parameters, batch)
        if not isinstance(losses, Tensor) or losses.shape != batch.valid.shape[:1]:
            found = tuple(losses.shape) if isinstance(losses, Tensor) else losses
            jobs = tuple(batch.valid.shape[:1])
            raise misbehaves(self.algorithm, "loss", found, f"a tensor of shape {jobs}")
        wanted = torch.is_grad_enabled() and any(one.requires_grad for one in parameters.values())
        if wanted and not losses.requires_grad:
            found = "a loss without a gradient (detached, or computed under torch.no_grad)"
            raise PartMisbehaves(
                f"{named(self.algorithm, 'loss')} gave {found}, accepted: one that depends on the"
                " parameters"
            )
        if _marks(held) != before:
            raise _changed_in_place(self.algorithm, "loss")
        return losses


def _listening(batch: Minibatch, heard: list[Tensor]) -> Minibatch:
    """The batch, with outputs of its passes put into `heard`."""

    def forward(parameters: Parameters, inputs: Tensor) -> Tensor:
        heard.append(batch.forward(parameters, inputs))
        return heard[-1]

    return replace(batch, forward=forward)


def _gradients(total: Tensor, of: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """Gradients, None where there is none; the graph stays for the training step itself."""
    if not of:
        return ()
    found: Sequence[Tensor | None] = grad(total, of, retain_graph=True, allow_unused=True)
    return found


def _changed_in_place(algorithm: Algorithm, method: str) -> PartMisbehaves:
    return PartMisbehaves(
        f"{named(algorithm, method)} changed tensors in place that it was given, accepted: it"
        " makes new tensors"
    )


def _marks(given: Sequence[ServerState | Mapping[str, Tensor]]) -> list[tuple[int, int]]:
    """The identity of these tensors, and how often each has been written to so far."""
    return [(id(tensor), tensor._version) for one in given for tensor in _tensors(one)]


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, ServerState):
        yield from _tensors(value.weights)
        yield from _tensors(value.memory)
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _tensors(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors(one)
