"""LeNet with ReLU and max pooling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from simfl.learning.models.base import Model, image_shape, require_features


@dataclass(frozen=True)
class LeNet(Model):
    """Two unpadded 5x5 convolutions of 6 and 16 channels with ReLU and 2x2 max pooling, then
    linear layers of 120, 84 and `outputs` units.

    62,006 parameters on 3x32x32 (FedCure's network for CIFAR-10), 44,426 on 1x28x28 (SimpleCNN of
    Li et al., "Federated Learning on Non-IID Data Silos", 2021, as in CoreFed). Source of the
    shape: LeCun et al., "Gradient-Based Learning Applied to Document Recognition", 1998.
    """

    name: ClassVar[str] = "lenet"

    def build(self, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Images of 16x16 or more."""
        channels, height, width = image_shape(input_shape, self.name)
        height, width = (((length - 4) // 2 - 4) // 2 for length in (height, width))
        require_features(height, width, self.name, input_shape)
        return nn.Sequential(
            nn.Conv2d(channels, 6, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16 * height * width, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, outputs),
        )
