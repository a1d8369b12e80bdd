"""Trains jobs as one stack of tensors with a leading job axis.

Jobs are sorted by decreasing number of steps: the jobs that still train are the first `live` ones,
and only their part of every tensor is used. Every operation is either elementwise with one rounding
(a fused multiply-add or a scalar tail could differ between positions in the stack), or a reduction
over one job's own axes, or a product of `stacked_product.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property, partial

import torch
from torch import Tensor

from simfl.learning.job import Update
from simfl.learning.kernels.dense import DenseChain, OutputSlopes
from simfl.learning.kernels.dense_steps import Descent, Gradients
from simfl.learning.kernels.stacked_batches import StackedBatches
from simfl.learning.kernels.stacked_product import aligned
from simfl.learning.network import Network
from simfl.learning.optimizer import StackedOptimizer
from simfl.learning.parameters import Parameters, per_job_view, stack, unstack


class Finished:
    """Keeps the results of finished jobs while the whole stack is computed until the last one ends.

    `training` is the number of jobs that still train, by step.
    """

    def __init__(self, training: Sequence[int], live: Sequence[int]) -> None:
        self._training = training
        self._whole = list(training) != list(live)
        self._kept: list[tuple[slice, list[Parameters]]] = []

    def before(self, step: int, *held: Parameters) -> None:
        """Saves the tensors of jobs whose last step was the one before this."""
        were, now = self._training[max(step - 1, 0)], self._training[step]
        if self._whole and now < were:
            done = slice(now, were)
            kept = [{name: one[done].clone() for name, one in each.items()} for each in held]
            self._kept.append((done, kept))

    def put_back(self, *held: Parameters) -> None:
        """Restores those jobs' values in the same tensors, given in the same order."""
        for done, kept in self._kept:
            for each, own in zip(held, kept, strict=True):
                for name, tensor in own.items():
                    each[name][done] = tensor


class Cohort(ABC):
    """The stacked tensors of jobs during their training. Subclasses compute gradients."""

    def __init__(self, network: Network, data: StackedBatches) -> None:
        self.network = network
        self.data = data
        self.tasks = tasks = data.tasks
        self.recipe = tasks[0].brief.recipe
        self.trainable = tasks[0].trainable(network)
        self.masks = stack([task.masks() for task in tasks]) if tasks[0].brief.own else {}
        starts = [task.start for task in tasks]
        self.correction = stack([task.brief.correction for task in tasks])
        self.pulled = tasks[0].pulled(network)
        self.parameters = stack(starts, tasks[0].parameter_names(network))
        self.buffers = stack(starts, network.buffer_names)
        self.finished = Finished(data.training, data.live)

    @cached_property
    def start(self) -> Parameters:
        """The jobs' start tensors, stacked; a view of a single one if all are the same."""
        return stack([task.start for task in self.tasks], share=True)

    @abstractmethod
    def gradients(self, step: int) -> Parameters:
        """The live jobs' gradients at this step, by name; parameters without one are left out."""

    def updates(self, *, share: bool = False, after: int = 0) -> list[Update]:
        """Compute all jobs; one update per task, with `share` made of views into the stack.

        The first `after` jobs only fill the stack, and are left out.
        """
        tasks = self.tasks[after:]
        measures = [task.measures(self.network) for task in tasks]
        if self.recipe.kind == "gradient":
            rows = unstack(_from(self._mean_gradient(), after), share=share)
            return [
                task.derived(gradient, **figures)
                for task, gradient, figures in zip(tasks, rows, measures, strict=True)
            ]
        optimizer = unstack(_from(self.train(), after), share=share) or [{} for _ in tasks]
        trained = _from({**self.parameters, **self.buffers}, after)
        rows = unstack(trained, share=share, stays=self.recipe.stays)
        sent = self.tasks[0].sent(self.network)
        return [
            task.trained(self.network, sent, tensors, held, steps, **figures)
            for task, tensors, held, steps, figures in zip(
                tasks, rows, optimizer, self.data.steps[after:], measures, strict=True
            )
        ]

    def train(self) -> Parameters:
        """Take all steps; returns the optimizer's state afterwards."""
        optimizer = StackedOptimizer(self.tasks, self.parameters, self.trainable)
        stacks = self.parameters, self.buffers, optimizer.buffers
        for step, live in enumerate(self.data.live):
            self.finished.before(step, *stacks)
            gradients = self._corrected(self.gradients(step), live)
            optimizer.step(step, live, self._masked(gradients), self.masks)
        self.finished.put_back(*stacks)
        return optimizer.buffers

    @property
    def descends(self) -> bool:
        """Whether a step is just the learning rate times the gradient."""
        local = self.recipe.local
        return local.optimizer == "sgd" and not (local.momentum or local.weight_decay or self.masks)

    @property
    def rates(self) -> list[float]:
        """The jobs' learning rates."""
        return [task.brief.recipe.local.learning_rate for task in self.tasks]

    def pull(self) -> tuple[Parameters, Parameters]:
        """How a step changes a parameter w apart from its gradient: kept * w + shift, by name.

        w - rate (mu (w - start) + correction) = (1 - rate mu) w + rate (mu start - correction).
        """
        kept: Parameters = {}
        shift: Parameters = {}
        if not (self.pulled or self.correction):
            return kept, shift
        rates = self.data.valid.new_tensor(self.rates)
        for name, (mu, held) in self.pulled.items():
            own = per_job_view(rates, self.start[held])
            kept[name] = 1 - own * mu
            shift[name] = own * mu * self.start[held]
        for name, correction in self.correction.items():
            less = per_job_view(rates, correction) * correction
            shift[name] = shift[name].sub_(less) if name in shift else less.neg_()
        return kept, shift

    def _mean_gradient(self) -> Parameters:
        total = {name: torch.zeros_like(self.parameters[name]) for name in self.trainable}
        # Reused at every step: allocating memory of this size costs more than the arithmetic.
        shares = {name: torch.empty_like(one) for name, one in total.items()}
        rows = self.data.valid.sum(2)
        for step, live in enumerate(self.data.live):
            self.finished.before(step, total)
            for name, gradient in self._masked(self.gradients(step)).items():
                count = per_job_view(rows[step, :live], gradient)
                total[name][:live] += torch.mul(gradient, count, out=shares[name][:live])
        self.finished.put_back(total)
        taken = rows.sum(0)
        return {name: gradient / per_job_view(taken, gradient) for name, gradient in total.items()}

    def _corrected(self, gradients: Parameters, live: int) -> Parameters:
        """The gradients with the corrections and proximal terms of briefs and recipe."""
        for name, correction in self.correction.items():
            gradient = gradients.get(name)
            own = correction[:live]
            gradients[name] = own if gradient is None else gradient + own
        for name, (mu, held) in self.pulled.items():
            gradient = gradients.get(name)
            moved = self.parameters[name][:live].detach() - self.start[held][:live]
            pull = moved.mul_(mu)
            gradients[name] = pull if gradient is None else pull.add_(gradient)
        return gradients

    def _masked(self, gradients: Parameters) -> Parameters:
        for name in self.masks.keys() & gradients.keys():
            gradient = gradients[name]
            gradients[name] = torch.where(self.masks[name][: len(gradient)], gradient, 0.0)
        return gradients


class DenseCohort(Cohort):
    """A multi-layer perceptron under the plain loss, with hand-written gradients."""

    def __init__(self, network: Network, data: StackedBatches, chain: DenseChain) -> None:
        super().__init__(network, data)
        self.chain = chain
        self._live = 0
        for layer in chain.layers:
            self.parameters[layer.weight] = aligned(self.parameters[layer.weight])

    def gradients(self, step: int) -> Parameters:
        """The gradients of the mean loss over each job's valid rows."""
        live = self.data.live[step]
        if live != self._live:
            own = first_jobs(self.parameters, live)
            self._live, self._steps = live, Gradients(self.chain, own, self.data.rows)
        self._steps.step(self.data.inputs(step), partial(self._slopes.at, step))
        return {name: self._steps.found[name] for name in self.trainable}

    def train(self) -> Parameters:
        """Takes all steps; plain SGD is applied within the products."""
        if not self.descends:
            return super().train()
        slopes = self._weighted(self.data.weights(self.rates))
        kept, shift = self.pull()
        live = 0
        for step, now in enumerate(self.data.live):
            self.finished.before(step, self.parameters)
            if now != live:
                live, own = now, first_jobs(self.parameters, now)
                held, moved = first_jobs(kept, now), first_jobs(shift, now)
                descent = Descent(self.chain, own, self.data.rows, held, moved)
            descent.step(self.data.inputs(step), partial(slopes.at, step))
        self.finished.put_back(self.parameters)
        return {}

    @cached_property
    def _slopes(self) -> OutputSlopes:
        return self._weighted(self.data.weights())

    def _weighted(self, weights: Tensor) -> OutputSlopes:
        return OutputSlopes(self.network.objective, self.data.targets, weights)


def _from(tensors: Parameters, job: int) -> Parameters:
    """Views of stacked tensors from this job on."""
    return {name: tensor[job:] for name, tensor in tensors.items()} if job else tensors


def first_jobs(tensors: Parameters, live: int) -> Parameters:
    """Views of the first `live` jobs' part of stacked tensors."""
    return {name: tensor[:live] for name, tensor in tensors.items()}
