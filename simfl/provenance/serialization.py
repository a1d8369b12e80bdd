"""Serialisation of learned values: tensors and simfl's own records, without executing code."""

from __future__ import annotations

import hashlib
import io
import pickle
from collections import OrderedDict
from typing import Any

import numpy as np
import torch
from numpy._core import multiarray

from simfl.algorithms.base import ServerState
from simfl.learning.job import Brief, LocalTraining, Memory, Price, Recipe, Update
from simfl.provenance.journal import Snapshot

# Allowed types in a value besides tensors and plain containers: loading them executes no code.
_KNOWN_TYPES: list[Any] = [
    Brief,
    LocalTraining,
    Memory,
    Price,
    Recipe,
    ServerState,
    Snapshot,
    (Snapshot, "simfl.journal.Snapshot"),  # its name in checkpoints of earlier versions
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


_SEAL_BYTES = hashlib.sha256().digest_size


def saved(value: Any, name: str) -> bytes:
    """`value` as bytes, preceded by a digest of them and of `name`.

    Tensors that share memory are stored once.
    """
    buffer = io.BytesIO()
    torch.save(value, buffer)
    content = buffer.getvalue()
    return _seal(content, name) + content


def loaded(content: bytes, name: str, device: torch.device) -> Any:
    """The value that was `saved` under `name`, with its tensors on `device`.

    Raises `pickle.UnpicklingError` if the bytes differ from the saved ones, and for types that are
    not allowed.
    """
    seal, content = content[:_SEAL_BYTES], content[_SEAL_BYTES:]
    if seal != _seal(content, name):
        raise pickle.UnpicklingError("its bytes are not those that were written")
    try:
        with torch.serialization.safe_globals(_KNOWN_TYPES):
            return torch.load(io.BytesIO(content), map_location=device, weights_only=True)
    except (RuntimeError, EOFError, LookupError, ValueError, TypeError) as error:
        raise pickle.UnpicklingError(str(error)) from error


def _seal(content: bytes, name: str) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + content).digest()
