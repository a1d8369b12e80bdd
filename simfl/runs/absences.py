"""Warnings about absences, in clients' rounds or outside the run's time (docs/warnings.md)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simfl.assembly.simulation import Simulation
from simfl.common.arrays import IntArray
from simfl.common.notices import Notice, notice
from simfl.common.part_name import called
from simfl.common.time_of_day import next_day, shown
from simfl.protocols.run import Run
from simfl.system.availability.absence import Absence
from simfl.system.availability.base import Availability
from simfl.system.availability.partly_absent import PartlyAbsent
from simfl.system.availability.trace import Trace
from simfl.system.availability_by_group import AvailabilityByGroup

MOST_IGNORED = 0.02
"""Up to this share of all rounds may go on after their client has left."""

MOST_IN_STEP = 2
"""Up to so many clients, on average, may replay one of a trace."""

MOST_PAUSED = 0.5
"""Up to this share of the time of all rounds may be pauses."""


def left_before(simulation: Simulation) -> Iterator[Notice]:
    """Clients that left for good before the run began, such as after midnight in a run of the
    evening.
    """
    start_s = simulation.parts[("population",)].start_s
    for model, clients in _followed(simulation):
        if not isinstance(model, Absence) or model.to_s is not None:
            continue
        gone = int(model.who_leaves(clients, simulation.streams).sum())
        if gone and 0.0 < model.from_s < start_s:
            message = (
                f"{gone} clients had left for good at {shown(model.from_s)}, before the run began"
                f" at {shown(start_s)}: {next_day(model.from_s)}"
            )
            yield notice("left_before", message, gone)


def in_step(simulation: Simulation) -> Iterator[Notice]:
    """Clients that come and go in the same moments, because a trace has few clients."""
    for model, clients in _followed(simulation):
        if isinstance(model, Trace) and clients.size > MOST_IN_STEP * model.clients:
            message = (
                f"{clients.size} clients replay the {model.clients} clients of {model.file.name}:"
                f" on average {clients.size / model.clients:.3g} come and go in the same moments"
            )
            yield notice("in_step", message, clients.size)


def nobody_left(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """Clients that were to leave after the run was over, such as at noon in a run of minutes from
    midnight.
    """
    end_s, start_s = one.clock.now_s, simulation.parts[("population",)].start_s
    for model, clients in _followed(simulation):
        if not isinstance(model, PartlyAbsent) or model.first_s <= end_s:
            continue
        leave = int(model.who_leaves(clients, simulation.streams).sum())
        if leave:
            message = (
                f"{leave} clients were to leave at {shown(start_s + model.first_s)}"
                f" ({called(model)}); the run ended at {shown(start_s + end_s)},"
                f" after {end_s:.3g} s"
            )
            yield notice("nobody_left", message, leave)


def ignored_absences(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """Many rounds went on after their client had left."""
    ignored, rounds = one.absences.ignored, sum(one.fates.values())
    if ignored > MOST_IGNORED * rounds:
        message = (
            f"{ignored} of {rounds} client rounds ({ignored / rounds:.1%}) went on after their"
            " client had left (population.leaving: ignore, the default)"
        )
        yield notice("ignored_absences", message, ignored)


def mostly_paused(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """Rounds mostly waited for their absent clients."""
    _, paused_s, lasted_s = one.absences
    if paused_s > MOST_PAUSED * lasted_s:
        rounds = sum(one.fates.values())
        message = (
            f"{paused_s / lasted_s:.0%} of the time of client rounds were absences in mid-round"
            f" (population.leaving: pause): the {rounds} rounds that ended took"
            f" {lasted_s / rounds:.4g} s on average, {paused_s / rounds:.4g} s of it paused"
        )
        yield notice("mostly_paused", message, rounds)


def _followed(simulation: Simulation) -> list[tuple[Availability, IntArray]]:
    """Each availability model with its clients."""
    whole = simulation.availability
    if isinstance(whole, AvailabilityByGroup):
        return whole.followers
    return [(whole, np.arange(simulation.world.num_clients))]
