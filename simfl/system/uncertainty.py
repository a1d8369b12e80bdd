"""How far a profile's figures may be off, and for what they were measured: what calibration leaves.

A profile's `uncertainty` maps the paths of figures to intervals, and `seconds` to that of a factor
on all seconds of training a model that was not measured. Its `draws` are machines as they may be:
the figures of one row belong together, for they are correlated, and so do the same rows of all
profiles of one calibration.

`calibrated` says what the figures were measured with; a run that leaves it is warned of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from simfl.system.fields import FieldError, build, shown, suggestion

SECONDS = "seconds"
"""The path of the factor on the seconds of a model that was not measured."""


@dataclass(frozen=True)
class Interval:
    """Where a figure lies with probability `level`."""

    low: Annotated[float, ">= 0"]
    high: Annotated[float, ">= 0"]
    level: Annotated[float, "> 0", "< 1"]

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"low: found {self.low:g}, accepted: at most high, {self.high:g}")


@dataclass(frozen=True)
class Draws:
    """Joint draws: `rows` of figures, whose paths are the `columns`."""

    columns: tuple[str, ...]
    rows: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if not self.rows or any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"rows: accepted: rows of {len(self.columns)} figures, one at least")


@dataclass(frozen=True)
class Uncertainty:
    """Intervals by the paths of figures, and joint draws of them."""

    intervals: Mapping[str, Interval] = field(default_factory=dict)
    draws: Draws | None = None

    def drawn(self, number: int) -> dict[str, float]:
        """The figures of a draw by their paths; after the last draw comes the first."""
        if self.draws is None:
            return {}
        row = self.draws.rows[number % len(self.draws.rows)]
        return dict(zip(self.draws.columns, row, strict=True))


@dataclass(frozen=True)
class Calibrated:
    """With what figures were measured: so many rows, of these models and kinds of work.

    `batch_examples` and `clock_hz` are the smallest and the largest.
    """

    rows: Annotated[int, ">= 0", "of computations"]
    models: Annotated[tuple[str, ...], "that were trained"] = ()
    kinds: Annotated[tuple[str, ...], "of work that they told a rate of"] = ()
    batch_examples: Annotated[
        tuple[int, int] | None, "examples of a step, the fewest and the most"
    ] = None
    clock_hz: Annotated[tuple[float, float] | None, "the lowest and the highest clock"] = None


def read_uncertainty(content: Any, paths: list[str]) -> Uncertainty:
    """A profile's `uncertainty`, of a profile with figures at `paths`.

    Raises ValueError for what is none, led by the key.
    """
    if not isinstance(content, Mapping):
        raise FieldError(f"uncertainty: found {shown(content)}, accepted: a section")
    given = dict(content)
    drawn = given.pop("draws", None)
    columns = drawn.get("columns") if isinstance(drawn, Mapping) else None
    for path in (*given, *(columns if isinstance(columns, list) else ())):
        if path not in (*paths, SECONDS):
            raise FieldError(f"uncertainty: no figure {path}{suggestion(path, paths)}")
    try:
        return build(Uncertainty, {"intervals": given} | ({"draws": drawn} if drawn else {}))
    except ValueError as error:
        raise FieldError(f"uncertainty.{str(error).removeprefix('intervals.')}") from error


def read_calibrated(content: Any) -> Calibrated:
    """A profile's `calibrated`; raises ValueError for what is none, led by the key."""
    if not isinstance(content, Mapping):
        raise FieldError(f"calibrated: found {shown(content)}, accepted: a section")
    try:
        return build(Calibrated, content)
    except ValueError as error:
        raise FieldError(f"calibrated.{error}") from error
