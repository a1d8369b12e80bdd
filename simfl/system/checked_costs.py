"""Checks of the costs that users' own processors and links return."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.amounts import amounts
from simfl.common.arrays import FloatArray
from simfl.common.contract import at_work, is_users_own, misbehaves
from simfl.common.model_work import ModelWork
from simfl.system.cost import ComputeCost, TransferCost
from simfl.system.link import Link
from simfl.system.processor import Processor
from simfl.system.radio_paths import RadioPaths


def cycles_of(
    processor: Processor,
    examples: FloatArray,
    work: ModelWork | None,
    steps: FloatArray,
    example_bits: float | None,
) -> FloatArray:
    """`Processor.training_cycles`, checked; raises `PartMisbehaves`."""
    inherited = type(processor).training_cycles is Processor.training_cycles
    method = "cycles" if inherited else "training_cycles"
    with at_work(processor, method):
        given = processor.training_cycles(examples, work, steps, example_bits)
    if not is_users_own(processor):
        return given
    return amounts(given, examples.shape, processor, method)


def cycles_per_training_of(processor: Processor) -> float:
    """`Processor.cycles_per_training`, checked; raises `PartMisbehaves`."""
    with at_work(processor, "cycles_per_training"):
        given = processor.cycles_per_training
    if not is_users_own(processor):
        return given
    return float(amounts(given, (), processor, "cycles_per_training"))


def unpowered_cycles_of(
    processor: Processor, steps: FloatArray, trainings: FloatArray, cycles: FloatArray
) -> FloatArray:
    """`Processor.unpowered_cycles` of trainings in so many `cycles`; raises `PartMisbehaves`."""
    with at_work(processor, "unpowered_cycles"):
        given = processor.unpowered_cycles(steps, trainings)
    if not is_users_own(processor):
        return given
    found = amounts(given, steps.shape, processor, "unpowered_cycles")
    if (too_many := found > cycles).any():
        accepted = f"at most the {cycles[too_many][0]:g} cycles of the training"
        raise misbehaves(processor, "unpowered_cycles", float(found[too_many][0]), accepted)
    return found


def flops_cycles_of(processor: Processor, flops: ArrayLike) -> FloatArray:
    """`Processor.flops_cycles`, checked; raises `PartMisbehaves`."""
    with at_work(processor, "flops_cycles"):
        given = processor.flops_cycles(flops)
    if not is_users_own(processor):
        return given
    return amounts(given, np.shape(flops), processor, "flops_cycles")


def compute_cost_of(
    processor: Processor, cycles: ArrayLike, frequency_hz: ArrayLike
) -> ComputeCost:
    """`Processor.compute`, checked; raises `PartMisbehaves`."""
    with at_work(processor, "compute"):
        given = processor.compute(cycles, frequency_hz)
    if not is_users_own(processor):
        return given
    if not isinstance(given, ComputeCost):
        raise misbehaves(processor, "compute", given, "a ComputeCost")
    shape = np.broadcast_shapes(np.shape(cycles), np.shape(frequency_hz))
    return ComputeCost(
        amounts(given.duration_s, shape, processor, "compute: duration_s"),
        amounts(given.dynamic_j, shape, processor, "compute: dynamic_j"),
        amounts(given.static_j, shape, processor, "compute: static_j"),
    )


def transfer_cost_of(
    link: Link, bits: ArrayLike, uplink: bool, rate_factor: FloatArray, jitter: FloatArray
) -> TransferCost:
    """`Link.transmit`, checked; raises `PartMisbehaves`."""
    with at_work(link, "transmit"):
        given = link.transmit(bits, uplink, rate_factor, jitter)
    if not is_users_own(link):
        return given
    if not isinstance(given, TransferCost):
        raise misbehaves(link, "transmit", given, "a TransferCost")
    shape = np.broadcast_shapes(*(np.shape(one) for one in (bits, rate_factor, jitter)))
    return TransferCost(
        amounts(given.duration_s, shape, link, "transmit: duration_s"),
        amounts(given.active_j, shape, link, "transmit: active_j"),
        amounts(given.network_j, shape, link, "transmit: network_j"),
    )


def channel_of(link: Link, paths: RadioPaths) -> FloatArray:
    """`Link.channel`, checked; raises `PartMisbehaves`."""
    with at_work(link, "channel"):
        given = link.channel(paths)
    if not is_users_own(link):
        return given
    return amounts(given, (len(paths.clients),), link, "channel")
