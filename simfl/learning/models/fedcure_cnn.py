"""The convolutional network of FedCure's MNIST experiments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from simfl.learning.models.base import Model, image_shape, require_features


@dataclass(frozen=True)
class FedCureCnn(Model):
    """Two 5x5 convolutions of 16 and 32 channels with ReLU and 2x2 max pooling, one linear layer.

    28,938 parameters on 1x28x28. Source: FedCure (arXiv 2511.10227): "2 convolution, 2 pooling
    and 1 fully connected layer"; channels and kernels are not stated there.
    """

    name: ClassVar[str] = "fedcure_cnn"

    def build(self, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Images of 4x4 or more."""
        channels, height, width = image_shape(input_shape, self.name)
        height, width = height // 4, width // 4
        require_features(height, width, self.name, input_shape)
        return nn.Sequential(
            nn.Conv2d(channels, 16, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * height * width, outputs),
        )
