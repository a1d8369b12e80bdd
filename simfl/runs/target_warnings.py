"""Warnings about targets that a run missed, or met at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from simfl.common.accuracy_name import accuracy_name
from simfl.common.notices import Notice, notice

if TYPE_CHECKING:  # studies and comparisons need neither
    from simfl.assembly.simulation import Simulation
    from simfl.protocols.run import Run


class Target(NamedTuple):
    """A target for a `figure`, accuracy (at least) or loss (at most), and its name."""

    figure: str
    name: str
    value: float

    def is_met(self, value: float) -> bool:
        """Whether a version meets the target."""
        return value >= self.value if self.figure == "accuracy" else value <= self.value

    @property
    def as_text(self) -> str:
        """Name and value."""
        return f"{self.name} {self.value:g}"


class Evaluation(NamedTuple):
    """A version's accuracy, or loss, on the test set."""

    version: int
    time_s: float
    value: float


def met_at_once(targets: Iterable[Target], first: Mapping[str, Evaluation]) -> str | None:
    """The message if the `first` evaluation of their figures meets some targets; None otherwise."""
    met: dict[str, list[str]] = {}
    for target in targets:
        one = first.get(target.figure)
        if one is not None and target.is_met(one.value):
            at = f"version {one.version:.0f}, {one.time_s:.4g} s"
            met.setdefault(at, []).append(target.as_text)
    told = [
        f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} met at the first evaluation"
        f" ({at}): the true time and cost to get there may be lower"
        for at, names in met.items()
    ]
    return "; ".join(told) or None


def target_at_once(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """The run was to stop at a target, and its first evaluation met it."""
    targets = _asked(simulation)
    first = {each.figure: _evaluations(one, each.figure)[:1] for each in targets}
    message = met_at_once(targets, {figure: known[0] for figure, known in first.items() if known})
    if message:
        yield notice("target_at_once", message)


def target_missed(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """The run was to stop at a target, and ended before meeting it."""
    told = []
    for target in _asked(simulation) if one.publications.rounds else ():
        values = [each.value for each in _evaluations(one, target.figure)]
        if any(map(target.is_met, values)):
            return
        best = (max if target.figure == "accuracy" else min)(values, default=math.nan)
        of = f"the best of {len(values)} evaluations" if len(values) > 1 else "the only evaluation"
        known = f"{of} gave {best:.4g}" if values else "no version has one"
        told.append(f"the test {target.as_text} (stop.{target.figure}) was not reached: {known}")
    if told:
        yield notice("target_missed", "; ".join(told), len(told))


def _asked(simulation: Simulation) -> list[Target]:
    """Targets at which the run is to stop."""
    stop = simulation.scenario.stop
    accuracy = accuracy_name(simulation.partitioned.data.task)
    asked = (("accuracy", accuracy, stop.accuracy), ("loss", "loss", stop.loss))
    return [Target(figure, name, value) for figure, name, value in asked if value is not None]


def _evaluations(one: Run, figure: str) -> list[Evaluation]:
    return [
        Evaluation(row["version"], row["time_s"], row[figure])
        for row in one.publications.rounds
        if row[figure] is not None and not math.isnan(row[figure])
    ]
