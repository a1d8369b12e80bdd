"""Learned values as bytes: tensors and this package's own records, read without running code."""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from typing import Any

import numpy as np
import torch
from numpy._core import multiarray

from simfl.algorithms.base import ServerState
from simfl.journal import Snapshot
from simfl.learning.job import Brief, LocalTraining, Memory, Price, Recipe, Update

# What a value may be made of beside tensors and plain containers: no code in it is run.
_KNOWN_TYPES: list[Any] = [
    Brief,
    LocalTraining,
    Memory,
    Price,
    Recipe,
    ServerState,
    Snapshot,
    Update,
    OrderedDict,
    frozenset,
    set,
    np.ndarray,
    np.dtype,
    np.dtypes.Float64DType,
    np.dtypes.Float32DType,
    np.dtypes.Int64DType,
    np.dtypes.BoolDType,
    (multiarray._reconstruct, "numpy._core.multiarray._reconstruct"),
    (multiarray.scalar, "numpy._core.multiarray.scalar"),
]


def saved(value: Any) -> bytes:
    """`value` as bytes; tensors that share memory are stored once."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def loaded(content: bytes, device: torch.device) -> Any:
    """The value of `saved` with its tensors on `device`.

    Raises `pickle.UnpicklingError` for types that are not of this package, and for bytes that are
    not whole.
    """
    try:
        with torch.serialization.safe_globals(_KNOWN_TYPES):
            return torch.load(io.BytesIO(content), map_location=device, weights_only=True)
    except (RuntimeError, EOFError, LookupError, ValueError, TypeError) as error:
        raise pickle.UnpicklingError(str(error)) from error
