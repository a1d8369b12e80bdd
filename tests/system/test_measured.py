"""Processors by a stopwatch and a wattmeter take what was measured, and draw it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import simfl
from simfl.scenario.scenario import Scenario
from simfl.scenario.shipped import shipped_scenarios
from simfl.system.accelerator import Accelerator, Mode
from simfl.system.catalogue import Catalogue
from simfl.system.cost import MissingCost
from simfl.system.cpu import Cpu
from simfl.system.processor import Processor
from simfl.system.thermal import ThermalCpu

CLOCKS: dict[str, Any] = {"frequency_min_hz": 1e9, "frequency_max_hz": 2e9}
STEP: dict[str, Any] = {"seconds_per_batch": 0.8, "batch_examples": 16, "measured_hz": 1e9}
WATTS: dict[str, Any] = {"power_active_w": 6.0, "power_idle_w": 2.0}
WAITING: dict[str, Any] = {"memory_bound": 0.5, "stall_utilization": 0.5, "power_static_w": 0.1}

PROFILE = """# A board of one's own.
kind: device
device_class: sbc
power_idle_w: 2.0
memory_bytes: 4e9
processor: {name: cpu, cores: 4, frequency_min_hz: 1e9, frequency_max_hz: 2e9,
  seconds_per_example: 0.05, measured_hz: 1e9, power_active_w: 6.0}
"""


def of_a_step(processor: Processor, frequency_hz: float) -> tuple[float, float]:
    """Seconds and joules beyond idle of 16 examples, whatever the model."""
    for flops in (1e3, 1e9):
        cost = processor.compute(processor.cycles(16, flops), frequency_hz)
    return float(cost.duration_s), float(cost.dynamic_j + cost.static_j)


@pytest.mark.parametrize(
    "processor",
    [
        Cpu(cores=4, **CLOCKS, **STEP, **WATTS),
        Cpu(cores=4, **CLOCKS, **WATTS, seconds_per_example=0.05, measured_hz=1e9),
        Cpu(cores=4, **CLOCKS, **STEP, **WATTS, **WAITING),
        Cpu(cores=2, **CLOCKS, **STEP, **WATTS, exponent=2.5),
        ThermalCpu(cores=4, **CLOCKS, **STEP, **WATTS, frequency_levels_hz=(1e9, 2e9)),
    ],
)
def test_a_cpu_takes_and_draws_what_was_measured(processor: Cpu) -> None:
    """0.8 s and 4 W beyond idle at the clock that it was measured at."""
    assert of_a_step(processor, 1e9) == pytest.approx((0.8, 3.2))


def test_an_accelerator_takes_and_draws_what_was_measured_and_goes_with_its_clock() -> None:
    """0.8 s and 4 W beyond idle; half the time at twice the clock, for the same joules.

    A mode's clock changes the time, not the work, and its watts are its own.
    """
    modes = {"slow": Mode(frequency_max_hz=1e9, power_active_w=4.0)}
    board = Accelerator(**CLOCKS, **STEP, **WATTS, modes=modes)

    assert of_a_step(board, 1e9) == pytest.approx((0.8, 3.2))
    assert of_a_step(board, 2e9) == pytest.approx((0.4, 3.2))
    assert of_a_step(board.in_mode("slow"), 1e9) == pytest.approx((0.8, 1.6))
    assert of_a_step(replace(board, modes={}), 1e9) == pytest.approx((0.8, 3.2))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch_examples": None}, "batch_examples"),
        ({"seconds_per_batch": None}, "seconds_per_batch"),
        ({"seconds_per_example": 0.1}, "^seconds_per_batch: found beside seconds_per_example"),
        ({"cycles_per_example": 1e9}, "^seconds_per_batch: found beside cycles_per_example"),
        ({"measured_hz": 3e9}, "measured_hz: found 3e+09, accepted: 1e+09 to 2e+09"),
        ({"kappa": 1e-28}, "^power_active_w: found beside kappa"),
        ({"power_idle_w": None}, "power_idle_w"),
        (
            {"power_active_w": 1.0},
            "^power_active_w: found 1, accepted: at least 2, power_idle_w and",
        ),
    ],
)
def test_what_cannot_have_been_measured_is_refused(changes: dict[str, Any], words: str) -> None:
    """With the key that is missing or too much."""
    with pytest.raises(ValueError, match=words.replace("+", r"\+")):
        Cpu(**{"cores": 4, **CLOCKS, **STEP, **WATTS, **changes})


def test_an_accelerator_needs_a_rate_or_a_time() -> None:
    """One of them."""
    with pytest.raises(ValueError, match="or cycles_per_example, seconds_per_example or"):
        Accelerator(**CLOCKS, **WATTS)


def test_a_profile_takes_idle_power_from_its_device_and_runs(tmp_path: Path) -> None:
    """A wattmeter sees the whole board; a computing row of the log costs its 4 W beyond idle."""
    (tmp_path / "mine.yaml").write_text(PROFILE)
    device = Catalogue([tmp_path]).device("mine")
    group = {"device": "mine", "link": "wifi5_ac", "share": 1.0}
    overrides = [f"population.profiles=[{tmp_path}]", f"population.groups=[{group}]"]
    overrides += ["population.compute_noise=0.0", "stop.versions=1", "algorithm.local.epochs=1"]
    scenario = Scenario.from_yaml(shipped_scenarios()["starter"], overrides)

    run = simfl.run(scenario, tmp_path / "run")

    assert of_a_step(device.processor, 1e9) == pytest.approx((0.8, 3.2))
    computed = run.details("compute").merge(run.clients[["client", "num_examples"]], on="client")
    # At 2 GHz half of the measured seconds, and eight times the watts.
    assert computed["duration_s"].to_numpy() == pytest.approx(
        computed["num_examples"].to_numpy() * 0.025
    )
    assert computed["dynamic_j"].to_numpy() == pytest.approx(
        computed["duration_s"].to_numpy() * 32.0
    )
    (tmp_path / "mine.yaml").write_text(PROFILE.replace("seconds_per_example: 0.05, ", ""))
    with pytest.raises(MissingCost, match="seconds_per_batch, rates or flops_per_s"):
        Catalogue([tmp_path]).device("mine")
