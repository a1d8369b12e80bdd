"""Machines: client devices, edge servers and cloud servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from simfl.system.accelerator import Accelerator
from simfl.system.checked_costs import compute_cost_of, flops_cycles_of
from simfl.system.cost import ComputeCost, MissingCost
from simfl.system.processor import Processor


@dataclass(frozen=True)
class Device:
    """A kind of client device; many clients share one.

    `sources` gives the source of each figure, `unverified` names the figures without a source, both
    by field path ("processor.kappa").
    """

    name: str
    device_class: Annotated[str, "device class: sbc, phone, edge_gpu, pc, mcu, ..."]
    processor: Processor
    power_idle_w: Annotated[
        float, ">= 0", "idle power of the whole device without its radio, always drawn"
    ]
    memory_bytes: Annotated[float | None, "> 0", "memory available for training; null: unknown"]
    battery_j: Annotated[float | None, "> 0", "energy of a full battery; null: mains power"] = None
    sources: Mapping[str, str] = field(default_factory=dict)
    unverified: tuple[str, ...] = ()

    def computing_w(self, clock_hz: float | None = None) -> float:
        """What computing adds to the device's idle power at a clock; None: at its highest."""
        cost = self.processor.compute(1e6, clock_hz or self.processor.frequency_max_hz)
        return float((cost.dynamic_j + cost.static_j) / cost.duration_s)

    def in_mode(self, name: str) -> Device:
        """The device with its accelerator in a power mode, named `device.mode`.

        Raises ValueError for an unknown mode.
        """
        if not isinstance(self.processor, Accelerator):
            raise ValueError(f"found {name!r}, accepted: null, {self.name} has no modes")
        return replace(self, name=f"{self.name}.{name}", processor=self.processor.in_mode(name))


@dataclass(frozen=True)
class Server:
    """A machine that aggregates and evaluates, at its highest clock."""

    name: str
    processor: Processor
    power_idle_w: Annotated[float, ">= 0", "idle power of the whole machine, always drawn"]
    memory_bandwidth_bytes_per_s: Annotated[float, "> 0"]
    overhead_s: Annotated[float, ">= 0", "fixed time per call (dispatch, serialisation)"]
    memory_bytes: Annotated[float | None, "> 0", "null: unknown"] = None
    sources: Mapping[str, str] = field(default_factory=dict)
    unverified: tuple[str, ...] = ()

    def execute(self, flops: ArrayLike, bytes_moved: ArrayLike) -> ComputeCost:
        """Cost of `flops` operations that move `bytes_moved` through memory.

        The slower of the two determines the time, plus the overhead (aggregation is memory-bound:
        two operations per value read). The machine is busy, at active power, all the time.
        """
        clock_hz = self.processor.frequency_max_hz
        try:
            cycles = flops_cycles_of(self.processor, flops)
        except MissingCost as missing:
            raise missing.of(self.name) from missing
        compute_s = compute_cost_of(self.processor, cycles, clock_hz).duration_s
        memory_s = np.asarray(bytes_moved, dtype=float) / self.memory_bandwidth_bytes_per_s
        busy_s = np.maximum(compute_s, memory_s) + self.overhead_s
        cycles_per_s = 1.0 / compute_cost_of(self.processor, 1.0, clock_hz).duration_s
        return compute_cost_of(self.processor, busy_s * cycles_per_s, clock_hz)
