"""Warnings of a run's hardware: estimates, implausible figures, times that are mostly fixed, and
devices beyond what they were calibrated with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

import numpy as np

from simfl.assembly.simulation import Simulation
from simfl.common.notices import Notice, notice
from simfl.decisions.base import Allocation
from simfl.system.accelerator import Accelerator
from simfl.system.implausible import (
    hours_as_seconds,
    implausible_figures,
    implausible_keys,
    percent_as_ratio,
    wide_spreads,
)
from simfl.system.measured import MeasuredProcessor
from simfl.system.processor import Processor
from simfl.system.provenance import (
    profile_of,
    unmeasured_kinds,
    unverified_figures,
    without_measured_watts,
)
from simfl.system.uncertainty import Calibrated

SHORTEST_STEP_S = 1e-3
"""A shorter training step is dominated by the framework, not by the model (docs/hardware.md)."""

MOST_FIXED = 0.5
"""An accelerator of which more of a step, or of a training, is fixed time may mostly wait."""

MOST_NAMED = 4
"""The maximum number of profiles named in a sentence."""

LEAST_CAPACITY = 1e-3
"""A medium with a smaller share of the rate of its slowest sender is likely in another unit."""

LEAST_CAPACITY_BPS = 1e5
"""A larger figure is a slow line in bit/s, and an impossible one in Mbit/s."""

ALIKE_FLOPS = 1.02
"""Models whose operations are within this factor count as one: they may differ in their outputs."""


def unverified(simulation: Simulation) -> list[Notice]:
    """Unverified figures of the catalogue behind the run's seconds and joules."""
    by_profile = unverified_figures(simulation.world.profiles)
    estimates = sum(unverified for unverified, _ in by_profile.values())
    total = sum(figures for _, figures in by_profile.values())
    allocations = [one for one in simulation.parts.values() if isinstance(one, Allocation)]
    full_speed = all(one.full_speed for one in allocations)
    unmeasured = without_measured_watts(simulation.world.profiles, full_speed=full_speed)
    waiting = _waiting_steps(simulation)
    if not estimates and not unmeasured and not waiting:
        return []
    told = []
    if estimates:
        worst = max(by_profile, key=lambda name: by_profile[name][0])
        most, its = by_profile[worst]
        told.append(
            f"{estimates} of {total} figures of the hardware are estimates; most of {worst}"
            f" ({most} of {its})"
        )
    if unmeasured:
        names, more = ", ".join(unmeasured[:MOST_NAMED]), len(unmeasured) - MOST_NAMED
        names += f" and {more} more" if more > 0 else ""
        told.append(f"Joules are not validated: no source for watts of {names}")
    if estimates:
        told += _short_steps(simulation)
    count = estimates or len(unmeasured) or len(waiting)
    return [notice("unverified_figures", ". ".join(told + waiting), count)]


def implausible(simulation: Simulation) -> list[Notice]:
    """Figures of profiles, or of the population's own keys, that are off by orders of magnitude."""
    lines = implausible_figures(simulation.world.profiles)
    population: tuple[str | int, ...] = ("population",)
    of_all = simulation.parts[population]
    found = [(population, *one) for one in (*implausible_keys(of_all), *wide_spreads(of_all))]
    for keys, part in simulation.parts.items():
        if keys[:1] == population and is_dataclass(part):
            found += [(keys, *one) for one in hours_as_seconds(part)]
    patience = getattr(simulation.protocol, "patience", None)
    found += [(("protocol", "patience"), *one) for one in percent_as_ratio(patience)]
    found += _far_below_links(simulation)
    for keys, key, told in found:
        steps = [int(step) if step.isdecimal() else step for step in key.split(".")]
        lines.append(str(simulation.scenario.where(*keys, *steps).error("", "", told)))
    if not lines:
        return []
    more = len(lines) - MOST_NAMED
    message = "; ".join(lines[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
    return [notice("implausible_figures", message, len(lines))]


def undeclared_work(simulation: Simulation) -> list[Notice]:
    """Declared work of a Flower app's messages that leaves out what takes its devices time."""
    if not simulation.protocol.brings_values:
        return []
    declares: Mapping[str, Any] = getattr(simulation.protocol, "work", {})
    world, told = simulation.world, list[str]()
    for kind, work in declares.items():
        if work.passes == 0 or work.examples == 0:
            continue
        keys = ("traffic_bytes",) if work.forward_only else ("traffic_bytes", "update")
        for key in (key for key in keys if getattr(work, key) == 0):
            devices = {one.name for one in world.devices if _takes_time(one.processor, key)}
            if devices:
                names = ", ".join(sorted(devices)[:MOST_NAMED])
                told.append(f"protocol.work.{kind} has no {key}, which takes time on {names}")
    if not told:
        return []
    message = "; ".join(told) + ": such messages take too little time and energy"
    return [notice("undeclared_work", message, len(told))]


def _takes_time(processor: Processor, key: str) -> bool:
    """Whether activations' traffic, or the update of weights, takes a processor time by itself."""
    if not isinstance(processor, MeasuredProcessor):
        return False
    if key == "traffic_bytes":
        return processor.bandwidth_bytes_per_s is not None
    return processor.rates is not None and processor.rates.update is not None


def _far_below_links(simulation: Simulation) -> list[tuple[tuple[str | int, ...], str, str]]:
    """Capacities of shared media that are far below the rate of a single sender."""
    world, found = simulation.world, list[tuple[tuple[str | int, ...], str, str]]()
    ways = True, False
    access_bps = min(link.rate_bps(uplink) for link in world.links for uplink in ways)
    backhaul_bps = min(world.backhaul.rate_bps(uplink) for uplink in ways)
    for key, own_bps, capacities in (
        ("access_sharing", access_bps, ("capacity_bps", "access_bps", "backhaul_bps")),
        ("backhaul_sharing", backhaul_bps, ("capacity_bps", "backhaul_bps")),
    ):
        part = simulation.parts.get(("population", key))
        for name in capacities:
            capacity_bps = getattr(part, name, None)
            if capacity_bps is not None and capacity_bps < min(
                LEAST_CAPACITY * own_bps, LEAST_CAPACITY_BPS
            ):
                told = (
                    f"found {capacity_bps:g}, far below the rate of a single sender"
                    f" ({own_bps:.3g} bit/s); in Mbit/s or kbit/s?"
                )
                found.append((("population", key), name, told))
    return found


def _short_steps(simulation: Simulation) -> list[str]:
    """What to say where devices go through a step faster than a framework can start it."""
    world, work = simulation.world, simulation.network.work
    profiles = {one.name for one in world.profiles if one.kind == "device"}
    rows = _largest_step(simulation)
    step_s = {}
    for index in np.unique(world.device_index):
        name, processor = world.devices[index].name, world.devices[index].processor
        # Given cycles per example, and fixed times, were measured on whole steps.
        measured = processor.counts_bits or any(
            getattr(processor, key, None) for key in ("cycles_per_example", "seconds_per_step")
        )
        if work.forward_flops and rows and not measured and profile_of(name, profiles) in profiles:
            cost = processor.compute(
                processor.training_cycles(rows, work, 1), processor.frequency_max_hz
            )
            step_s[name] = float(cost.duration_s)
    fastest = min(step_s, key=lambda name: step_s[name], default=None)
    if fastest is None or step_s[fastest] >= SHORTEST_STEP_S:
        return []
    return [
        f"A step of {rows} examples takes {1e3 * step_s[fastest]:.2g} ms on {fastest}: frameworks"
        " need longer for any step, so such small models take longer, and more energy, in reality"
    ]


def _waiting_steps(simulation: Simulation) -> list[str]:
    """What to say where accelerators mostly wait, and nothing says what they draw meanwhile."""
    world, work, rows = simulation.world, simulation.network.work, _largest_step(simulation)
    local = simulation.algorithm.local
    profiles = {one.name: one for one in world.profiles if one.kind == "device"}
    told = []
    for index in np.unique(world.device_index):
        name, processor = world.devices[index].name, world.devices[index].processor
        profile = profiles.get(profile_of(name, profiles))
        if profile is None or "processor.stall_utilization" in profile.figures():
            continue
        most = int(simulation.partitioned.num_examples[world.device_index == index].max())
        if not isinstance(processor, Accelerator) or not most:
            continue
        trained, steps = most * local.passes(most), local.num_steps(most)
        of_step = processor.seconds_per_step * processor.cycles_per_s
        once = processor.cycles_per_training
        of_steps = float(processor.training_cycles(trained, work, steps))
        shares = {
            f"a step of {rows} examples": of_step / processor.training_cycles(rows, work, 1),
            f"a training with {most} examples": (of_step * steps + once) / (of_steps + once),
        }
        whose = next((one for one, share in shares.items() if share > MOST_FIXED), None)
        if whose is not None:
            told.append(
                f"{shares[whose]:.0%} of {whose} on {name} is fixed time, at full power:"
                " its energy is too high if it waits meanwhile, as graphics processors do"
                " (processor.stall_utilization)"
            )
    return told


def _largest_step(simulation: Simulation) -> int:
    """The number of examples in the largest training step of any client."""
    rows = int(simulation.partitioned.num_examples.max(initial=0))
    return min(rows, simulation.algorithm.local.batch_size or rows)


def _is_another(forward_flops: float, measured: Calibrated) -> bool:
    """Whether a model's operations are not those of the one that a profile is for."""
    if measured.forward_flops is None:
        return False
    few, most = measured.forward_flops
    return not few / ALIKE_FLOPS <= forward_flops <= most * ALIKE_FLOPS


def beyond_calibration(simulation: Simulation) -> list[Notice]:
    """Devices that train models, or use batch sizes, that were not measured in their calibration.

    Clock frequencies that were not measured are reported when they are decided (`Allocating`).
    """
    world, work, rows = simulation.world, simulation.network.work, _largest_step(simulation)
    profiles = {one.name: one for one in world.profiles if one.kind == "device"}
    told = []
    for index in np.unique(world.device_index):
        device = world.devices[index]
        profile = profiles.get(profile_of(device.name, profiles))
        measured = None if profile is None else profile.calibrated
        if measured is None or not rows:
            continue
        few, most = measured.batch_examples or (rows, rows)
        if not few <= rows <= most:
            told.append(
                f"{device.name} trains steps of {rows} examples, but {few} to {most} were measured"
            )
        if _is_another(work.forward_flops, measured):
            told.append(
                f"{device.name}'s times are for {measured.only} alone, another model trains"
            )
        kinds = unmeasured_kinds(device.processor, work, rows, measured)
        if kinds:
            told.append(f"{device.name}'s rate of {' and '.join(kinds)} was not measured")
    if not told:
        return []
    return [notice("beyond_calibration", "; ".join(told), len(told))]
