"""VGG-11 for small images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from torch import nn

from simfl.learning.models.base import Model, image_shape, require_features

CHANNELS = (64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool")
"""Configuration A: 3x3 convolutions with ReLU, and 2x2 max pooling."""


@dataclass(frozen=True)
class Vgg11(Model):
    """VGG-11 with linear layers of 512, 512 and `outputs` units, without batch norm and dropout.

    9,750,922 parameters on 3x32x32, as in CoreFed's experiments. Source: Simonyan, Zisserman,
    "Very Deep Convolutional Networks for Large-Scale Image Recognition", 2015, table 1, column A;
    the narrow head is usual on CIFAR-10.
    """

    width: Annotated[
        float, "> 0", "<= 1", "width as a share of VGG-11's channels and hidden units"
    ] = 1.0

    def build(self, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Images of 32x32 or more."""
        depth, height, width = image_shape(input_shape, "vgg11")
        height, width = height // 32, width // 32
        require_features(height, width, "vgg11", input_shape)
        layers: list[nn.Module] = []
        for entry in CHANNELS:
            if isinstance(entry, str):
                layers.append(nn.MaxPool2d(2))
            else:
                channels = self._scaled(entry)
                layers += [_started(nn.Conv2d(depth, channels, 3, padding=1)), nn.ReLU()]
                depth = channels
        hidden = self._scaled(512)
        return nn.Sequential(
            *layers,
            nn.Flatten(),
            _started(nn.Linear(depth * height * width, hidden)),
            nn.ReLU(),
            _started(nn.Linear(hidden, hidden)),
            nn.ReLU(),
            nn.Linear(hidden, outputs),
        )

    def _scaled(self, units: int) -> int:
        return max(1, round(self.width * units))


def _started(layer: nn.Conv2d | nn.Linear) -> nn.Module:
    """`layer` with the initial values of He et al., "Delving Deep into Rectifiers", 2015.

    With torch's default the signal fades over the layers, and training hardly starts.
    """
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
