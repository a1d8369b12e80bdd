"""Trains jobs as one stack under any loss, with autograd.

The passes of a multi-layer perceptron are written by hand nevertheless (`kernels/dense_pass.py`),
and plain SGD is applied within the products that give their weights' gradients.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from simfl.learning.cohort import Cohort, first_jobs
from simfl.learning.kernels.dense import OutputSlopes
from simfl.learning.kernels.dense_pass import Factors, Rows, dense_pass
from simfl.learning.kernels.dense_steps import descended
from simfl.learning.kernels.row_cache import RowCache
from simfl.learning.kernels.stacked import StackedForward
from simfl.learning.kernels.stacked_batches import StackedBatches
from simfl.learning.kernels.stacked_product import aligned, subtract_product
from simfl.learning.kernels.streams import Streams
from simfl.learning.minibatch import MATRICES, Minibatch
from simfl.learning.network import Network
from simfl.learning.parameters import Parameters, stack
from simfl.learning.sequential import brings_buffers, one_loss_per_job
from simfl.learning.trainer import Loss


class AutogradCohort(Cohort):
    """Any model with a batched form, any loss."""

    def __init__(
        self,
        network: Network,
        data: StackedBatches,
        stacked: StackedForward,
        loss: Loss,
    ) -> None:
        super().__init__(network, data)
        self.stacked = stacked
        self.loss = loss
        self.own = stack([task.brief.own for task in self.tasks])
        self._steps = torch.tensor(data.steps, device=network.device)
        self._live = 0
        self._leaves: Parameters = {}
        self._start: Parameters = {}
        self._own: Parameters = {}
        self._factors = Factors({})
        self._row_cache: RowCache | None = None
        if stacked.dense is not None:
            for name in self.trainable:
                if self.parameters[name].dim() == MATRICES:
                    self.parameters[name] = aligned(self.parameters[name])
            if data.own_rows is not None:
                held = (*self.parameters.values(), *self.start.values(), *self.own.values())
                self._row_cache = RowCache(held, data.own_rows)

    def gradients(self, step: int) -> Parameters:
        """The gradients of the algorithm's loss; also updates running statistics."""
        return self._gradients(step, None)

    def train(self) -> Parameters:
        """Takes all steps.

        Plain SGD is applied within the products of a perceptron's gradients, which its passes
        leave as factors."""
        if not self.descends or self.stacked.dense is None:
            return super().train()
        rates = self.data.valid.new_tensor(self.rates)
        kept, shift = self.pull()
        for step, live in enumerate(self.data.live):
            self.finished.before(step, self.parameters)
            gradients = self._gradients(step, rates[:live])
            with torch.no_grad():
                parameters = first_jobs(self.parameters, live)
                for name in kept:
                    parameters[name].mul_(kept[name][:live])
                for name, slope, inputs in self._factors.found:
                    subtract_product(parameters[name], slope.transpose(1, 2), inputs)
                for name, gradient in gradients.items():
                    parameters[name].sub_(gradient)
                for name in shift:
                    parameters[name].add_(shift[name][:live])
        self.finished.put_back(self.parameters)
        return {}

    def _gradients(self, step: int, rates: Tensor | None) -> Parameters:
        """The gradients by name.

        With `rates`, those of `rates` times the loss, without the parts left in factors."""
        live = self.data.live[step]
        self._reach(live)
        passes = _Passes(self, step)
        batch = Minibatch(
            inputs=passes.inputs,
            targets=self.data.targets[step, :live],
            valid=passes.valid,
            forward=passes.forward,
            each=passes.each,
            features=passes.features,
            objective=self.network.objective,
            start=dict(self._start),
            own=dict(self._own),
            common=self.tasks[0].common,
            step=step,
            steps=self._steps[:live],
            descend=None if self.stacked.dense is None else passes.descend,
        )
        losses = one_loss_per_job(self.loss(dict(self._leaves), batch), live)
        leaves = [self._leaves[name] for name in self.trainable]
        total = (losses if rates is None else rates * losses).sum()
        with nullcontext() if rates is None else self._factors.kept():
            found: Sequence[Tensor | None] = torch.autograd.grad(total, leaves, allow_unused=True)
        for name, tensor in passes.moving.items():
            self.buffers[name][:live] = tensor
        gradients = zip(self.trainable, found, strict=True)
        return {name: gradient for name, gradient in gradients if gradient is not None}

    def passes_of(self, step: int) -> tuple[Factors, Rows | None]:
        """Where the passes of this step put factors, and the rows that these belong to."""
        self._factors.found.clear()
        if self._row_cache is None:
            return self._factors, None
        valid = self.data.valid[step, : self.data.live[step]]
        return self._factors, Rows(self._row_cache, self.data.places(step), valid)

    def _reach(self, live: int) -> None:
        """Views of the live jobs' tensors for the loss; they change only when a job ends."""
        if live == self._live:
            return
        self._live = live
        self._leaves = {
            name: tensor[:live].requires_grad_(name in self.trainable)
            for name, tensor in self.parameters.items()
        }
        self._factors = Factors({name: self._leaves[name] for name in self.trainable})
        self._start, self._own = first_jobs(self.start, live), first_jobs(self.own, live)


class _Passes:
    """What a loss may call in one step. Updated running statistics are in `moving`."""

    def __init__(self, cohort: AutogradCohort, step: int) -> None:
        self._network, self._stacked = cohort.network, cohort.stacked
        self._dense = cohort.stacked.dense
        self._targets = cohort.data.targets[step]
        self._live = live = cohort.data.live[step]
        self.inputs = cohort.data.inputs(step)
        self.valid = cohort.data.valid[step, :live]
        self.moving = first_jobs(cohort.buffers, live)
        self._streams: Streams | None = cohort.data.streams(step)
        self._factors, self._rows = cohort.passes_of(step)

    def forward(self, parameters: Parameters, rows: Tensor) -> Tensor:
        """See `sequential.py`. With more models than jobs, row i belongs to job i // share."""
        if self._dense is not None:
            return self._by_hand(parameters, rows)[0]
        return self._by_modules(parameters, rows)

    def each(self, models: Iterable[Parameters], rows: Tensor) -> Iterator[Tensor]:
        """Outputs of several models; see `Minibatch`."""
        if self._streams is None and not self._network.buffer_names and len(rows) == self._live:
            return self._stacked.each(models, rows, self.valid)
        return (self.forward(parameters, rows) for parameters in models)

    def features(
        self, parameters: Parameters, inputs: Tensor, layer: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """See `Features`."""
        name = self._network.feature_layer(layer)
        place = 0 if self._dense is None else self._dense.place(name)
        if place:
            return self._by_hand(parameters, inputs, place)
        with self._stacked.listening(name) as heard:
            outputs = self._by_modules(parameters, inputs)
        return outputs, heard[0] if len(heard) == 1 else torch.stack(heard, 1).flatten(0, 1)

    def descend(self, model: Parameters, steps: int, rate: float, pull: float) -> Parameters:
        """See `Descend`; for perceptrons."""
        assert self._dense is not None
        weights = self.valid / self.valid.sum(1, keepdim=True).clamp(min=1)
        targets = self._targets[: self._live]
        slopes = OutputSlopes(self._network.objective, targets[None], rate * weights[None])
        return descended(self._dense, model, self.inputs, slopes, steps, rate * pull)

    def _by_hand(
        self, parameters: Parameters, rows: Tensor, heard: int = 0
    ) -> tuple[Tensor, Tensor]:
        assert self._dense is not None
        return dense_pass(
            self._dense,
            parameters,
            rows,
            factors=self._factors,
            rows=self._rows if rows is self.inputs else None,
            heard=heard,
        )

    def _by_modules(self, parameters: Parameters, rows: Tensor) -> Tensor:
        share = len(rows) // self._live
        if share > 1 and self._streams is not None:  # the models of a job draw one after the other
            parts = [
                self._passed({n: t[one::share] for n, t in parameters.items()}, rows[one::share])[0]
                for one in range(share)
            ]
            return torch.stack(parts, 1).flatten(0, 1)
        outputs, moved = self._passed(parameters, rows)
        if moved and share == 1 and not brings_buffers(self._network, parameters):
            self.moving = {**self.moving, **moved}
        return outputs

    def _passed(self, parameters: Parameters, rows: Tensor) -> tuple[Tensor, Parameters]:
        share = len(rows) // self._live
        if share == 1:
            return self._stacked({**self.moving, **parameters}, rows, self.valid, self._streams)
        buffers = {n: t.repeat_interleave(share, 0) for n, t in self.moving.items()}
        valid = self.valid.repeat_interleave(share, 0)
        return self._stacked({**buffers, **parameters}, rows, valid)
