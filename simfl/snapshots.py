"""Snapshots on disk: written whole or not at all, read without running code."""

from __future__ import annotations

import pickle
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy._core import multiarray

from simfl.algorithms.base import ServerState
from simfl.journal import Snapshot
from simfl.learning.job import Brief, LocalTraining, Memory, Price, Recipe, Update
from simfl.protocols.timing_only import TimingOnly
from simfl.protocols.values import Values

SNAPSHOT = "snapshot.pt"
# What a snapshot may be made of beside tensors and plain containers: no code in it is run.
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


def write_snapshot(snapshot: Snapshot, folder: Path) -> None:
    """Replace the folder's snapshot; a crash leaves the old one. Raises `OSError`."""
    partial = folder / "snapshot.partial"
    torch.save(snapshot, partial)
    partial.replace(folder / SNAPSHOT)


def read_snapshot(folder: Path, device: torch.device) -> Snapshot:
    """The folder's snapshot with its tensors on `device`.

    Empty where there is none, or none that can be read (an algorithm keeps objects of its own in
    its state): resuming then costs training again, not results.
    """
    path = folder / SNAPSHOT
    if not path.exists():
        return Snapshot()
    try:
        with torch.serialization.safe_globals(_KNOWN_TYPES):
            snapshot: Snapshot = torch.load(path, map_location=device, weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError):
        return Snapshot()
    return snapshot


class Checkpoints:
    """Keeps a snapshot in the run folder, at most `interval_s` wall seconds old."""

    def __init__(self, folder: Path, interval_s: float) -> None:
        self._folder = folder
        self._interval_s = interval_s
        self._last = time.monotonic()

    def due(self, values: Values) -> None:
        """A version is out: take a snapshot if the last one is old enough."""
        if time.monotonic() - self._last >= self._interval_s:
            self.take(values)

    def take(self, values: Values | TimingOnly) -> None:
        """Take a snapshot now; a run without learning has nothing to keep."""
        if isinstance(values, Values):
            write_snapshot(values.snapshot(), self._folder)
        self._last = time.monotonic()
