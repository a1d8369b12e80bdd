"""Snapshots on disk: written whole or not at all."""

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
    """The folder's snapshot with its tensors on `device`, and what there is to warn of.

    Empty where there is none, or none that can be read (it is damaged, or an algorithm keeps
    objects of its own in its state): resuming then costs training again, not results.
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

    `resumed` is the snapshot from which this run goes on. Until the run is beyond its moment,
    that snapshot holds values of later moments, and the run only some of them.
    """

    def __init__(self, folder: Path, interval_s: float, resumed: Snapshot | None = None) -> None:
        self._folder = folder
        self._resumed = resumed or Snapshot()
        self._interval_s = interval_s
        self._last = time.monotonic()

    def due(self, values: LearnedValues) -> bool:
        """A version is out: take a snapshot if the last one is old enough; whether it was."""
        old = time.monotonic() - self._last >= self._interval_s
        if old:
            self.take(values)
        return old

    def take(self, values: LearnedValues) -> None:
        """Take a snapshot now; before the first job there is nothing to keep.

        A replay leaves the snapshot alone that it was given until it is beyond that moment.
        """
        if values.effort.jobs_asked > self._resumed.jobs_asked:
            write_snapshot(values.snapshot(), self._folder)
        self._last = time.monotonic()
