"""Checks of a loaded data set: shapes, types, finite numbers, learnable labels."""

from __future__ import annotations

from typing import get_args

import numpy as np
import torch
from torch import Tensor

from simfl.learning.datasets.base import Data, Examples
from simfl.learning.objective import Task

MAXIMUM_CLASSES = 65_536
"""Three times the classes of ImageNet-21k; more are not labels (but identifiers, for example)."""


def require_sound(data: object) -> None:
    """Raises ValueError, with what was found, unless `data` is a valid `Data`.

    Its parts must have the types and shapes of `Examples`, at least one feature, finite numbers,
    labels in 0..outputs-1, and no class in the test set that training lacks. Parts without a row
    pass.
    """
    if not isinstance(data, Data):
        raise ValueError(f"loading the data gave {type(data).__name__}, accepted: Data")
    if data.task not in get_args(Task):
        raise ValueError(f"task: found {data.task!r}, accepted: {', '.join(get_args(Task))}")
    if isinstance(data.outputs, bool) or not isinstance(data.outputs, int | np.integer):
        raise ValueError(f"outputs: found {data.outputs!r}, accepted: a whole number")
    most = MAXIMUM_CLASSES if data.task == "classification" else np.inf
    if not 1 <= data.outputs <= most:
        raise ValueError(f"outputs: found {data.outputs}, accepted: 1 to {most:,}")
    parts = {"training": data.train, "test": data.test}
    if data.flipped is not None:
        parts["flipped test"] = data.flipped
    for name, part in parts.items():
        _require_part(part, name, data)
    if data.natural is not None:
        _require_owners(data.natural, len(data.train))
    if data.task == "classification":
        require_known_classes(data.train.targets, data.test.targets)


def _require_part(part: object, name: str, data: Data) -> None:
    if not isinstance(part, Examples):
        raise ValueError(f"{name} set: found {type(part).__name__}, accepted: Examples")
    held: dict[str, object] = {"inputs": part.inputs, "targets": part.targets}
    for what, tensor in held.items():
        if not isinstance(tensor, Tensor):
            found = type(tensor).__name__
            raise ValueError(f"{name} {what}: found {found}, accepted: a torch tensor")
        if tensor.requires_grad or tensor.layout != torch.strided:
            found = "a tensor with a gradient" if tensor.requires_grad else str(tensor.layout)
            raise ValueError(f"{name} {what}: found {found}, accepted: plain numbers")
    inputs, targets = part.inputs, part.targets
    require_features(tuple(inputs.shape), f"{name} inputs")
    if tuple(inputs.shape[1:]) != data.input_shape:
        raise ValueError(
            f"{name} inputs: found examples of shape {tuple(inputs.shape[1:])}, accepted:"
            f" {data.input_shape}, as in training"
        )
    if not inputs.is_floating_point() and inputs.dtype != torch.uint8:
        raise ValueError(f"{name} inputs: found {inputs.dtype}, accepted: float32 or uint8")
    require_finite(inputs, f"{name} inputs")
    if data.task == "regression":
        if not targets.is_floating_point() or tuple(targets.shape[1:]) != (data.outputs,):
            raise ValueError(
                f"{name} targets: found {targets.dtype} of shape {tuple(targets.shape)}, accepted:"
                f" float32 of shape (rows, {data.outputs})"
            )
        require_finite(targets, f"{name} targets")
        return
    if targets.dtype != torch.int64 or targets.ndim != 1:
        raise ValueError(
            f"{name} targets: found {targets.dtype} of shape {tuple(targets.shape)}, accepted:"
            f" int64 of shape (rows,)"
        )
    require_labels(targets, data.outputs, f"{name} targets")


def require_features(shape: tuple[int, ...], what: str) -> None:
    """Raises ValueError unless `shape` is (rows, ...) with at least one feature."""
    if len(shape) < 2 or 0 in shape[1:]:
        raise ValueError(
            f"{what}: found shape {shape}, accepted: (rows, ...) with at least one feature"
        )


def require_finite(values: Tensor, what: str) -> None:
    """Raises ValueError with row and column of the first number that is NaN or infinite."""
    if not values.is_floating_point() or not values.numel():
        return
    # The extremes are NaN or infinite if any value is, and cost no second tensor of that size.
    if all(bool(torch.isfinite(extreme)) for extreme in torch.aminmax(values)):
        return
    rows = torch.isfinite(values.reshape(len(values), -1))
    row, column = (int(place[0]) for place in torch.nonzero(~rows, as_tuple=True))
    found = float(values.reshape(len(values), -1)[row, column])
    raise ValueError(f"{what}: row {row}, value {column} is {found}, accepted: finite numbers")


def require_labels(labels: Tensor, outputs: int, what: str) -> None:
    """Raises ValueError with the first row whose label is not in 0..outputs-1."""
    wrong = torch.nonzero((labels < 0) | (labels >= outputs))
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(
            f"{what}: row {row} holds the label {int(labels[row])}, accepted: 0 to {outputs - 1}"
        )


def require_known_classes(train: Tensor, test: Tensor) -> None:
    """Raises ValueError with the first class that is tested but not trained."""
    unknown = np.setdiff1d(test.numpy(), train.numpy())
    if unknown.size and len(train):
        raise ValueError(
            f"the test set has the class {unknown[0]}, but the training set has no example of it;"
            " accepted: classes of the training set"
        )


def _require_owners(owners: object, rows: int) -> None:
    if not isinstance(owners, np.ndarray) or owners.dtype.kind not in "iu":
        found = getattr(owners, "dtype", type(owners).__name__)
        raise ValueError(f"natural: found {found}, accepted: a numpy array of whole numbers")
    if owners.shape != (rows,):
        raise ValueError(f"natural: found shape {owners.shape}, accepted: ({rows},), one per row")
