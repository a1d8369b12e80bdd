"""The multi-layer perceptron."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from torch import nn

from simfl.learning.models.base import Model

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "elu": nn.ELU, "tanh": nn.Tanh}


@dataclass(frozen=True)
class Mlp(Model):
    """Fully connected layers with an activation after each hidden one.

    The default is the 200-200 network of McMahan et al., "Communication-Efficient Learning of
    Deep Networks from Decentralized Data", AISTATS 2017: 199,210 parameters on 28x28 images.
    """

    hidden: Annotated[tuple[int, ...], "units of the hidden layers"] = (200, 200)
    activation: Literal["relu", "elu", "tanh"] = "relu"
    batch_norm: Annotated[bool, "BatchNorm between a hidden layer and its activation"] = False
    initialisation: Annotated[
        Literal["torch", "glorot"],
        "initial weights: torch's own, or Glorot's uniform ones with zero biases",
    ] = "torch"

    def __post_init__(self) -> None:
        if any(units < 1 for units in self.hidden):
            raise ValueError(f"hidden: found {list(self.hidden)}, accepted: positive layer sizes")

    def build(self, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Flattens the input, then applies the layers."""
        layers: list[nn.Module] = [nn.Flatten()]
        width = math.prod(input_shape)
        for units in self.hidden:
            normalised = [nn.BatchNorm1d(units)] if self.batch_norm else []
            layers += [self._linear(width, units), *normalised, ACTIVATIONS[self.activation]()]
            width = units
        return nn.Sequential(*layers, self._linear(width, outputs))

    def _linear(self, inputs: int, outputs: int) -> nn.Linear:
        layer = nn.Linear(inputs, outputs)
        if self.initialisation == "glorot":
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        return layer
