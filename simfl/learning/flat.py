"""Agents' losses as functions of one flat vector of parameters, for optimisers that know no tensor.

Losses are taken in evaluation mode and buffers stay as they are, so that a loss is a plain function
of the trainable parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simfl.learning.datasets.base import Examples
from simfl.learning.evaluate import ROWS_PER_PASS
from simfl.learning.network import Network
from simfl.learning.parameters import Parameters

FloatArray = NDArray[np.float64]


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
        """How many agents there are."""
        return len(self._agents)

    @property
    def sizes(self) -> list[int]:
        """Each agent's number of examples."""
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
        self, theta: FloatArray, counts: Sequence[NDArray[np.int64]] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """The agents' mean losses (agents,) and their gradients (agents, d).

        With `counts`, (examples,) per agent, each example counts that often.
        """
        losses, gradients = [], []
        for agent, examples in enumerate(self._agents):
            count = np.ones(len(examples)) if counts is None else counts[agent]
            weight = torch.as_tensor(count / count.sum()).to(examples.inputs)
            loss, gradient = self._with_gradient(theta, examples, weight)
            losses.append(loss)
            gradients.append(gradient)
        return np.array(losses), np.stack(gradients)

    def curvature(
        self, theta: FloatArray, agent: int, direction: FloatArray, iterations: int = 20
    ) -> float:
        """|largest eigenvalue| of the Hessian of one agent's mean loss, by power iteration.

        It starts at `direction` (d,); every iteration is a Hessian-vector product.
        """
        size = 0.0
        for _ in range(iterations):
            norm = float(np.linalg.norm(direction))
            if norm == 0.0:  # a direction without curvature: the Hessian sees no more of it
                return 0.0
            direction = self._hessian_product(theta, self._agents[agent], direction / norm)
            size = float(np.linalg.norm(direction))
        return size

    def _losses(self, parameters: Parameters, examples: Examples) -> Tensor:
        outputs = self.network.call(parameters, examples.inputs, training=False)[0]
        return self.network.objective.per_example(outputs, examples.targets)

    def _with_gradient(
        self, theta: FloatArray, examples: Examples, weight: Tensor
    ) -> tuple[float, FloatArray]:
        value, total = 0.0, np.zeros_like(self.theta)
        for chunk, part in zip(_chunks(examples), torch.split(weight, ROWS_PER_PASS), strict=True):
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


def _chunks(examples: Examples) -> Iterator[Examples]:
    pieces = zip(
        torch.split(examples.inputs, ROWS_PER_PASS),
        torch.split(examples.targets, ROWS_PER_PASS),
        strict=True,
    )
    return (Examples(*piece) for piece in pieces)
