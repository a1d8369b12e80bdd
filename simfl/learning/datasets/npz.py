"""Your own data set in one NumPy file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from simfl.common.files import DataMissing, DataPath
from simfl.learning.datasets.archive import read_arrays
from simfl.learning.datasets.base import Data, Dataset, Examples
from simfl.learning.datasets.sound import (
    MAXIMUM_CLASSES,
    require_features,
    require_finite,
    require_known_classes,
)
from simfl.learning.objective import Task

REQUIRED = ("x_train", "y_train", "x_test", "y_test")


@dataclass(frozen=True)
class Npz(Dataset):
    """A .npz file with x_train, y_train, x_test, y_test and optionally client_train.

    Inputs: uint8 images (rows, height, width, channels) or (rows, height, width) become float
    (rows, channels, height, width) in [0, 1]; all other arrays are used unchanged, images as (rows,
    channels, height, width). Targets: integers are class indices from 0 to 65,535, and those of
    y_test must be among those of y_train; real numbers, also whole ones, are the values of a
    regression. client_train: the owner of each training row, a number or text, for the partition
    "natural". Pickled content is refused, as are numbers that are not finite as float32.
    """

    path: Annotated[
        DataPath,
        "the file; relative paths are searched beside the scenario, then below the data root",
    ]

    def load(self, root: Path | None, seed: int) -> Data:
        """Reads the file; errors name the missing or wrong key."""
        file = (root or Path()) / self.path
        if not file.is_file():
            raise DataMissing(
                f"path: no file {file}; put a .npz with {', '.join(REQUIRED)} there or beside the"
                " scenario, or set the data root with --data-root, SIMFL_DATA or data.root"
            )
        arrays = read_arrays(file, REQUIRED, optional=("client_train",))
        targets = {part: arrays[f"y_{part}"] for part in ("train", "test")}
        regression = np.issubdtype(targets["train"].dtype, np.floating)
        examples = {
            part: _examples(file, part, arrays[f"x_{part}"], targets[part], regression)
            for part in ("train", "test")
        }
        train, test = examples["train"], examples["test"]
        if train.inputs.shape[1:] != test.inputs.shape[1:]:
            raise ValueError(f"{file}: x_train and x_test differ in the shape of an example")
        _require_one_scale(file, arrays, train, test)
        task: Task = "regression" if regression else "classification"
        if regression:
            outputs = train.targets.shape[1]
            if test.targets.shape[1] != outputs:
                raise ValueError(f"{file}: y_train and y_test differ in the values per row")
        else:
            outputs = 1 + int(train.targets.max())
            try:
                require_known_classes(train.targets, test.targets)
            except ValueError as error:
                raise ValueError(f"{file}: {error}") from error
        return Data(train, test, task, outputs, _owners(file, arrays, len(train)))


def _examples(
    file: Path, part: str, inputs: np.ndarray, targets: np.ndarray, regression: bool
) -> Examples:
    """One part as tensors, checked."""
    require_features(inputs.shape, f"{file}: x_{part}")
    if inputs.dtype.kind not in "fiub":
        raise ValueError(
            f"{file}: x_{part} has shape {inputs.shape} and type {inputs.dtype}, accepted: numbers "
            f"of shape (rows, ...)"
        )
    if len(inputs) == 0:
        raise ValueError(f"{file}: x_{part} is empty")
    if targets.shape[:1] != inputs.shape[:1]:
        raise ValueError(
            f"{file}: x_{part} has {inputs.shape[0]} rows, y_{part} the shape {targets.shape}"
        )
    return Examples(
        inputs_of(inputs, f"{file}: x_{part}"), _targets(file, part, targets, regression)
    )


def _require_one_scale(
    file: Path, arrays: dict[str, np.ndarray], train: Examples, test: Examples
) -> None:
    """Raises ValueError if one part has byte images and the other has values outside [0, 1]."""
    for part, other, beside in (("train", "test", test), ("test", "train", train)):
        beyond = bool(((beside.inputs < 0) | (beside.inputs > 1)).any())
        if _is_image_of_bytes(arrays[f"x_{part}"]) and beyond:
            kind = arrays[f"x_{other}"].dtype
            raise ValueError(
                f"{file}: x_{part} has images of uint8, which become numbers from 0 to 1, and"
                f" x_{other} numbers of type {kind} beyond these; accepted: both of one type"
            )


def _is_image_of_bytes(values: np.ndarray) -> bool:
    return values.dtype == np.uint8 and values.ndim in (3, 4)


def inputs_of(values: np.ndarray, what: str) -> Tensor:
    """Numbers (rows, ...) as inputs; uint8 of three or four axes are images, see `Npz`.

    Raises ValueError, beginning with `what`, if one is not finite as float32, and for images whose
    channels seem to come first.
    """
    if _is_image_of_bytes(values):
        if values.ndim == 4 and values.shape[1] in (1, 3, 4) and values.shape[3] > 4:
            raise ValueError(
                f"{what} has the shape {values.shape} and type uint8, accepted: images of shape"
                " (rows, height, width, channels), as of x.transpose(0, 2, 3, 1)"
            )
        if values.ndim == 3:
            values = values[..., np.newaxis]
        planes = np.ascontiguousarray(values.transpose(0, 3, 1, 2))
        return torch.from_numpy(planes).to(torch.float32).div_(255)
    tensor = _as_float(values)
    require_finite(tensor, what)
    return tensor


def _targets(file: Path, part: str, values: np.ndarray, regression: bool) -> Tensor:
    if regression:
        if values.dtype.kind not in "fiu" or values.ndim not in (1, 2) or not values.size:
            raise ValueError(
                f"{file}: y_{part} has shape {values.shape} and type {values.dtype}, accepted: "
                f"real numbers of shape (rows,) or (rows, outputs), as y_train"
            )
        tensor = _as_float(values).reshape(len(values), -1)
        require_finite(tensor, f"{file}: y_{part}")
        return tensor
    if values.dtype.kind not in "iu" or values.ndim != 1:
        raise ValueError(
            f"{file}: y_{part} has shape {values.shape} and type {values.dtype}, accepted: class "
            f"indices 0, 1, ... of shape (rows,), or real numbers in y_train and y_test"
        )
    wrong = np.flatnonzero((values < 0) | (values >= MAXIMUM_CLASSES))
    if wrong.size:
        raise ValueError(
            f"{file}: y_{part}: row {wrong[0]} holds the label {values[wrong[0]]}, accepted: class "
            f"indices from 0 to {MAXIMUM_CLASSES - 1:,}"
        )
    return torch.from_numpy(values.astype(np.int64))


def _as_float(values: np.ndarray) -> Tensor:
    """`values` as float32; values that are too large become infinite."""
    with np.errstate(over="ignore"):
        return torch.from_numpy(values.astype(np.float32, copy=False))


def _owners(file: Path, arrays: dict[str, np.ndarray], rows: int) -> np.ndarray | None:
    """client_train as numbers 0, 1, ... in ascending order of the owners' names."""
    if "client_train" not in arrays:
        return None
    owners = arrays["client_train"]
    if owners.shape != (rows,):
        raise ValueError(
            f"{file}: client_train has shape {owners.shape}, accepted: one owner for each of the "
            f"{rows} training rows"
        )
    if owners.dtype.kind not in "biufSU" or (owners.dtype.kind == "f" and np.isnan(owners).any()):
        raise ValueError(
            f"{file}: client_train has NaN or the type {owners.dtype}, accepted: numbers or text"
        )
    numbers: np.ndarray = np.unique(owners, return_inverse=True)[1]
    return numbers.astype(np.int64)
