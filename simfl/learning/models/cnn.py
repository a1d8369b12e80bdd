"""A small convolutional network for images of any size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from torch import nn

from simfl.learning.models.base import Model, image_shape, require_features


@dataclass(frozen=True)
class Cnn(Model):
    """Convolutions (same size, ReLU, 2x2 max pooling), then fully connected layers."""

    channels: Annotated[tuple[int, ...], "output channels of the convolutions, one per layer"] = (
        8,
        16,
    )
    kernel: Annotated[int, ">= 1", "odd width of the square convolution kernels"] = 3
    hidden: Annotated[tuple[int, ...], "units of the hidden layers after the convolutions"] = ()

    def __post_init__(self) -> None:
        if not self.channels or any(count < 1 for count in self.channels):
            raise ValueError(
                f"channels: found {list(self.channels)}, accepted: one or more positive numbers"
            )
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel: found {self.kernel}, accepted: an odd number")
        if any(units < 1 for units in self.hidden):
            raise ValueError(f"hidden: found {list(self.hidden)}, accepted: positive layer sizes")

    def build(self, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Raises ValueError if the input is not an image or too small for the pooling."""
        depth, height, width = image_shape(input_shape, "cnn")
        layers: list[nn.Module] = []
        for count in self.channels:
            layers += [
                nn.Conv2d(depth, count, self.kernel, padding=self.kernel // 2),
                nn.ReLU(),
                nn.MaxPool2d(2),
            ]
            depth, height, width = count, height // 2, width // 2
        require_features(height, width, "cnn", input_shape)
        layers.append(nn.Flatten())
        features = depth * height * width
        for units in self.hidden:
            layers += [nn.Linear(features, units), nn.ReLU()]
            features = units
        return nn.Sequential(*layers, nn.Linear(features, outputs))
