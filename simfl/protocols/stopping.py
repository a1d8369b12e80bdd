"""When a run ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Plateau(Protocol):
    """No gain of `minimum_gain` in accuracy during the last `versions` versions."""

    versions: int
    minimum_gain: float


class Criteria(Protocol):
    """The criteria of a scenario's `stop` section for published versions; None: not used.

    `time_s` is not among them: it ends the run exactly then, whatever is in progress.
    """

    versions: int | None
    energy_j: float | None
    bytes: float | None
    updates: int | None
    accuracy: float | None
    loss: float | None

    @property
    def plateau(self) -> Plateau | None:
        """No more gain in accuracy."""


class StopRule:
    """Checked at every published version; the first criterion that is met ends the run."""

    def __init__(self, criteria: Criteria) -> None:
        self._criteria = criteria
        self._best = float("-inf")
        self._best_version = 0

    @property
    def versions(self) -> int | None:
        """The last version of a run with a version limit."""
        return self._criteria.versions

    def reason(self, row: Mapping[str, Any], merged_updates: int = 0) -> str | None:
        """The reason to end the run after the version in this `row` of the rounds table, or None.

        `merged_updates` are those of clients that servers have merged since the start. The run ends
        at this `accuracy` or above, at this `loss` or below; both are None in the row of a version
        that was not evaluated, and either one if only the other is known.
        """
        stop = self._criteria
        for name, limit, reached in (
            ("versions", stop.versions, row["version"]),
            ("energy_j", stop.energy_j, row["energy_j"]),
            ("bytes", stop.bytes, row["bytes"]),
            ("updates", stop.updates, merged_updates),
        ):
            if limit is not None and reached >= limit:
                return f"{name} reached {limit:g}"
        accuracy, loss = row["accuracy"], row["loss"]
        if stop.accuracy is not None and accuracy is not None and accuracy >= stop.accuracy:
            return f"accuracy reached {stop.accuracy:g}"
        if stop.loss is not None and loss is not None and loss <= stop.loss:
            return f"loss reached {stop.loss:g}"
        if stop.plateau is not None and accuracy is not None:
            if accuracy > self._best + stop.plateau.minimum_gain:
                self._best, self._best_version = accuracy, row["version"]
            elif row["version"] - self._best_version >= stop.plateau.versions:
                return f"plateau: no gain over {stop.plateau.versions} versions"
        return None
