"""A ready-made population of real devices (`paper` uses ranges instead).

Work is counted in floating-point operations at measured or estimated rates (GFLOP/s times
efficiency), so that a larger model takes longer; in `paper` a training step takes the same cycles
for any model. docs/hardware.md explains why the two differ a thousandfold.

The spreads are those of phones in the field: a sigma of 0.39 to 0.78 between devices of the same
model; from run to run on one device, a coefficient of variation with median 0.02 and 90th
percentile 0.18 (997 training latencies of FLHetBench, CVPR 2024, github.com/Carkham/FLHetBench).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from simfl.system.populations.catalogue import CatalogueMix, Group

FIRST_LOOK = (
    Group("phone_high_sd865", "wifi5_ac", share=0.25),
    Group("phone_mid_sd660", "lte_2021", share=0.25),
    Group("phone_entry_heliog80", "wifi5_ac", share=0.2),
    Group("rpi_4b", "wifi5_ac", share=0.2),
    Group("jetson_nano", "ethernet_1g", share=0.1),
)
"""Phones in three price classes, boards and a few accelerators; an example, not a market survey."""


@dataclass(frozen=True, kw_only=True)
class DeviceMix(CatalogueMix):
    """A mix of catalogue devices with default groups, and the spreads of phones in the field."""

    name: ClassVar[str] = "device"

    groups: Annotated[tuple[Group, ...], "devices with their links and shares"] = FIRST_LOOK
    speed_spread: Annotated[float, ">= 0", "<= 10", "sigma between clients, of compute times"] = 0.5
    compute_noise: Annotated[float, ">= 0", "<= 10", "sigma between rounds, of compute times"] = (
        0.05
    )
