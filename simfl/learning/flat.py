"""Agents' losses as functions of one flat parameter vector, for optimisers.

Losses are computed in evaluation mode and with fixed buffers, so that they are plain functions of
the trainable parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from simfl.common.arrays import FloatArray, IntArray
from simfl.learning.datasets.base import Examples
from simfl.learning.evaluate import ROWS_PER_PASS
from simfl.learning.network import Network
from simfl.learning.parameters import Parameters

MOST_FEATURES = 1024
"""The largest number of features to decorrelate: the time grows with its third power."""

AFFINE_ROWS_PER_PASS = 1 << 14
"""More rows than for other models: an affine model stores little more than its inputs for the
backward pass.
"""

DAMPING = 1e-6
"""Added to the variances of inputs, so that directions with hardly any variance are not scaled too
much.
"""


class FlatLosses:
    """The mean losses of agents over their own examples, their gradients and curvatures.

    A flat vector theta (d,) holds the trainable parameters in the network's order; `theta` is
    that of `weights`, whose other tensors are kept. `agents` are the agents' examples.
    """

    def __init__(
        self, network: Network, weights: Mapping[str, Tensor], agents: Sequence[Examples]
    ) -> None:
        self.network = network
        self._names = [n for n in network.parameter_names if n in network.trainable_names]
        self._weights = {name: tensor.detach() for name, tensor in weights.items()}
        self._agents = [one.cast(network.dtype, network.device) for one in agents]
        self.theta = self._flat([self._weights[name] for name in self._names])

    @property
    def num_agents(self) -> int:
        """The number of agents."""
        return len(self._agents)

    @property
    def sizes(self) -> list[int]:
        """The number of examples of each agent."""
        return [len(one) for one in self._agents]

    def parameters(self, theta: FloatArray) -> Parameters:
        """The model whose trainable parameters are `theta`."""
        return {**self._weights, **dict(zip(self._names, self._leaves(theta), strict=True))}

    def per_example(self, theta: FloatArray) -> list[FloatArray]:
        """Per agent the loss of each of its examples, shape (examples,)."""
        parameters = self.parameters(theta)
        with torch.no_grad():
            return [
                np.concatenate(
                    [
                        self._losses(parameters, chunk).double().cpu().numpy()
                        for chunk in _chunks(one)
                    ]
                )
                for one in self._agents
            ]

    def losses(self, theta: FloatArray) -> FloatArray:
        """Each agent's mean loss, shape (agents,)."""
        return np.array([losses.mean() for losses in self.per_example(theta)])

    def with_gradients(
        self, theta: FloatArray, counts: Sequence[IntArray] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """The agents' mean losses (agents,) and their gradients (agents, d).

        With `counts`, an array (examples,) per agent, each example counts that many times.
        """
        losses, gradients = [], []
        for agent, examples in enumerate(self._agents):
            count = np.ones(len(examples)) if counts is None else counts[agent]
            loss, gradient = self._with_gradient(theta, examples, count / count.sum())
            losses.append(loss)
            gradients.append(gradient)
        return np.array(losses), np.stack(gradients)

    def weighted(self, theta: FloatArray, shares: FloatArray) -> tuple[float, FloatArray]:
        """sum_i shares_i L_i(theta), for `shares` (agents,), and its gradient (d,).

        A single pass over the rows of all agents, for optimisers that call it often.
        """
        of_rows = np.repeat(shares / np.array(self.sizes), self.sizes)
        return self._with_gradient(theta, self._joined, of_rows)

    def resampled(self, rows: Sequence[IntArray]) -> FlatLosses:
        """The losses over these rows (examples,) of each agent's examples, in place of them."""
        drawn = [one.take(own) for one, own in zip(self._agents, rows, strict=True)]
        return FlatLosses(self.network, self._weights, drawn)

    def curvature(
        self, theta: FloatArray, agent: int, direction: FloatArray, iterations: int = 20
    ) -> float:
        """|largest eigenvalue| of the Hessian of one agent's mean loss, by power iteration.

        Starts at `direction` (d,); every iteration is a Hessian-vector product.
        """
        size = 0.0
        for _ in range(iterations):
            norm = float(np.linalg.norm(direction))
            if norm == 0.0:  # no curvature in this direction: further products are zero, too
                return 0.0
            direction = self._hessian_product(theta, self._agents[agent], direction / norm)
            size = float(np.linalg.norm(direction))
        return size

    def conditioner(self, shares: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """A symmetric linear map A: optimisers converge fast in z, with theta = A z.

        For an affine model it decorrelates the agents' inputs, weighted by `shares` (agents,), so
        that the curvature of their mean loss depends on the objective only. For other models, and
        for more than MOST_FEATURES features, it is the identity.
        """
        if self._moments is None:
            return lambda flat: flat
        moments = np.tensordot(shares / shares.sum(), self._moments, 1)
        values, vectors = np.linalg.eigh(moments)
        root = (vectors / np.sqrt(np.maximum(values, 0.0) + DAMPING)) @ vectors.T
        features = len(root) - 1

        def condition(flat: FloatArray) -> FloatArray:
            outputs = flat.size // (features + 1)
            weight, bias = np.split(flat, [outputs * features])
            both = np.column_stack([weight.reshape(outputs, features), bias]) @ root
            mapped: FloatArray = np.concatenate([both[:, :-1].ravel(), both[:, -1]])
            return mapped

        return condition

    @cached_property
    def _moments(self) -> FloatArray | None:
        """Each agent's mean of x x^T, for inputs x extended by a 1; None if not applicable."""
        shapes = [self._weights[name].shape for name in self._names]
        # an affine network's parameters are one weight (outputs, features) and one bias (outputs,)
        if not self.network.affine or [len(shape) for shape in shapes] != [2, 1]:
            return None
        if shapes[0][1] > MOST_FEATURES:
            return None
        moments = []
        for one in self._agents:
            inputs = one.inputs.flatten(1).double().cpu()
            rows = torch.cat([inputs, inputs.new_ones(len(inputs), 1)], dim=1).numpy()
            moments.append(rows.T @ rows / len(rows))
        return np.stack(moments)

    @cached_property
    def _joined(self) -> Examples:
        """All agents' examples, one agent after another."""
        columns = zip(*((one.inputs, one.targets) for one in self._agents), strict=True)
        return Examples(*(torch.cat(column) for column in columns))

    def _losses(self, parameters: Parameters, examples: Examples) -> Tensor:
        outputs = self.network.call(parameters, examples.inputs, training=False)[0]
        return self.network.objective.per_example(outputs, examples.targets)

    def _with_gradient(
        self, theta: FloatArray, examples: Examples, shares: FloatArray
    ) -> tuple[float, FloatArray]:
        value, total = 0.0, np.zeros_like(self.theta)
        weight = torch.as_tensor(shares).to(examples.inputs)
        rows = AFFINE_ROWS_PER_PASS if self.network.affine else ROWS_PER_PASS
        for chunk, part in zip(_chunks(examples, rows), torch.split(weight, rows), strict=True):
            leaves = [leaf.requires_grad_() for leaf in self._leaves(theta)]
            model = {**self._weights, **dict(zip(self._names, leaves, strict=True))}
            loss = (self._losses(model, chunk) * part).sum()
            total += self._flat(torch.autograd.grad(loss, leaves))
            value += float(loss.detach())
        return value, total

    def _hessian_product(
        self, theta: FloatArray, examples: Examples, direction: FloatArray
    ) -> FloatArray:
        total = np.zeros_like(self.theta)
        along = self._leaves(direction)
        for chunk in _chunks(examples):
            leaves = [leaf.requires_grad_() for leaf in self._leaves(theta)]
            model = {**self._weights, **dict(zip(self._names, leaves, strict=True))}
            loss = self._losses(model, chunk).sum() / len(examples)
            slopes = torch.autograd.grad(loss, leaves, create_graph=True)
            slope = torch.stack([(s * v).sum() for s, v in zip(slopes, along, strict=True)]).sum()
            total += self._flat(
                torch.autograd.grad(slope, leaves, allow_unused=True, materialize_grads=True)
            )
        return total

    def _leaves(self, theta: FloatArray) -> list[Tensor]:
        shapes = [self._weights[name].shape for name in self._names]
        ends = np.cumsum([shape.numel() for shape in shapes])[:-1]
        like = self._weights[self._names[0]]
        return [
            torch.as_tensor(piece).to(like, copy=True).view(shape)
            for piece, shape in zip(np.split(theta, ends), shapes, strict=True)
        ]

    def _flat(self, tensors: Sequence[Tensor]) -> FloatArray:
        flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
        values: FloatArray = flat.double().cpu().numpy()
        return values


def _chunks(examples: Examples, rows: int = ROWS_PER_PASS) -> Iterator[Examples]:
    pieces = zip(
        torch.split(examples.inputs, rows),
        torch.split(examples.targets, rows),
        strict=True,
    )
    return (Examples(*piece) for piece in pieces)
