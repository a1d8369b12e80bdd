"""The network and the data: scikit-learn's handwritten digits, nothing to download."""

from __future__ import annotations

from functools import cache

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

TEST_SHARE = 5
"""Every fifth example is a test example."""


def network() -> nn.Module:
    """64 pixels, 10 digits."""
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


@cache
def digits() -> tuple[Tensor, Tensor]:
    """All images, and what they show."""
    images, labels = load_digits(return_X_y=True)
    return torch.tensor(images / 16.0, dtype=torch.float32), torch.tensor(labels)


def partition(number: int, count: int) -> tuple[Tensor, Tensor]:
    """The training examples of one of `count` clients."""
    images, labels = digits()
    train = torch.arange(len(labels)) % TEST_SHARE != 0
    return images[train][number::count], labels[train][number::count]


def test(model: nn.Module) -> tuple[float, float]:
    """Loss and accuracy on the test examples."""
    images, labels = (one[::TEST_SHARE] for one in digits())
    with torch.no_grad():
        made = model(images)
    loss = nn.functional.cross_entropy(made, labels).item()
    return loss, (made.argmax(1) == labels).float().mean().item()
