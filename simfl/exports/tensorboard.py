"""TensorBoard: writes a run's curves during the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simfl.exports import MissingTool, curve_name
from simfl.protocols.publication import Progress


class TensorBoardLog:
    """Writes accuracy, loss, joules and bytes of every version to a folder of event files.

    Steps are global versions; TensorBoard's relative time is simulated time. The first version
    purges earlier contents of the folder: those of another run, or of this run before it was
    resumed (its versions are written again). Raises `MissingTool` if TensorBoard is not installed.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError:
            raise MissingTool(
                "--tensorboard needs TensorBoard: pip install 'simfl[tensorboard]'"
            ) from None
        folder.mkdir(parents=True, exist_ok=True)
        self._make, self._folder = SummaryWriter, folder
        self._writer: Any = None

    def __enter__(self) -> TensorBoardLog:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def update(self, progress: Progress) -> None:
        """Called at every new version."""
        if self._writer is None:
            self._writer = self._make(str(self._folder), purge_step=0)
        figures = {
            f"test/{curve_name('accuracy', progress.accuracy_name)}": progress.accuracy,
            "test/loss": progress.loss,
            "cost/time_s": progress.time_s,
            "cost/energy_j": progress.energy_j,
            "cost/bytes": progress.bytes,
        }
        for name, value in figures.items():
            if value is not None:
                self._writer.add_scalar(name, value, progress.version, walltime=progress.time_s)
