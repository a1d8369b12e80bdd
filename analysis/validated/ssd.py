"""SSD with a MobileNet v1, as github.com/qfgaohao/pytorch-ssd has it: what Jetsons were timed with.

Only its shape counts here: what work a training step is.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

BOXES = 6
"""Per place of each of the six maps, with four coordinates and a score per class."""


def ssd_mobilenet_v1(classes: int) -> nn.Module:
    """The network with so many classes, background among them; its inputs are 300x300."""
    return _Ssd(classes)


class _Ssd(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        first = [_convolution(3, 32, 3, 2), *_separable(32, 64, 1), *_separable(64, 128, 2)]
        for before, width in ((128, 256), (256, 512)):
            first += [*_separable(before, before, 1), *_separable(before, width, 2)]
        for _ in range(5):
            first += _separable(512, 512, 1)
        second = [*_separable(512, 1024, 2), *_separable(1024, 1024, 1)]
        extras = [_extra(1024, 256, 512), _extra(512, 128, 256)]
        extras += [_extra(256, 128, 256), _extra(256, 128, 256)]
        parts = [nn.Sequential(*first), nn.Sequential(*second), *extras]
        self.parts = nn.ModuleList(parts)
        widths = (512, 1024, 512, 256, 256, 256)
        self.heads = nn.ModuleList(
            nn.Conv2d(width, BOXES * values, 3, padding=1)
            for width in widths
            for values in (4, classes)
        )

    def forward(self, images: Tensor) -> Tensor:
        """(rows, 3, 300, 300) to all boxes' coordinates and scores."""
        found = []
        for place, part in enumerate(self.parts):
            images = part(images)
            found += [head(images).flatten(1) for head in self.heads[2 * place : 2 * place + 2]]
        return torch.cat(found, dim=1)


def _convolution(before: int, width: int, kernel: int, stride: int, groups: int = 1) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(before, width, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
    )


def _separable(before: int, width: int, stride: int) -> list[nn.Module]:
    """A depthwise convolution and one of 1x1."""
    return [_convolution(before, before, 3, stride, before), _convolution(before, width, 1, 1)]


def _extra(before: int, middle: int, width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(before, middle, 1),
        nn.ReLU(),
        nn.Conv2d(middle, width, 3, 2, 1),
        nn.ReLU(),
    )
