"""Adam at a server: one step along a given gradient."""

from __future__ import annotations

import torch

from simfl.learning.optimizer import ADAM_BETAS, ADAM_EPSILON
from simfl.learning.parameters import Parameters

Moments = tuple[Parameters, Parameters, int]
"""Running means of the gradient and of its square, and the number of steps taken."""

NO_MOMENTS: Moments = ({}, {}, 0)


def adam_step(
    weights: Parameters, gradient: Parameters, moments: Moments, learning_rate: float
) -> tuple[Parameters, Moments]:
    """The tensors that `gradient` names after one step, and the moments after it.

    Kingma, Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, Algorithm 1, with the
    defaults and the place of epsilon of torch.optim.Adam.
    """
    first, second = ADAM_BETAS
    means, squares, before = moments
    steps = before + 1
    stepped, mean, square = {}, {}, {}
    for name, slope in gradient.items():
        zero = torch.zeros_like(slope)
        mean[name] = first * means.get(name, zero) + (1 - first) * slope
        square[name] = second * squares.get(name, zero) + (1 - second) * slope * slope
        root = (square[name] / (1 - second**steps)).sqrt() + ADAM_EPSILON
        stepped[name] = weights[name] - learning_rate * mean[name] / (1 - first**steps) / root
    return stepped, (mean, square, steps)
