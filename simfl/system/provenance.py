"""The profiles behind a world, and how many of their figures are estimates."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

import numpy as np

from simfl.common.model_work import KINDS, ModelWork
from simfl.system.catalogue import Catalogue, Kind, Profile
from simfl.system.hardware_draws import WATTS
from simfl.system.processor import Processor
from simfl.system.uncertainty import Calibrated
from simfl.system.world import World


def profiles_behind(
    catalogue: Catalogue, world: World, backhaul: str | None, *, hierarchical: bool
) -> tuple[Profile, ...]:
    """The profiles of the machines that take part, each once.

    They are those of clients' devices and links, of the cloud and of the electricity; those of the
    edge servers only in a `hierarchical` run, and of the `backhaul` only if messages cross it.
    Machines without a profile of their name, such as those of `paper`, are left out.
    """
    devices = [world.devices[index].name for index in np.unique(world.device_index)]
    known = {name for name in devices if catalogue.holds("device", name)}
    links = [world.link_names[index] for index in np.unique(world.link_index)]
    regions = world.electricity.regions if world.electricity else []
    names: list[tuple[Kind, str]] = [
        *(("device", profile_of(name, known)) for name in devices),
        *(("link", name) for name in links),
        *(("region", region.name) for region in regions),
        ("server", world.cloud_server.name),
    ]
    if hierarchical:
        names.append(("server", world.edge_server.name))
    if (hierarchical or world.behind_backhaul) and backhaul is not None:
        names.append(("link", backhaul))
    return tuple(
        catalogue.profile(kind, name)
        for kind, name in dict.fromkeys(names)
        if catalogue.holds(kind, name)
    )


def profile_of(device: str, profiles: Container[str]) -> str:
    """The name of a device's profile: its own, or the part of "jetson_tx2.MaxQ" before the mode."""
    return device if device in profiles else device.rpartition(".")[0]


LEAST_SHARE = 0.05
"""Kinds of work with a smaller share of a step's time are ignored."""


def unmeasured_kinds(
    processor: Processor, work: ModelWork, rows: int, measured: Calibrated
) -> list[str]:
    """Kinds of work, with a share of a step of `rows`, that no measured row determines."""
    total = float(processor.training_cycles(rows, work, 1))
    found = []
    for kind in set(KINDS) - set(measured.kinds):
        without = replace(work, **{kind: 0.0})
        left = without.forward_flops and float(processor.training_cycles(rows, without, 1))
        if getattr(work, kind) and total - left > LEAST_SHARE * total:
            found.append(kind)
    return sorted(found)


def without_measured_watts(profiles: Sequence[Profile], *, full_speed: bool = False) -> list[str]:
    """Profiles with an estimated or sourceless figure behind the joules.

    At `full_speed` no device computes below its highest clock.
    """
    return [
        one.name
        for one in profiles
        if any(
            path.rpartition(".")[2] in WATTS
            and (path in one.unverified or path not in one.sources)
            and not (full_speed and path == _STATIC and _is_measured_at_its_highest(one))
            for path in one.figures()
        )
    ]


_STATIC = "processor.power_static_w"


def _is_measured_at_its_highest(profile: Profile) -> bool:
    """Whether the watts of training are those at the highest clock, of which static power is a
    part, and no heat lowers it.
    """
    processor = profile.values["processor"]
    measured = "power_active_w" in processor and "measured_hz" not in processor
    return measured and processor.get("name") != "thermal_cpu"


def unverified_figures(profiles: Sequence[Profile]) -> dict[str, tuple[int, int]]:
    """By profile, the number of its unverified figures, and the number of all its figures."""
    return {one.name: (len(one.estimates()), len(one.figures())) for one in profiles}
