"""Thermal throttling against a step-by-step integration and by hand."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simfl.system.catalogue import Catalogue
from simfl.system.cpu import Cpu
from simfl.system.thermal import ThermalCpu

# 1, 2 and 4.375 W at 1, 1.5 and 2 GHz: at 8 K/W they settle at 33, 41 and 60 degrees C.
PHONE = ThermalCpu(
    cores=1,
    frequency_min_hz=1e9,
    frequency_max_hz=2e9,
    frequency_levels_hz=(1e9, 1.5e9, 2e9),
    power_table=((1e9, 1.0), (1.5e9, 2.0), (2e9, 4.375)),
    cycles_per_example=1.0,
)
PLAIN = Cpu(**{one.name: getattr(PHONE, one.name) for one in fields(Cpu)})


def stepped(cpu: ThermalCpu, cycles: float, clock_hz: float, step_s: float) -> tuple[float, float]:
    """Seconds and joules of the governor's loop, integrated in exact exponential steps."""
    levels = [f for f in cpu.frequency_levels_hz or () if f < clock_hz] + [clock_hz]
    power = {f: float(np.interp(f, *np.array(cpu.power_table).T)) for f in levels}
    decay = math.exp(-step_s / cpu.thermal_resistance_k_per_w / cpu.heat_capacity_j_per_k)
    at, temperature, seconds, joules = len(levels) - 1, cpu.temperature_rest_c, 0.0, 0.0
    while cycles > 0:
        settled = cpu.temperature_rest_c + cpu.thermal_resistance_k_per_w * power[levels[at]]
        took = min(step_s, cycles / levels[at])
        cycles -= took * levels[at]
        seconds, joules = seconds + took, joules + took * power[levels[at]]
        temperature = settled + (temperature - settled) * decay
        if temperature >= cpu.temperature_hot_c and settled > temperature and at > 0:
            at -= 1
        elif temperature <= cpu.temperature_cool_c and settled < temperature:
            at = min(at + 1, len(levels) - 1)
    return seconds, joules


def test_a_short_computation_is_not_throttled() -> None:
    """Heating from 25 to 45 degrees takes 320 ln(35 / 15) = 271 s at 2 GHz: 542e9 cycles."""
    limit = 2e9 * 320 * math.log(35 / 15)

    for cycles in (0.0, 1e9, 0.999 * limit):
        cost, plain = PHONE.compute(cycles, 2e9), PLAIN.compute(cycles, 2e9)
        assert float(cost.duration_s) == pytest.approx(float(plain.duration_s))
        assert float(cost.active_j) == pytest.approx(float(plain.active_j))
    assert PHONE.compute(1.1 * limit, 2e9).duration_s > PLAIN.compute(1.1 * limit, 2e9).duration_s


def test_a_cool_clock_is_never_throttled() -> None:
    """At 1.5 GHz the case settles at 41 degrees, below the threshold, for as long as it likes."""
    cost = PHONE.compute(1e15, [1e9, 1.5e9])

    np.testing.assert_allclose(cost.duration_s, [1e6, 1e15 / 1.5e9])


def test_one_period_by_hand() -> None:
    """Heat up, cool from 45 to 42 at 1.5 GHz, heat up again at 2 GHz, cool again.

    Cooling takes 320 ln(4 / 1) s, heating from 42 to 45 takes 320 ln(18 / 15) s.
    """
    first, cool, heat = (320 * math.log(ratio) for ratio in (35 / 15, 4 / 1, 18 / 15))
    cycles = 2e9 * first + 1.5e9 * cool + 2e9 * heat + 1.5e9 * 10

    cost = PHONE.compute(cycles, 2e9)

    assert float(cost.duration_s) == pytest.approx(first + cool + heat + 10)
    assert float(cost.active_j) == pytest.approx(4.375 * (first + heat) + 2.0 * (cool + 10))


@pytest.mark.parametrize("cycles", [5e11, 1e12, 3e12, 2e13])
def test_equal_to_a_step_by_step_governor(cycles: float) -> None:
    """The closed form is the limit of the governor's loop for short steps."""
    cost = PHONE.compute(cycles, 2e9)

    seconds, joules = stepped(PHONE, cycles, 2e9, 0.05)

    assert float(cost.duration_s) == pytest.approx(seconds, rel=2e-3)
    assert float(cost.active_j) == pytest.approx(joules, rel=2e-3)


def test_between_the_thresholds_it_stays() -> None:
    """With 40 degrees as the cool threshold, 1.5 GHz (41 degrees) is where it ends."""
    cpu = replace(PHONE, temperature_cool_c=40.0)
    first = 320 * math.log(35 / 15)

    cost = cpu.compute(2e9 * first + 1.5e9 * 1e6, 2e9)

    assert float(cost.duration_s) == pytest.approx(first + 1e6)


def test_too_hot_at_every_clock() -> None:
    """A case that even the lowest clock heats too much computes at the lowest clock."""
    cpu = replace(PHONE, thermal_resistance_k_per_w=25.0, heat_capacity_j_per_k=1.0)
    first = 25.0 * math.log(4.375 * 25 / (4.375 * 25 - 20))

    cost = cpu.compute(2e9 * first + 1e9 * 1000, 2e9)

    assert float(cost.duration_s) == pytest.approx(first + 1000)


@given(cycles=st.floats(0, 1e16), clock_hz=st.sampled_from([1e9, 1.5e9, 2e9]))
def test_between_the_unthrottled_and_the_lowest_clock(cycles: float, clock_hz: float) -> None:
    """Never faster than the clock asked for, never slower than the lowest; vectorised alike."""
    seconds = PHONE.compute(cycles, clock_hz).duration_s

    assert cycles / clock_hz * (1 - 1e-9) <= seconds <= cycles / 1e9 * (1 + 1e-9)
    together = PHONE.compute([cycles, 1e12], [clock_hz, 2e9]).duration_s
    assert float(together[0]) == float(seconds)


def test_from_a_device_file(tmp_path) -> None:
    """`name: thermal_cpu` in a device file, with the thermal keys beside the CPU's."""
    (tmp_path / "hot.yaml").write_text(
        "kind: device\ndevice_class: phone\npower_idle_w: 1\nmemory_bytes: 1e9\nprocessor:\n"
        "  {name: thermal_cpu, cores: 1, frequency_min_hz: 1e9, frequency_max_hz: 2e9,"
        " frequency_levels_hz: [1e9, 2e9], kappa: 1e-28, cycles_per_example: 1e7,"
        " heat_capacity_j_per_k: 80}\n"
    )

    processor = Catalogue([tmp_path]).device("hot").processor

    assert isinstance(processor, ThermalCpu)
    assert processor.heat_capacity_j_per_k == 80.0


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"frequency_levels_hz": None}, "frequency_levels_hz"),
        ({"temperature_cool_c": 45.0}, "temperature_cool_c"),
        ({"temperature_cool_c": 25.0}, "temperature_cool_c"),
    ],
)
def test_contradictory_fields(changes: dict[str, object], field: str) -> None:
    """Levels are needed, and the thresholds have an order."""
    with pytest.raises(ValueError, match=f"^{field}"):
        replace(PHONE, **changes)  # type: ignore[arg-type]
