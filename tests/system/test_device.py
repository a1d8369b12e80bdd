"""Servers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simfl.system.accelerator import Accelerator
from simfl.system.cost import MissingCost
from simfl.system.cpu import Cpu
from simfl.system.device import Server

SERVER = Server(
    name="edge",
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
    overhead_s=0.5,
)


@pytest.mark.parametrize(
    ("flops", "bytes_moved", "duration_s"),
    [(1e12, 1e9, 2.5), (1e9, 1e10, 1.5), (0.0, 0.0, 0.5)],
)
def test_slower_of_computing_and_memory(
    flops: float, bytes_moved: float, duration_s: float
) -> None:
    """The slower of computing (5e11 FLOP/s) and memory (1e10 B/s) decides, plus the overhead.

    The machine draws 100 W above idle all the while.
    """
    cost = SERVER.execute(flops, bytes_moved)

    assert float(cost.duration_s) == pytest.approx(duration_s)
    assert float(cost.active_j) == pytest.approx(100.0 * duration_s)


def test_server_with_a_cpu() -> None:
    """A CPU pays kappa f^3 and static power on every core for the whole duration."""
    cpu = Cpu(
        cores=4,
        frequency_min_hz=1e9,
        frequency_max_hz=2e9,
        kappa=1e-28,
        power_static_w=0.2,
        flops_per_s=1e12,
        efficiency=0.5,
    )

    cost = replace(SERVER, processor=cpu).execute(1e9, 1e10)

    assert float(cost.duration_s) == pytest.approx(1.5)
    assert float(cost.dynamic_j) == pytest.approx(4 * 0.8 * 1.5)
    assert float(cost.static_j) == pytest.approx(4 * 0.2 * 1.5)


def test_server_without_a_rate() -> None:
    """A CPU known by cycles per example only cannot serve; the error names machine and field."""
    cpu = Cpu(
        cores=1, frequency_min_hz=1e9, frequency_max_hz=2e9, kappa=1e-28, cycles_per_example=1e6
    )

    with pytest.raises(MissingCost, match=r"^edge: no figure for flops_per_s"):
        replace(SERVER, processor=cpu).execute(1e9, 1e9)
