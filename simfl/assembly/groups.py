"""Availability and allocation of groups of clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from simfl.common.arrays import IntArray
from simfl.protocols.deciders import AllocationByGroup
from simfl.scenario.scenario import Keys, Scenario
from simfl.scenario.yaml_source.source import blame
from simfl.streams import Streams
from simfl.system.availability.base import Availability
from simfl.system.availability_by_group import AvailabilityByGroup
from simfl.system.populations.catalogue import CatalogueMix

AVAILABILITY: Keys = ("population", "availability")
ALLOCATION: Keys = ("decisions", "allocation")


def own_parts(parts: Mapping[Keys, Any], kind: str) -> dict[int, Any]:
    """The parts of this kind that groups set, by group."""
    return {
        int(keys[2]): part
        for keys, part in parts.items()
        if keys[:2] == ("population", "groups") and keys[3] == kind
    }


def in_use(parts: Mapping[Keys, Any], common: Keys) -> list[Any]:
    """The part at `common`, if some group uses it, and the groups' own parts."""
    own = own_parts(parts, str(common[-1]))
    groups = getattr(parts[("population",)], "groups", ())
    return [*([] if own and len(own) == len(groups) else [parts[common]]), *own.values()]


def availability_of(
    scenario: Scenario, parts: Mapping[Keys, Any], streams: Streams
) -> Availability:
    """The availability of clients by the run's clock; raises `ScenarioError`."""
    start_s = parts[("population",)].start_s
    own = own_parts(parts, "availability")

    def begun(keys: Keys, members: IntArray | None) -> Availability:
        with blame(scenario.where(*keys), parts[keys]):
            model: Availability = parts[keys].begun(start_s, members)
        return model

    if not own:
        return begun(AVAILABILITY, None)
    group = _group_index(scenario, parts, streams)
    # The common model covers all clients: whether groups have their own affects nobody else's
    # draws.
    models = [begun(AVAILABILITY, None)] + [
        begun(("population", "groups", one, "availability"), np.flatnonzero(group == one))
        for one in own
    ]
    which = np.zeros_like(group)
    for number, one in enumerate(own, start=1):
        which[group == one] = number
    return AvailabilityByGroup(models, which)


def allocation_by_group(
    scenario: Scenario, parts: Mapping[Keys, Any], streams: Streams
) -> AllocationByGroup | None:
    """The allocation rules of groups that have their own; None if no group has."""
    own = own_parts(parts, "allocation")
    return AllocationByGroup(own, _group_index(scenario, parts, streams)) if own else None


def _group_index(scenario: Scenario, parts: Mapping[Keys, Any], streams: Streams) -> IntArray:
    population = parts[("population",)]
    if not isinstance(population, CatalogueMix):
        accepted = "groups with parts of their own in a CatalogueMix"
        found = f"those of a {type(population).__name__}"
        raise scenario.where("population", "groups").error(found, accepted)
    return population.group_index(streams)
