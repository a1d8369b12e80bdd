"""Any data set in one NumPy file."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from simfl.learning.datasets.base import Data, DataMissing, Dataset, Examples
from simfl.learning.objective import Task

REQUIRED = ("x_train", "y_train", "x_test", "y_test")


@dataclass(frozen=True)
class Npz(Dataset):
    """A .npz file with x_train, y_train, x_test, y_test and optionally client_train.

    Inputs: uint8 images (rows, height, width, channels) or (rows, height, width) become float
    (rows, channels, height, width) in [0, 1]; everything else is taken as it is, images as
    (rows, channels, height, width). Targets: integers are class indices from 0, real numbers the
    values of a regression. client_train: the owner of each training row, of any type that sorts,
    for the partition "natural". Pickled content is refused.
    """

    path: Annotated[str, "the file; a relative path starts at the data root, else where one is"]

    def load(self, root: Path | None, seed: int) -> Data:
        """Read the file; errors name the missing or unfit key."""
        file = (root or Path()) / self.path
        if not file.is_file():
            raise DataMissing(
                f"path: no file {file}; put a .npz with {', '.join(REQUIRED)} there, or name the "
                f"data root with --data-root, SIMFL_DATA or data.root"
            )
        arrays = _read(file)
        targets = {part: arrays[f"y_{part}"] for part in ("train", "test")}
        regression = np.issubdtype(targets["train"].dtype, np.floating)
        examples = {
            part: _examples(file, part, arrays[f"x_{part}"], targets[part], regression)
            for part in ("train", "test")
        }
        train, test = examples["train"], examples["test"]
        if train.inputs.shape[1:] != test.inputs.shape[1:]:
            raise ValueError(f"{file}: x_train and x_test differ in the shape of an example")
        outputs = (
            train.targets.shape[1]
            if regression
            else 1 + int(max(train.targets.max(), test.targets.max()))
        )
        task: Task = "regression" if regression else "classification"
        return Data(train, test, task, outputs, _owners(file, arrays, len(train)))


def _read(file: Path) -> dict[str, np.ndarray]:
    """All arrays that the data set knows, by key."""
    if not zipfile.is_zipfile(file):
        raise ValueError(f"{file} is not a .npz archive")
    with np.load(file, allow_pickle=False) as archive:
        absent = [key for key in REQUIRED if key not in archive]
        if absent:
            raise ValueError(
                f"{file} has no {', '.join(absent)}; found {', '.join(archive.files) or 'nothing'}"
            )
        wanted = [key for key in (*REQUIRED, "client_train") if key in archive]
        return {key: _array(file, archive, key) for key in wanted}


def _array(file: Path, archive: np.lib.npyio.NpzFile, key: str) -> np.ndarray:
    try:
        values: np.ndarray = archive[key]
    except (ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{file}: {key} cannot be read: {error}") from error
    return values


def _examples(
    file: Path, part: str, inputs: np.ndarray, targets: np.ndarray, regression: bool
) -> Examples:
    """One part as tensors, checked."""
    if len(inputs) == 0:
        raise ValueError(f"{file}: x_{part} is empty")
    if inputs.shape[0] != targets.shape[0]:
        raise ValueError(
            f"{file}: x_{part} has {inputs.shape[0]} rows, y_{part} {targets.shape[0]}"
        )
    if inputs.ndim < 2 or inputs.dtype.kind not in "fiub":
        raise ValueError(
            f"{file}: x_{part} has shape {inputs.shape} and type {inputs.dtype}, accepted: numbers "
            f"of shape (rows, ...)"
        )
    return Examples(_inputs(file, part, inputs), _targets(file, part, targets, regression))


def _inputs(file: Path, part: str, values: np.ndarray) -> Tensor:
    if values.dtype == np.uint8 and values.ndim in (3, 4):
        if values.ndim == 3:
            values = values[..., np.newaxis]
        planes = np.ascontiguousarray(values.transpose(0, 3, 1, 2))
        return torch.from_numpy(planes).to(torch.float32).div_(255)
    tensor = torch.from_numpy(values.astype(np.float32, copy=False))
    if not bool(torch.isfinite(tensor).all()):
        raise ValueError(f"{file}: x_{part} holds NaN or infinite values")
    return tensor


def _targets(file: Path, part: str, values: np.ndarray, regression: bool) -> Tensor:
    if regression:
        if values.dtype.kind not in "fiu" or values.ndim not in (1, 2):
            raise ValueError(
                f"{file}: y_{part} has shape {values.shape} and type {values.dtype}, accepted: "
                f"real numbers of shape (rows,) or (rows, outputs), as y_train"
            )
        tensor = torch.from_numpy(values.astype(np.float32, copy=False)).reshape(len(values), -1)
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"{file}: y_{part} holds NaN or infinite values")
        return tensor
    if values.dtype.kind not in "iu" or values.ndim != 1 or values.min() < 0:
        raise ValueError(
            f"{file}: y_{part} has shape {values.shape} and type {values.dtype}, accepted: class "
            f"indices 0, 1, ... of shape (rows,), or real numbers in y_train and y_test"
        )
    return torch.from_numpy(values.astype(np.int64))


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
    numbers: np.ndarray = np.unique(owners, return_inverse=True)[1]
    return numbers.astype(np.int64)
