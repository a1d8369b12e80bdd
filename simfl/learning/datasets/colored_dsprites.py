"""Colored dSprites: squares and ellipses whose colour predicts the label better."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from simfl.learning.datasets.archive import read_arrays
from simfl.learning.datasets.spurious import Source, Spurious, ink_in_channel

FILE = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
PIXELS = 64
SCALES = tuple(0.5 + 0.1 * step for step in range(6))
ORIENTATIONS = 40
PLACES = 32
OF_EACH_SHAPE = len(SCALES) * ORIENTATIONS * PLACES * PLACES
"""245,760: every combination of scale, orientation and place."""

SQUARE_HALF = 0.17
ELLIPSE_HALVES = (0.24, 0.12)
MARGIN = 0.25
"""The shapes drawn without the file, in units of the image's side at scale 1: half a square's side,
an ellipse's half axes, and how far the outermost centres are from the border."""

IMAGES_PER_PASS = 2000


@dataclass(frozen=True)
class ColoredDsprites(Spurious):
    """Binary 64x64 images in the channel of their colour: ellipses (0) and squares (1).

    From the data root's dSprites file (Matthey, Higgins, Hassabis, Lerchner, 2017), with ellipses
    for the paper's circles; without that file, images are drawn by code from the same factors.
    Shapes are balanced, scale, orientation and place random, no image occurs twice.
    """

    examples_per_client: Annotated[int, ">= 1", "training images of each client"] = 30_000
    test_examples: Annotated[int, ">= 1", "images of the test client"] = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        wanted = len(self.flip) * self.examples_per_client + self.test_examples
        if wanted > 2 * OF_EACH_SHAPE:
            raise ValueError(
                f"examples_per_client: {wanted} images are asked for in all, accepted: at most"
                f" {2 * OF_EACH_SHAPE}"
            )

    def sources(self, root: Path | None, generator: torch.Generator) -> tuple[Source, Source]:
        """Both parts, balanced."""
        train = len(self.flip) * self.examples_per_client
        count = train + self.test_examples
        classes = torch.arange(count) % 2
        places = torch.empty(count, dtype=torch.int64)
        for shape in (0, 1):
            chosen = torch.randperm(OF_EACH_SHAPE, generator=generator)
            places[classes == shape] = chosen[: int((classes == shape).sum())]
        file = None if root is None else root / FILE
        images = (
            _read(file, classes, places)
            if file is not None and file.is_file()
            else _drawn(classes, places)
        )
        whole = Source(images, classes)
        return whole.take(torch.arange(train)), whole.take(torch.arange(train, count))

    def marked(self, images: Tensor, feature: Tensor) -> Tensor:
        """Ink in the channel of its colour."""
        return ink_in_channel(images, feature, self.labels)


def _read(file: Path, classes: Tensor, places: Tensor) -> Tensor:
    """Images of the file: its first third are squares, its second ellipses."""
    expected = (3 * OF_EACH_SHAPE, PIXELS, PIXELS)
    found = read_arrays(file, ["imgs"])["imgs"]
    if found.shape != expected or found.dtype != np.uint8:
        raise ValueError(
            f"{file}: imgs has shape {found.shape} and type {found.dtype}, accepted: {expected} and"
            f" uint8"
        )
    images = torch.from_numpy(found)
    return images[(1 - classes) * OF_EACH_SHAPE + places]


def _drawn(classes: Tensor, places: Tensor) -> Tensor:
    """Images (rows, 64, 64) of uint8 from the number of each one's combination of factors."""
    pieces = [
        _shapes(classes[rows], places[rows])
        for rows in torch.split(torch.arange(len(classes)), IMAGES_PER_PASS)
    ]
    return torch.cat(pieces)


def _shapes(classes: Tensor, places: Tensor) -> Tensor:
    rest, y = places // PLACES, places % PLACES
    rest, x = rest // PLACES, rest % PLACES
    scale = torch.tensor(SCALES)[rest // ORIENTATIONS].view(-1, 1, 1)
    angle = (rest % ORIENTATIONS * (2 * math.pi / (ORIENTATIONS - 1))).view(-1, 1, 1)
    grid = (torch.arange(PIXELS) + 0.5) / PIXELS
    span = (1 - 2 * MARGIN) / (PLACES - 1)
    across = grid.view(1, 1, -1) - (MARGIN + span * x).view(-1, 1, 1)
    down = grid.view(1, -1, 1) - (MARGIN + span * y).view(-1, 1, 1)
    along = (across * angle.cos() + down * angle.sin()) / scale
    beside = (down * angle.cos() - across * angle.sin()) / scale
    square = torch.maximum(along.abs(), beside.abs()) <= SQUARE_HALF
    half, other = ELLIPSE_HALVES
    ellipse = (along / half) ** 2 + (beside / other) ** 2 <= 1
    return torch.where((classes == 1).view(-1, 1, 1), square, ellipse).to(torch.uint8)
