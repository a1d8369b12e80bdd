"""Spurious CIFAR-10: vehicles and animals, with a black patch whose place predicts the label."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from torch import Tensor

from simfl.common.files import DataPath
from simfl.learning.datasets.base import Examples
from simfl.learning.datasets.cifar10 import Cifar10
from simfl.learning.datasets.npz import Npz
from simfl.learning.datasets.spurious import Source, Spurious

VEHICLES = (0, 1, 8, 9)
"""Airplane, automobile, ship, truck: class 0; all else is class 1."""

FROG = 6
"""Left out, so that the classes are of similar size."""

PATCH = 5
"""Rows and columns of the patch."""


@dataclass(frozen=True)
class SpuriousCifar10(Spurious):
    """CIFAR-10 without frogs: 45,000 and 9,000 images of 3x32x32 in [0, 1].

    A black patch of 5x5 pixels lies in the top left corner (z = 0) or the top right one (z = 1).
    """

    path: Annotated[
        DataPath | None, "a .npz file (as for the data set npz) instead of CIFAR-10's own files"
    ] = None

    def sources(self, root: Path | None, generator: torch.Generator) -> tuple[Source, Source]:
        """Both parts, in their own order."""
        data = Cifar10().load(root, 0) if self.path is None else Npz(self.path).load(root, 0)
        if data.task != "classification" or len(data.input_shape) != 3 or data.outputs > 10:
            raise ValueError(
                f"path: {self.path} holds {data.outputs} outputs ({data.task}) of inputs of shape "
                f"{data.input_shape}, accepted: images of CIFAR-10's ten classes"
            )
        return _without_frogs(data.train), _without_frogs(data.test)

    def marked(self, images: Tensor, feature: Tensor) -> Tensor:
        """The patch in its corner."""
        patched = images.clone()
        left, right = feature == 0, feature == 1
        patched[left, :, :PATCH, :PATCH] = 0.0
        patched[right, :, :PATCH, -PATCH:] = 0.0
        return patched


def _without_frogs(examples: Examples) -> Source:
    kept = examples.targets != FROG
    vehicle = torch.isin(examples.targets[kept], torch.tensor(VEHICLES))
    return Source(examples.inputs[kept], 1 - vehicle.to(torch.int64))
