"""Warnings about client rounds that contribute to no model (docs/warnings.md)."""

from __future__ import annotations

from collections.abc import Iterator

from simfl.assembly.simulation import Simulation
from simfl.common.contract import is_users_own
from simfl.common.notices import Notice, notice
from simfl.protocols.deadline_policy import DeadlinePolicy
from simfl.protocols.run import Run

MOST_LATE = 0.5
"""Up to this share of the expected updates may come too late, since deadlines leave some out."""

MOST_LOST = 0.5
"""Up to this share of all rounds may be broken off or lost."""

MOST_UNMERGED = 0.1
"""Up to this share of arrived updates may be left over at the end of a run."""

OF_WHAT = {
    "lost": "by lost messages",
    "unavailable": "by absences",
    "crash": "by crashes",
    "battery_empty": "by empty batteries",
    "unheard": "by failures of their servers",
}
"""Fates of rounds whose updates never arrive, in words."""


def mostly_lost(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """More rounds are lost or broken off than bring an update. Late updates count as arrived."""
    fates = one.fates
    lost, rounds = sum(fates[fate] for fate in OF_WHAT), sum(fates.values())
    if lost > MOST_LOST * rounds:
        each = sorted(OF_WHAT, key=lambda fate: -fates[fate])
        causes = ", ".join(f"{fates[fate]} {OF_WHAT[fate]}" for fate in each if fates[fate])
        message = (
            f"{lost} of {rounds} client rounds ({lost / rounds:.1%}) brought no update"
            f" ({causes}): their seconds, joules and bytes count"
        )
        yield notice("mostly_lost", message, lost)


def mostly_late(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """More work is dropped as late than is merged, not counting the intended loss by
    over-selection.
    """
    finished = int(one.observations.participations.sum())
    dropped = one.observations.dropped_late
    patience = getattr(simulation.protocol, "patience", None)
    wanted = finished / (patience.over_selection if isinstance(patience, DeadlinePolicy) else 1.0)
    if finished - dropped < MOST_LATE * wanted:
        message = (
            f"{dropped} of {finished} finished client rounds ({dropped / finished:.0%}) came after"
            " their round had closed, and were dropped: their seconds, joules and bytes count,"
            " but not their updates"
        )
        yield notice("mostly_late", message, dropped)


def unmerged_updates(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """A user's own protocol did not aggregate updates that have arrived."""
    if not is_users_own(simulation.protocol) or simulation.protocol.hierarchical:
        return
    arrived = one.fates["arrived"]
    unmerged = arrived - int(one.observations.dropped.sum()) - one.aggregation.merged_updates
    if unmerged > MOST_UNMERGED * arrived:
        message = (
            f"{unmerged} of {arrived} updates that have arrived were never aggregated: their"
            " seconds, joules and bytes count"
        )
        yield notice("unmerged_updates", message, unmerged)
