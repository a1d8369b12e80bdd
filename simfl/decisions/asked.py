"""Checks of what decisions answer besides the decision: numbers of clients, owed shares."""

from __future__ import annotations

from simfl.common.amounts import amounts, whole_amounts
from simfl.common.arrays import FloatArray
from simfl.common.contract import at_work
from simfl.decisions.base import Scheduling, Selection


def wanted_by(selection: Selection, players: int) -> int:
    """`Selection.wanted`; raises `PartMisbehaves`."""
    with at_work(selection, "wanted"):
        given = selection.wanted(players)
    return int(whole_amounts(given, (), selection, "wanted"))


def enough_for(selection: Selection, players: int) -> int:
    """`Selection.enough`; raises `PartMisbehaves`."""
    with at_work(selection, "enough"):
        given = selection.enough(players)
    return int(whole_amounts(given, (), selection, "enough"))


def owed_by(scheduling: Scheduling, data_share: FloatArray) -> FloatArray:
    """`Scheduling.owed_share`; raises `PartMisbehaves`."""
    with at_work(scheduling, "owed_share"):
        given = scheduling.owed_share(data_share.copy())
    return amounts(given, data_share.shape, scheduling, "owed_share")
