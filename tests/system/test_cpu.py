"""Processors against closed forms and published figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simfl.system.accelerator import Accelerator, Mode
from simfl.system.catalogue import Catalogue
from simfl.system.cost import MissingCost
from simfl.system.cpu import Cpu

CPU = Cpu(cores=1, frequency_min_hz=1e8, frequency_max_hz=2e9, kappa=1e-28, cycles_per_example=2e4)
GPU = Accelerator(
    flops_per_s=1e12,
    efficiency=0.25,
    frequency_min_hz=5e8,
    frequency_max_hz=1e9,
    power_active_w=10.0,
    power_idle_w=2.0,
)


def test_tran_anchor() -> None:
    """20 cycles/bit on 4e7 bit at 1 GHz: 0.8 s and 0.08 J; at 0.5 GHz 1.6 s and 0.02 J."""
    cost = CPU.compute(8e8, [1e9, 0.5e9])

    np.testing.assert_allclose(cost.duration_s, [0.8, 1.6])
    np.testing.assert_allclose(cost.active_j, [0.08, 0.02])


def test_yang_anchor() -> None:
    """2e4 cycles/sample on 500 samples at 2 GHz: 5 ms and 4 mJ."""
    cost = CPU.compute(CPU.cycles(500, None), 2e9)

    assert (float(cost.duration_s), float(cost.active_j)) == pytest.approx((5e-3, 4e-3))


@given(cycles=st.floats(1e3, 1e13), frequency_hz=st.floats(2e8, 2e9), cores=st.integers(2, 64))
def test_scaling_laws(cycles: float, frequency_hz: float, cores: int) -> None:
    """f/2: t x2, E/4, P/8. Twice the work: t, E x2. n cores: t/n, E unchanged."""
    base = CPU.compute(cycles, frequency_hz)
    slower = CPU.compute(cycles, frequency_hz / 2)
    twice = CPU.compute(2 * cycles, frequency_hz)
    many = replace(CPU, cores=cores, power_static_w=0.3).compute(cycles, frequency_hz)
    one = replace(CPU, power_static_w=0.3).compute(cycles, frequency_hz)

    assert slower.duration_s == pytest.approx(2 * base.duration_s)
    assert slower.dynamic_j == pytest.approx(base.dynamic_j / 4)
    assert slower.dynamic_j / slower.duration_s == pytest.approx(
        base.dynamic_j / base.duration_s / 8
    )
    assert (twice.duration_s, twice.dynamic_j) == pytest.approx(
        (2 * base.duration_s, 2 * base.dynamic_j)
    )
    assert many.duration_s == pytest.approx(one.duration_s / cores)
    assert many.active_j == pytest.approx(one.active_j)


def test_static_power_anchor() -> None:
    """0.3 W static: 0.625, 0.400, 0.550 nJ per cycle at 0.5, 1, 2 GHz; the least at 1.1447 GHz."""
    cpu = replace(CPU, power_static_w=0.3)
    grid = np.linspace(0.5e9, 2e9, 150001)

    at_three = cpu.compute(1.0, [0.5e9, 1e9, 2e9]).active_j
    on_grid = cpu.compute(1.0, grid).active_j

    np.testing.assert_allclose(at_three, [0.625e-9, 0.4e-9, 0.55e-9])
    assert grid[on_grid.argmin()] == pytest.approx(1.1447e9, rel=1e-4)
    assert on_grid.min() == pytest.approx(0.3931e-9, rel=1e-4)


def test_exponent_of_power() -> None:
    """With power kappa f^2, energy is kappa W f: kappa = 1e-19 at 1 GHz gives 0.1 W."""
    cost = replace(CPU, kappa=1e-19, exponent=2.0).compute(2e9, 1e9)

    assert float(cost.active_j) == pytest.approx(0.1 * 2.0)


def test_flops_work_at_sustained_rate() -> None:
    """1e10 FLOP/s at 50 %: 2.5e9 FLOPs, three forward passes each, take 1.5 s at the highest clock.

    Half the clock takes twice as long, twice the efficiency half as long.
    """
    cpu = Cpu(
        cores=4,
        frequency_min_hz=1e9,
        frequency_max_hz=2e9,
        kappa=1e-28,
        flops_per_s=1e10,
        efficiency=0.5,
    )
    cycles = cpu.cycles(examples=100, forward_flops=2.5e7)
    better = replace(cpu, efficiency=1.0)

    assert float(cpu.compute(cycles, 2e9).duration_s) == pytest.approx(1.5)
    assert float(cpu.compute(cycles, 1e9).duration_s) == pytest.approx(3.0)
    assert float(better.compute(better.cycles(100, 2.5e7), 2e9).duration_s) == pytest.approx(0.75)


def test_power_table_takes_precedence() -> None:
    """A measured table replaces kappa, is interpolated, and splits off its static part."""
    cpu = replace(
        CPU,
        cores=2,
        frequency_min_hz=1e9,
        power_table=((1e9, 0.5), (2e9, 1.5)),
        power_static_w=0.25,
        kappa=1.0,
    )

    cost = cpu.compute(3e9, [1e9, 1.5e9])

    np.testing.assert_allclose(cost.duration_s, [1.5, 1.0])
    np.testing.assert_allclose(cost.static_j, [0.75, 0.5])
    np.testing.assert_allclose(cost.active_j, [2 * 1.5 * 0.5, 2 * 1.0 * 1.0])


def test_measured_phone_is_most_frugal_in_the_middle() -> None:
    """Snapdragon 865: 0.3247 nJ/cycle at 1.3056 GHz is the least, 0.6046 at the highest clock."""
    processor = Catalogue().device("phone_high_sd865").processor
    levels = processor.levels()
    assert levels is not None

    energy_j = processor.compute(1.0, levels).active_j

    assert levels[energy_j.argmin()] == 1.3056e9
    assert energy_j.min() == pytest.approx(0.3247e-9, rel=1e-3)
    assert energy_j[-1] == pytest.approx(0.6046e-9, rel=1e-3)


def test_accelerator_is_linear_in_utilisation() -> None:
    """2.5e11 FLOPs at 2.5e11 FLOP/s: 1 s and 8 J above idle; half the clock: 2 s, the same 8 J."""
    cost = GPU.compute(GPU.flops_cycles(2.5e11), [1e9, 5e8])

    np.testing.assert_allclose(cost.duration_s, [1.0, 2.0])
    np.testing.assert_allclose(cost.active_j, [8.0, 8.0])


def test_nearest_level() -> None:
    """Frequencies are clipped to the range and moved to the nearest level, the lower in a tie."""
    cpu = replace(CPU, frequency_levels_hz=(5e8, 1e9, 2e9))

    rounded = cpu.nearest_level([1.0, 7.4e8, 7.5e8, 7.6e8, 1.9e9, 9e9])

    np.testing.assert_array_equal(rounded, [5e8, 5e8, 5e8, 1e9, 2e9, 2e9])
    np.testing.assert_array_equal(CPU.nearest_level([1.0, 7.4e8, 9e9]), [1e8, 7.4e8, 2e9])


def test_single_level() -> None:
    """One level is the answer to every frequency."""
    cpu = replace(CPU, frequency_levels_hz=(1e9,))

    np.testing.assert_array_equal(cpu.nearest_level([1.0, 2e9]), [1e9, 1e9])


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"cycles_per_example": None}, "seconds_per_batch, rates or flops_per_s"),
        ({"kappa": None}, "kappa, power_table or power_active_w"),
        ({"cycles_per_example": None, "flops_per_s": 1e9}, "efficiency"),
    ],
)
def test_missing_cost(changes: dict[str, float | None], field: str) -> None:
    """A figure without which time or energy is unknown is an error that names it."""
    with pytest.raises(MissingCost, match=f"no figure for .*{field}"):
        replace(CPU, **changes)  # type: ignore[arg-type]


def test_work_per_bit() -> None:
    """Tran: 20 cycles/bit on one example of 5 MB are 8e8 cycles, 0.8 s at 1 GHz, twice for two."""
    cpu = replace(CPU, cycles_per_example=None, cycles_per_bit=20.0)

    cycles = cpu.cycles([1, 2], None, example_bits=8 * 5e6)

    np.testing.assert_allclose(cycles, [8e8, 1.6e9])
    np.testing.assert_allclose(cpu.compute(cycles, 1e9).duration_s, [0.8, 1.6])
    with pytest.raises(MissingCost, match="example_bits"):
        cpu.cycles(1, None)


def test_memory_bound_share_does_not_speed_up() -> None:
    """t = t_max (rho f_max / f + 1 - rho): 40 % memory-bound, half the clock is 1.6 times as long.

    At 2 GHz, 2e9 cycles take 1 s, 0.6 s busy and 0.4 s waiting; at 1 GHz 1.2 s busy. A waiting core
    draws a quarter of its power, (0.5 + 0.8) W at 2 GHz and (0.5 + 0.1) W at 1 GHz.
    """
    cpu = replace(CPU, power_static_w=0.5, memory_bound=0.4, stall_utilization=0.25)

    cost = cpu.compute(2e9, [2e9, 1e9])

    np.testing.assert_allclose(cost.duration_s, [1.0, 1.6])
    np.testing.assert_allclose(cost.static_j, [0.5 * 0.7, 0.5 * 1.3])
    np.testing.assert_allclose(cost.dynamic_j, [0.8 * 0.7, 0.1 * 1.3])


@given(memory_bound=st.floats(0.0, 0.99), frequency_hz=st.floats(2e8, 2e9))
def test_memory_bound_time_between_the_limits(memory_bound: float, frequency_hz: float) -> None:
    """Never faster than the highest clock, never slower than without a memory-bound share."""
    seconds = replace(CPU, memory_bound=memory_bound).compute(1e9, frequency_hz).duration_s

    assert seconds * (1 + 1e-12) >= 0.5
    assert seconds <= CPU.compute(1e9, frequency_hz).duration_s * (1 + 1e-12)


def test_no_power_no_joules() -> None:
    """kappa 0 and no static power: a computation takes time and costs nothing."""
    cost = replace(CPU, kappa=0.0).compute(1e9, 1e9)

    assert (float(cost.duration_s), float(cost.active_j)) == (1.0, 0.0)


def test_missing_forward_flops() -> None:
    """A processor rated in FLOPs refuses a model whose FLOPs are unknown."""
    for forward_flops in (None, 0.0, float("nan")):
        with pytest.raises(MissingCost, match="forward_flops"):
            GPU.cycles(10, forward_flops)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"frequency_min_hz": 3e9}, "frequency_min_hz"),
        ({"frequency_levels_hz": (2e9, 1e9)}, "frequency_levels_hz"),
        ({"frequency_levels_hz": (1e9, 4e9)}, "frequency_levels_hz"),
        ({"frequency_levels_hz": ()}, "frequency_levels_hz"),
        ({"flops_per_s": 1e9}, "cycles_per_example: found beside flops_per_s, accepted: one"),
        ({"cycles_per_bit": 20.0}, "cycles_per_bit: found beside|beside cycles_per_bit"),
        ({"power_table": ((1e9, 1.0), (2e9, 2.0))}, "power_table"),
        ({"power_table": ((2e9, 1.0), (1e8, 2.0))}, "power_table"),
        ({"power_table": ((1e8, 0.1), (2e9, 2.0)), "power_static_w": 0.2}, "power_table"),
    ],
)
def test_contradictory_fields(changes: dict[str, object], field: str) -> None:
    """Fields that contradict each other are refused, the message names the field first."""
    with pytest.raises(ValueError, match=f"^{field}"):
        replace(CPU, **changes)  # type: ignore[arg-type]


def test_accelerator_power_order() -> None:
    """Active power below idle power is refused."""
    with pytest.raises(ValueError, match=r"^power_active_w"):
        replace(GPU, power_active_w=1.0)


def test_modes() -> None:
    """A mode caps the clock: half the clock is half the rate, at the mode's power."""
    gpu = replace(GPU, modes={"eco": Mode(frequency_max_hz=5e8, power_active_w=4.0)})

    cost = (eco := gpu.in_mode("eco")).compute(eco.flops_cycles(2.5e11), eco.frequency_max_hz)

    assert (float(cost.duration_s), float(cost.active_j)) == pytest.approx((2.0, 4.0))
    assert eco.nearest_level(1e9) == 5e8
    assert replace(gpu, frequency_levels_hz=(5e8, 1e9)).in_mode("eco").levels() == [5e8]
    with pytest.raises(ValueError, match="unknown mode 'ecco', did you mean 'eco'"):
        gpu.in_mode("ecco")


@pytest.mark.parametrize(
    ("mode", "field"),
    [(Mode(2e9, 4.0), r"modes\.eco\.frequency_max_hz"), (Mode(5e8, 1.0), r"modes\.eco\.power_ac")],
)
def test_impossible_modes(mode: Mode, field: str) -> None:
    """A mode neither overclocks nor draws less than nothing does."""
    with pytest.raises(ValueError, match=f"^{field}"):
        replace(GPU, modes={"eco": mode})


def test_power_law_of_a_core():
    """kappa and static power as configured, fitted to a table, or none under another exponent."""
    common = {"cores": 4, "frequency_min_hz": 1e9, "frequency_max_hz": 2e9, "cycles_per_example": 1}
    table = tuple((f, 0.3 + 2e-28 * f**3) for f in (1e9, 1.5e9, 2e9))

    assert Cpu(**common, kappa=1e-28, power_static_w=0.2).power_law() == (1e-28, 0.2)
    fitted = Cpu(**common, power_table=table, power_static_w=0.3).power_law()
    assert fitted == pytest.approx((2e-28, 0.3))
    assert Cpu(**common, kappa=1e-28, exponent=2.5).power_law() is None
