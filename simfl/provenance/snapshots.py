"""Snapshots on disk, written atomically."""

from __future__ import annotations

import pickle
import time
from pathlib import Path

import torch

from simfl.common.files import replacing
from simfl.common.notices import Notice, notice
from simfl.protocols.learned_values import LearnedValues
from simfl.provenance.journal import Snapshot
from simfl.provenance.serialization import loaded, saved

SNAPSHOT = "snapshot.pt"


def write_snapshot(snapshot: Snapshot, folder: Path) -> None:
    """Replace the folder's snapshot; a crash leaves the old one. Raises `OSError`."""
    with replacing(folder / SNAPSHOT) as partial:
        partial.write_bytes(saved(snapshot, SNAPSHOT))


def read_snapshot(folder: Path, device: torch.device) -> tuple[Snapshot, list[Notice]]:
    """The folder's snapshot with its tensors on `device`, and warnings.

    It is empty if there is none or none that can be read (it is damaged, or an algorithm keeps
    objects of its own in its state): resuming then trains again, but loses no results.
    """
    path = folder / SNAPSHOT
    if not path.exists():
        return Snapshot(), []
    try:
        snapshot = loaded(path.read_bytes(), SNAPSHOT, device)
    except pickle.UnpicklingError as error:
        reason = str(error).partition("\n")[0]
        message = f"{path}: not used ({reason}); its content was trained again"
        return Snapshot(), [notice("damaged_snapshot", message)]
    assert isinstance(snapshot, Snapshot)
    return snapshot, []


class Checkpoints:
    """Keeps a snapshot in the run folder, at most `interval_s` wall seconds old.

    `resumed` is the snapshot from which this run continues. Until the run has passed its moment,
    the run holds only some of the values in that snapshot.
    """

    def __init__(self, folder: Path, interval_s: float, resumed: Snapshot | None = None) -> None:
        self._folder = folder
        self._resumed = resumed or Snapshot()
        self._interval_s = interval_s
        self._last = time.monotonic()

    def due(self, values: LearnedValues) -> bool:
        """At a new version: take a snapshot if the last one is old enough; returns whether it
        was.
        """
        old = time.monotonic() - self._last >= self._interval_s
        if old:
            self.take(values)
        return old

    def take(self, values: LearnedValues) -> None:
        """Take a snapshot now; before the first job there is nothing to keep.

        A replay does not overwrite the snapshot that it was given until it has passed that moment.
        """
        if values.effort.jobs_asked > self._resumed.jobs_asked:
            write_snapshot(values.snapshot(), self._folder)
        self._last = time.monotonic()
