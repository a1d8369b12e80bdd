"""Images in folders, one folder per class."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch

from simfl.common.files import DataMissing, DataPath
from simfl.learning.datasets.base import Data, Dataset, Examples
from simfl.learning.vision import torchvision


@dataclass(frozen=True)
class ImageFolder(Dataset):
    """Image files `<path>/train/<class>/<image>` and `<path>/test/<class>/<image>`.

    Read as colour images (3, height, width) in [0, 1]; the classes are the folders in
    alphabetical order.
    """

    path: Annotated[
        DataPath,
        "the folder; relative paths are searched beside the scenario, then below the data root",
    ]
    size: Annotated[
        int | None,
        ">= 1",
        "<= 4096",
        "height and width to scale images to; null: no scaling, all images have one size",
    ] = None

    def load(self, root: Path | None, seed: int) -> Data:
        """Reads both parts; raises ValueError for a tested class that has no training images."""
        folder = (root or Path()) / self.path
        absent = [part for part in ("train", "test") if not (folder / part).is_dir()]
        if absent:
            raise DataMissing(
                f"path: no folder {folder / absent[0]}; put images into {folder}/train/<class>/"
                f" and {folder}/test/<class>/, or beside the scenario, or set the data root with"
                " --data-root, SIMFL_DATA or data.root"
            )
        train, classes = read_images(folder / "train", self.size)
        test, test_classes = read_images(folder / "test", self.size)
        if unknown := sorted(set(test_classes) - set(classes)):
            raise ValueError(
                f"{folder}/test: found the classes {', '.join(unknown)}, accepted: those of"
                f" {folder}/train: {', '.join(classes)}"
            )
        number = torch.tensor([classes.index(one) for one in test_classes])
        test = Examples(test.inputs, number[test.targets])
        if train.inputs.shape[1:] != test.inputs.shape[1:]:
            raise ValueError(
                f"size: the training and test images in {folder} differ in size; give a size to "
                f"scale them to"
            )
        return Data(train, test, "classification", outputs=len(classes))


def read_images(folder: Path, size: int | None) -> tuple[Examples, list[str]]:
    """The images of `<folder>/<class>/*` and the names of the classes.

    Raises ValueError if a class has no image, or if sizes differ and `size` is None.
    """
    try:
        files = torchvision().datasets.ImageFolder(str(folder), loader=_colours)
    except FileNotFoundError as error:
        raise ValueError(f"{folder} must hold one folder of images per class: {error}") from error
    images: np.ndarray | None = None
    for row in range(len(files)):
        pixels = _pixels(files, row, size)
        if images is None:
            images = np.empty((len(files), *pixels.shape), dtype=np.uint8)
        if pixels.shape != images.shape[1:]:
            raise ValueError(
                f"size: {files.samples[row][0]} is {pixels.shape[0]}x{pixels.shape[1]}, the first "
                f"image {images.shape[1]}x{images.shape[2]}; give a size to scale them to"
            )
        images[row] = pixels
    assert images is not None  # torchvision refuses folders without images
    planes = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    inputs = torch.from_numpy(planes).to(torch.float32).div_(255)
    targets = torch.tensor(files.targets, dtype=torch.int64)
    return Examples(inputs, targets), list(files.classes)


def _pixels(files: Any, row: int, size: int | None) -> np.ndarray:
    """One image, uint8 (height, width, 3); ValueError, naming the file, for a damaged one."""
    try:
        image = files[row][0]
        if size is not None:
            image = image.resize((size, size))
        return np.asarray(image, dtype=np.uint8)
    # Pillow's decoders may raise anything; its refusal of oversized images is a plain Exception.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{files.samples[row][0]} cannot be read as an image: {reason}") from error


def _colours(path: str) -> Any:
    """The image in a file, converted to three colours."""
    from PIL import Image

    with Image.open(path) as image:
        return in_eight_bits(image).convert("RGB")


def in_eight_bits(image: Any) -> Any:
    """Converts an image from 16 to 8 bits per pixel, scaled by the largest value; others unchanged.

    Pillow would clip all values above 255 to white. Raises ValueError if the largest possible value
    is unknown.
    """
    from PIL import Image

    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) // 257).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ValueError(f"found pixels of 32 bits (mode {image.mode}), accepted: 8 or 16 bits")
    return image
