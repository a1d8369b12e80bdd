"""Small worlds with round numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simfl.streams import Streams
from simfl.system.accelerator import Accelerator
from simfl.system.cpu import Cpu
from simfl.system.device import Device, Server
from simfl.system.link import FixedRateLink
from simfl.system.world import World

SLOW = Device(
    name="slow",
    device_class="sbc",
    processor=Cpu(
        cores=1,
        frequency_min_hz=0.5e9,
        frequency_max_hz=1e9,
        kappa=1e-28,
        cycles_per_example=1e7,
    ),
    power_idle_w=2.0,
    memory_bytes=1e9,
)
FAST = Device(
    name="fast",
    device_class="phone",
    processor=Cpu(
        cores=2,
        frequency_min_hz=1e9,
        frequency_max_hz=2e9,
        frequency_levels_hz=(1e9, 1.5e9, 2e9),
        kappa=1e-28,
        power_static_w=0.25,
        flops_per_s=1e10,
        efficiency=0.5,
    ),
    power_idle_w=0.5,
    memory_bytes=1e9,
)
NEAR = FixedRateLink(
    uplink_bps=1e6,
    downlink_bps=2e6,
    rtt_s=0.2,
    power_transmit_w=1.0,
    power_receive_w=0.75,
    power_idle_w=0.25,
)
FAR = replace(NEAR, uplink_bps=0.5e6, jitter_s=0.1, power_idle_w=0.125)
BACKHAUL = FixedRateLink(
    uplink_bps=1e8,
    downlink_bps=1e8,
    rtt_s=0.05,
    power_transmit_w=2.0,
    power_receive_w=1.0,
    power_idle_w=0.5,
    energy_j_per_byte=2e-7,
)
SERVER = Server(
    name="server",
    processor=Accelerator(
        flops_per_s=1e12,
        efficiency=0.5,
        frequency_min_hz=1e9,
        frequency_max_hz=2e9,
        power_active_w=160.0,
        power_idle_w=60.0,
    ),
    power_idle_w=60.0,
    memory_bandwidth_bytes_per_s=1e10,
    overhead_s=0.005,
)


@pytest.fixture
def make_world() -> Callable[..., World]:
    """A world of four clients, devices slow fast slow fast, links near near far far."""

    def make(seed: int = 7, clients: int = 4, **changes: Any) -> World:
        ones = np.ones(clients)
        client = np.arange(clients)
        device_index = client % 2
        columns: dict[str, Any] = {
            "streams": Streams(seed),
            "devices": [SLOW, FAST],
            "device_index": device_index,
            "links": [NEAR, FAR],
            "link_names": ["near", "far"],
            "link_index": client // 2 % 2,
            "home_edge": client // 2 % 2,
            "position_m": np.zeros((clients, 2)),
            "edge_position_m": np.zeros((2, 2)),
            "frequency_min_hz": np.array([0.5e9, 1e9])[device_index],
            "frequency_max_hz": np.array([1e9, 2e9])[device_index],
            "speed_factor": ones,
            "work_factor": ones,
            "rate_factor": ones,
            "edge_server": SERVER,
            "cloud_server": SERVER,
            "backhaul": BACKHAUL,
        }
        return World(**{**columns, **changes})

    return make
