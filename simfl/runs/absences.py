"""Warnings about absences outside the time of the run (docs/warnings.md)."""

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
from simfl.system.availability_by_group import AvailabilityByGroup


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


def _followed(simulation: Simulation) -> list[tuple[Availability, IntArray]]:
    """Each availability model with its clients."""
    whole = simulation.availability
    if isinstance(whole, AvailabilityByGroup):
        return whole.followers
    return [(whole, np.arange(simulation.world.num_clients))]
