"""A job with its inputs, and the conversion of its result to an update."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from simfl.learning.batches import padded_rows, plan_order
from simfl.learning.codecs.base import ValueCodec
from simfl.learning.codecs.messages import uploaded
from simfl.learning.datasets.base import Examples
from simfl.learning.evaluate import mean_loss
from simfl.learning.job import Brief, Memory, Recipe, Update
from simfl.learning.network import Network
from simfl.learning.parameters import Parameters

MASK_PREFIX = "mask/"
"""`own["mask/<parameter>"]` is 1 where a parameter may change and 0 where it is fixed."""


@dataclass(eq=False)
class Task:
    """A job with all its inputs: what a trainer needs to compute its update.

    Tasks must not be changed. The class is not frozen because this would slow down jobs of small
    models.

    `received` is the brief's start as the client received it (None: unchanged), `uplink` the codec
    of its upload (None: none). Tasks with the same `state` object start from the same server state.
    """

    client: int
    seed: int
    version: int
    brief: Brief
    memory: Memory
    examples: Examples
    common: Any
    received: Parameters | None = None
    uplink: ValueCodec | None = None
    state: object = None

    @property
    def start(self) -> Parameters:
        """The weights that training starts from, including the private tensors of the client."""
        if self.memory.private:
            return self._with_private
        return self.brief.start if self.received is None else self.received

    @cached_property
    def _with_private(self) -> Parameters:
        start = self.brief.start if self.received is None else self.received
        return {**start, **self.memory.private}

    def kind(self) -> Hashable:
        """Tasks with equal kinds, and starts of equal shapes, can be trained as one stack."""
        recipe, own, corrected = self.brief.recipe, self.brief.own, tuple(self.brief.correction)
        inputs = self.examples.shape[1:]
        rows = padded_rows(len(self.examples), recipe.local.batch_size)
        return _shape(recipe), _shapes(own), corrected, inputs, rows, id(self.common)

    def resembles(self, other: Task) -> bool:
        """A quick test whether both are of one kind; if it fails, they may be nevertheless."""
        one, two = self.brief, other.brief
        return (
            self.start is other.start
            and (one.recipe is two.recipe or one.recipe == two.recipe)
            and not (one.own or two.own or one.correction or two.correction)
            and self.common is other.common
            and self.examples.shape == other.examples.shape
        )

    def order(
        self, network: Network, generator: torch.Generator | None = None
    ) -> tuple[list[Tensor], list[int]]:
        """Row indices of all steps, in pieces, and the number of rows of each step.

        The generator (None: a new one) is seeded for this job.
        """
        recipe = self.brief.recipe
        return plan_order(
            self.seed,
            len(self.examples),
            recipe.local,
            recipe.kind,
            network.smallest_batch,
            generator,
        )

    def batches(self, network: Network) -> list[Tensor]:
        """Row indices of each step of this job."""
        order, sizes = self.order(network)
        return list(torch.split(torch.cat(order), sizes))

    def parameter_names(self, network: Network) -> tuple[str, ...]:
        """Names of the model's parameters, and of the tensors trained beside it."""
        return network.parameter_names + tuple(sorted(self.brief.recipe.beside))

    def trainable(self, network: Network) -> list[str]:
        """Names of the parameters that this job changes, in the order of `parameter_names`."""
        wanted, beside = self.brief.recipe.trainable, self.brief.recipe.beside
        of_model = network.trainable_names if wanted is None else network.trainable_names & wanted
        own = [name for name in network.parameter_names if name in of_model]
        return own + sorted(beside) if beside else own

    def pulled(self, network: Network) -> dict[str, tuple[float, str]]:
        """The parameters with a proximal term, by name: mu, and the name of their start."""
        recipe = self.brief.recipe
        found = {}
        if recipe.proximal:
            own = [name for name in self.trainable(network) if name in network.trainable_names]
            found = {name: (recipe.proximal, name) for name in own}
        if recipe.proximal_beside:
            beside = {name: name.partition("/")[2] for name in sorted(recipe.beside)}
            found |= {name: (recipe.proximal_beside, held) for name, held in beside.items()}
        return found

    def trains_all(self, network: Network) -> bool:
        """Whether this job changes every parameter of the model, and nothing else."""
        return tuple(self.trainable(network)) == network.parameter_names

    def masks(self) -> Parameters:
        """For masked parameters, by name: True where the parameter may change."""
        return {
            name.removeprefix(MASK_PREFIX): tensor != 0
            for name, tensor in self.brief.own.items()
            if name.startswith(MASK_PREFIX)
        }

    def measures(self, network: Network) -> dict[str, float]:
        """The figures that the recipe requests, computed at the start weights."""
        if "loss_before" not in self.brief.recipe.measure:
            return {}
        return {"loss_before": mean_loss(network, self.start, self.examples)}

    def kept(self, buffer: str, name: str) -> Tensor:
        """An optimizer buffer of one parameter after the previous job, or zeros."""
        held = self.memory.optimizer.get(f"{buffer}/{name}")
        if held is None or not self.brief.recipe.local.keep_optimizer:
            return torch.zeros_like(self.start[name])
        return held

    @property
    def steps_kept(self) -> int:
        """The number of optimizer steps in the state kept by the client."""
        return self.memory.optimizer_steps if self.brief.recipe.local.keep_optimizer else 0

    def sent(self, network: Network) -> frozenset[str]:
        """Names of the tensors in an update of this recipe."""
        names = frozenset((*self.trainable(network), *network.buffer_names))
        return names - self.brief.recipe.stays

    def trained(
        self,
        network: Network,
        sent: frozenset[str],
        tensors: Parameters,
        optimizer: Parameters,
        steps: int,
        **measures: float,
    ) -> Update:
        """The update of a training job: `tensors` are the model after `steps` steps.

        `sent` is `self.sent(network)`, which a cohort computes once. `optimizer` is the optimizer's
        state afterwards, by "<buffer>/<parameter>".
        """
        recipe = self.brief.recipe
        memory = self.memory
        if recipe.stays:
            kept = {name: tensor for name, tensor in tensors.items() if name in recipe.stays}
            memory = replace(memory, private={**memory.private, **kept})
        if recipe.local.keep_optimizer:
            memory = replace(
                memory,
                optimizer={**self.memory.optimizer, **optimizer},
                optimizer_steps=self.steps_kept + steps,
            )
        payload = tensors
        if not sent.issuperset(tensors):
            payload = {name: tensor for name, tensor in tensors.items() if name in sent}
        if self.uplink is not None or self.received is not None:
            start = self.brief.start
            changes = {
                name: payload[name] - self.start[name]
                for name in network.parameter_names
                if name in payload
            }
            arrived, memory = self._arrived(changes, memory)
            moved = {name: start[name] + change for name, change in arrived.items()}
            payload = {**payload, **moved}
        return self._update(payload, memory, measures, steps)

    def derived(self, gradient: Parameters, **measures: float) -> Update:
        """The update of a gradient job; of the memory only the residual changes."""
        stays = self.brief.recipe.stays
        payload = {name: tensor for name, tensor in gradient.items() if name not in stays}
        payload, memory = self._arrived(payload, self.memory)
        return self._update(payload, memory, measures)

    def _arrived(self, values: Parameters, memory: Memory) -> tuple[Parameters, Memory]:
        """The values that arrive at the server, and the memory with the codec's residual."""
        if self.uplink is None:
            return values, memory
        raw_bytes = self.brief.price.up_bytes
        arrived, residual = uploaded(self.uplink, values, raw_bytes, self.seed, memory.residual)
        return arrived, memory if residual is None else replace(memory, residual=residual)

    def _update(
        self, payload: Parameters, memory: Memory, measures: dict[str, float], steps: int = 0
    ) -> Update:
        return Update(
            client=self.client,
            brief=self.brief,
            payload=payload,
            memory=memory,
            num_examples=len(self.examples),
            version=self.version,
            measures=measures,
            steps=steps,
        )


def alike(tasks: Sequence[Task]) -> list[list[int]]:
    """The places of tasks that can be trained as one stack of tensors, grouped."""
    kinds: dict[Hashable, list[int]] = {}
    before: Task | None = None
    for place, task in enumerate(tasks):
        if before is None or not task.resembles(before):  # most do resemble
            group = kinds.setdefault((_shapes(task.start), task.kind()), [])
        group.append(place)
        before = task
    return list(kinds.values())


def _shapes(tensors: Parameters) -> Hashable:
    return tuple([(name, one.shape, one.dtype) for name, one in tensors.items()])


@lru_cache(maxsize=64)
def _shape(recipe: Recipe) -> Recipe:
    """The recipe without its learning rate and amount of work: jobs of a stack may differ in these.

    The amount says what a gradient job computes: one over batches is another computation.
    """
    local = replace(recipe.local, learning_rate=1.0)
    if recipe.kind != "gradient":
        local = replace(local, epochs=None, steps=None, share=None)
    return replace(recipe, local=local)
