"""Processors by kinds of work: what a step takes at any clock; one rate is what it always was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from simfl.assembly.simulation import _NO_WEIGHTS
from simfl.common.arrays import FloatArray
from simfl.common.contract import PartMisbehaves
from simfl.common.model_work import ModelWork
from simfl.system.accelerator import Accelerator, Mode
from simfl.system.catalogue import Catalogue
from simfl.system.checked_costs import cycles_per_training_of, unpowered_cycles_of
from simfl.system.cost import MissingCost
from simfl.system.cpu import Cpu
from simfl.system.measured import MeasuredProcessor
from simfl.system.rates import Rates
from simfl.system.thermal import ThermalCpu

CLOCKS: dict[str, Any] = {"frequency_min_hz": 1e9, "frequency_max_hz": 2e9}
WORK = ModelWork(
    convolution=4e9,
    depthwise=1e8,
    dense=2e9,
    recurrent=3e8,
    embedding=5e6,
    traffic_bytes=6e6,
    recurrent_places=10,
    update=4e6,
    kernels=3e6,
)
KINDS: dict[str, Any] = {
    "rates": Rates(
        convolution=4e10,
        depthwise=1e9,
        dense=1e11,
        recurrent=1e9,
        embedding=1e9,
        update=2e9,
        kernels=1e8,
    ),
    "bandwidth_bytes_per_s": 2e9,
    "seconds_per_step": 0.05,
    "seconds_per_place": 0.002,
}
EXAMPLE_S = 3 * (0.1 + 0.1 + 0.02 + 0.3 + 0.003)
STEP_S = 0.005 + 0.002 + 0.03 + 0.05 + 10 * 0.002
SECONDS = 40 * EXAMPLE_S + 5 * STEP_S
"""Of 40 examples in 5 steps, at the clock that KINDS were measured at."""


def cpu(**changes: Any) -> Cpu:
    """Two cores, of KINDS at the highest clock unless told otherwise."""
    return Cpu(**{"cores": 2, "kappa": 1e-28, **CLOCKS, **KINDS, **changes})


def gpu(**changes: Any) -> Accelerator:
    """An accelerator of KINDS."""
    watts = {"power_active_w": 10.0, "power_idle_w": 2.0}
    return Accelerator(**{**watts, **CLOCKS, **KINDS, **changes})


def seconds(processor: MeasuredProcessor, frequency_hz: float, work: ModelWork = WORK) -> float:
    """Seconds of 40 examples in 5 steps."""
    cycles = processor.training_cycles(40, work, 5)
    return float(processor.compute(cycles, frequency_hz).duration_s)


@pytest.mark.parametrize("processor", [cpu(), gpu()])
def test_a_step_is_the_sum_of_its_kinds_and_goes_with_the_clock(
    processor: MeasuredProcessor,
) -> None:
    """By hand; and twice as long at half the clock."""
    assert seconds(processor, 2e9) == pytest.approx(SECONDS)
    assert seconds(processor, 1e9) == pytest.approx(2 * SECONDS)


@pytest.mark.parametrize("make", [cpu, gpu])
def test_what_was_measured_at_a_clock_holds_at_that_clock(make: Any) -> None:
    """Rates, bandwidth and fixed times alike, also when the measured processor is made anew."""
    measured = make(measured_hz=1e9)

    assert seconds(measured, 1e9) == pytest.approx(SECONDS)
    assert seconds(measured, 2e9) == pytest.approx(SECONDS / 2)
    assert replace(measured) == measured


def test_the_share_that_waits_for_memory_does_not_go_with_the_clock() -> None:
    """Half of the time at the highest clock: 1.5 times as long at half of it, not twice."""
    waiting = cpu(memory_bound=0.5)

    assert seconds(waiting, 2e9) == pytest.approx(SECONDS)
    assert seconds(waiting, 1e9) == pytest.approx(1.5 * SECONDS)
    assert seconds(cpu(memory_bound=0.5, measured_hz=1e9), 1e9) == pytest.approx(SECONDS)


def test_a_mode_goes_with_its_clock() -> None:
    """Half the clock, twice the time, whatever the kind."""
    slow = gpu(modes={"slow": Mode(frequency_max_hz=1e9, power_active_w=5.0)}).in_mode("slow")

    assert seconds(slow, 1e9) == pytest.approx(2 * SECONDS)


def test_an_accelerator_draws_a_share_while_it_waits_for_its_host() -> None:
    """Only of a step's fixed time, at any clock and in any mode; a CPU has no such wait."""
    modes = {"slow": Mode(frequency_max_hz=1e9, power_active_w=5.0)}
    waiting = gpu(stall_utilization=0.25, modes=modes)

    for processor in (waiting, gpu(stall_utilization=0.25, measured_hz=1e9)):
        saved_s = processor.unpowered_cycles(5) / processor.cycles_per_s
        fixed_s = 5 * processor.seconds_per_step
        assert saved_s == pytest.approx(0.75 * fixed_s)
    slow = waiting.in_mode("slow")
    assert slow.unpowered_cycles(5) == pytest.approx(waiting.unpowered_cycles(5))
    for none in (gpu(), gpu(stall_utilization=0.0, seconds_per_step=0.0), cpu()):
        assert not none.unpowered_cycles(np.array([5.0, 0.0])).any()


def test_the_fixed_time_of_a_training_goes_with_the_clock_and_waits_as_steps_do() -> None:
    """Whatever the processor is given as its speed; half the clock, twice the time."""
    modes = {"slow": Mode(frequency_max_hz=1e9, power_active_w=5.0)}
    fixed = {"seconds_per_training": 3.0}
    for processor in (gpu(**fixed), gpu(modes=modes, **fixed), cpu(**fixed)):
        assert processor.cycles_per_training == pytest.approx(3.0 * processor.cycles_per_s)
    at_half = gpu(measured_hz=1e9, **fixed)
    assert at_half.cycles_per_training == pytest.approx(3.0 * 1e9)
    slow = gpu(modes=modes, **fixed).in_mode("slow")
    assert slow.cycles_per_training / slow.cycles_per_s == pytest.approx(6.0)
    waiting = gpu(stall_utilization=0.25, seconds_per_step=0.0, **fixed)
    assert waiting.unpowered_cycles(9.0, 2.0) == pytest.approx(
        2 * 0.75 * waiting.cycles_per_training
    )
    assert not gpu(**fixed).unpowered_cycles(0.0, 1.0)
    assert not gpu().cycles_per_training


def test_kinds_without_a_rate_go_at_the_one_rate() -> None:
    """And tables, weights, traffic and steps take no time where nobody says so."""
    one = cpu(
        rates=Rates(convolution=4e10),
        bandwidth_bytes_per_s=None,
        seconds_per_step=0.0,
        seconds_per_place=0.0,
        flops_per_s=1e10,
        efficiency=0.5,
    )

    assert seconds(one, 2e9) == pytest.approx(40 * 3 * (0.1 + (1e8 + 2e9 + 3e8) / 5e9))


@pytest.mark.parametrize(
    "processor",
    [
        Cpu(cores=3, kappa=1e-28, flops_per_s=7e9, efficiency=0.3, memory_bound=0.1, **CLOCKS),
        ThermalCpu(
            cores=3,
            kappa=1e-28,
            flops_per_s=7e9,
            efficiency=0.3,
            frequency_levels_hz=(1e9, 2e9),
            **CLOCKS,
        ),
        Cpu(cores=3, kappa=1e-28, cycles_per_example=7e6, **CLOCKS),
        Cpu(cores=3, kappa=1e-28, cycles_per_bit=7e6, **CLOCKS),
        Accelerator(
            power_active_w=9.0, power_idle_w=1.0, flops_per_s=7e9, efficiency=0.3, **CLOCKS
        ),
    ],
)
def test_one_rate_means_what_it_always_did(processor: MeasuredProcessor) -> None:
    """To the last bit the cycles of all operations together, in whatever steps."""
    examples = np.array([1.0, 7.0, 33.3])

    cycles = processor.training_cycles(examples, WORK, np.array([1.0, 2.0, 9.0]), 784.0)

    assert np.array_equal(cycles, processor.cycles(examples, 6.4e9, 784.0))


def test_a_kind_without_any_rate_is_no_silent_zero() -> None:
    """It is named; a model without that kind needs no such rate."""
    partial = cpu(rates=Rates(convolution=4e10, depthwise=1e9, dense=1e11))

    with pytest.raises(MissingCost, match=r"rates\.recurrent or flops_per_s"):
        partial.training_cycles(1, WORK)
    assert partial.training_cycles(1, replace(WORK, recurrent=0.0)) > 0
    with pytest.raises(MissingCost, match="forward_flops of the model"):
        partial.training_cycles(1, ModelWork())


def test_what_rates_have_had_only_since_is_not_in_a_runs_key() -> None:
    """A run on a machine without rates of weights is resumed as what it was."""
    assert _NO_WEIGHTS in repr(Catalogue().device("rpi_4b"))
    assert _NO_WEIGHTS not in repr(cpu())


@pytest.mark.parametrize("measured", [{"cycles_per_example": 1e6}, {"seconds_per_example": 0.1}])
@pytest.mark.parametrize("make", [cpu, gpu])
def test_a_cost_of_whole_steps_excludes_kinds(make: Any, measured: dict[str, float]) -> None:
    """Two answers to one question; the error has the keys of the file."""
    (name,) = measured
    with pytest.raises(ValueError, match=f"^{name}: found beside rates, .*, accepted: one or the"):
        make(**measured)


OF_MODELS = {
    "resnet18": ModelWork(convolution=3627122688, dense=1024000, traffic_bytes=61122464),
    "resnet50": ModelWork(convolution=8174272512, dense=4096000, traffic_bytes=257322912),
    "mobilenet_v2": ModelWork(
        convolution=557555712, depthwise=41432832, dense=2560000, traffic_bytes=156066720
    ),
    "vit_b_16": ModelWork(convolution=231211008, dense=34896445440, traffic_bytes=367877152),
}
"""Of torchvision's models on an image of 224x224 (tests/learning/test_work.py counts them)."""


@pytest.mark.parametrize(
    ("board", "measured_s"),
    [
        (
            "rpi_5",
            {"resnet18": 116.85, "resnet50": 322.26, "mobilenet_v2": 144.35, "vit_b_16": 470.39},
        ),
        (
            "rpi_4b",
            {"resnet18": 218.37, "resnet50": 652.54, "mobilenet_v2": 305.47, "vit_b_16": 1148.19},
        ),
    ],
)
def test_boards_take_what_was_measured(board: str, measured_s: dict[str, float]) -> None:
    """20 batches of 16 images, github.com/jafermarq/federated-embedded-vision; at half the clock
    twice as long."""
    processor = Catalogue().device(board).processor

    for model, wanted_s in measured_s.items():
        cycles = processor.training_cycles(320, OF_MODELS[model], 20)
        took_s = float(processor.compute(cycles, processor.frequency_max_hz).duration_s)
        assert took_s == pytest.approx(wanted_s, rel=0.001), model
        slow_s = float(processor.compute(cycles, processor.frequency_max_hz / 2).duration_s)
        assert slow_s == pytest.approx(2 * took_s)


def test_a_processor_that_waits_longer_than_it_trains_is_named() -> None:
    """More unpowered cycles than cycles would be negative joules."""

    class Sleepy(Accelerator):
        def unpowered_cycles(self, steps: ArrayLike, trainings: ArrayLike = 0.0) -> FloatArray:
            return 100.0 * np.asarray(steps, dtype=float)

    processor = Sleepy(
        flops_per_s=1e9,
        efficiency=0.5,
        frequency_min_hz=1e8,
        frequency_max_hz=1e9,
        power_active_w=10.0,
        power_idle_w=2.0,
    )
    steps, none = np.array([1.0, 3.0]), np.zeros(2)
    enough = np.array([100.0, 300.0])

    assert unpowered_cycles_of(processor, steps, none, enough).tolist() == [100, 300]
    with pytest.raises(PartMisbehaves, match=r"Sleepy.unpowered_cycles gave 300.* at most the 299"):
        unpowered_cycles_of(processor, steps, none, np.array([100.0, 299.0]))


@pytest.mark.parametrize("given", [-1.0, float("nan"), [1.0, 2.0], None])
def test_a_processor_whose_trainings_cost_no_number_of_cycles_is_named(given: Any) -> None:
    """Of a user's own processor only: shipped ones are not asked twice."""

    class Odd(Accelerator):
        @property
        def cycles_per_training(self) -> float:
            result: float = given
            return result

    processor = Odd(
        flops_per_s=1e9,
        efficiency=0.5,
        frequency_min_hz=1e8,
        frequency_max_hz=1e9,
        power_active_w=10.0,
        power_idle_w=2.0,
    )

    with pytest.raises(PartMisbehaves, match=r"Odd.cycles_per_training"):
        cycles_per_training_of(processor)
