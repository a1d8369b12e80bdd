"""When a run ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class StopRule:
    """Criteria of the scenario's `stop`; the first that is met ends the run.

    `versions`, `energy_j`, `bytes`, `accuracy` (at least), `loss` (at most) and `plateau` are
    looked at when a global version is published; `time_s` ends the run at that very moment.
    """

    versions: int | None = None
    time_s: float | None = None
    energy_j: float | None = None
    bytes: float | None = None
    accuracy: float | None = None
    loss: float | None = None
    plateau_versions: int | None = None
    plateau_minimum_gain: float = 0.0
    _best: float = field(default=float("-inf"), init=False)
    _best_version: int = field(default=0, init=False)

    def reason(self, row: Mapping[str, Any]) -> str | None:
        """Why the run ends after the version that `row` of the rounds table describes, or None."""
        for name in ("versions", "energy_j", "bytes"):
            limit = getattr(self, name)
            reached = row["version" if name == "versions" else name]
            if limit is not None and reached >= limit:
                return f"{name} reached {limit:g}"
        if row["accuracy"] is None:
            return None
        if self.accuracy is not None and row["accuracy"] >= self.accuracy:
            return f"accuracy reached {self.accuracy:g}"
        if self.loss is not None and row["loss"] <= self.loss:
            return f"loss reached {self.loss:g}"
        if self.plateau_versions is not None:
            if row["accuracy"] > self._best + self.plateau_minimum_gain:
                self._best, self._best_version = row["accuracy"], row["version"]
            elif row["version"] - self._best_version >= self.plateau_versions:
                return f"plateau: no gain over {self.plateau_versions} versions"
        return None
