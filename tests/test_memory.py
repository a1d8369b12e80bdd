"""Devices without the memory that training takes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import simfl
from simfl.common.training_memory import TrainingMemory
from simfl.learning.job import LocalTraining
from simfl.learning.kept import kept_bytes
from simfl.scenario.shipped import shipped_scenarios
from simfl.scenario.yaml_source.error import ScenarioError

PROFILE = """# A board with hardly any memory.
kind: device
device_class: mcu
power_idle_w: 0.1
memory_bytes: {memory_bytes}
processor: {{name: cpu, cores: 1, frequency_min_hz: 1e8, frequency_max_hz: 2e8,
  seconds_per_example: 0.05, kappa: 1e-28}}
"""
FIXED, EXAMPLE = 2 * 9640, 384
"""Bytes of the starter's model: 2,410 weights and gradients; 64 inputs and 32 units."""


def starter(folder: Path, memory_bytes: int, *overrides: str) -> simfl.Scenario:
    """The starter, all of whose clients have so much memory."""
    (folder / "tiny.yaml").write_text(PROFILE.format(memory_bytes=memory_bytes), encoding="utf-8")
    group = "{device: tiny, link: wifi5_ac, share: 1.0}"
    of_population = [f"population.profiles=[{folder}]", f"population.groups=[{group}]"]
    return simfl.Scenario.from_yaml(
        shipped_scenarios()["starter"],
        [*of_population, "algorithm.local.batch_size=10", "stop.versions=2", *overrides],
    )


@pytest.mark.parametrize("by_layers", [False, True])
def test_activations_are_counted_once(by_layers: bool) -> None:
    """Inputs of linear layers; what ReLU makes of one is the other's input; the index of a pool."""
    module = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
    pooled = nn.Sequential(nn.Conv1d(1, 3, 3, padding=1), nn.MaxPool1d(2))

    assert kept_bytes(module, torch.zeros(1, 5), by_layers=by_layers) == 4 * (5 + 8)
    # The convolution's input and output, and eight bytes for each place that the pool took.
    assert kept_bytes(pooled, torch.zeros(1, 1, 8), by_layers=by_layers) == 4 * (8 + 24) + 8 * 12


def test_a_double_counts_as_the_float_that_a_device_has() -> None:
    """Whatever the simulation computes in."""
    module = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2)).double()

    assert kept_bytes(module, torch.zeros(1, 5, dtype=torch.float64)) == 4 * (5 + 8)


def test_the_largest_batch_fits_and_the_next_does_not() -> None:
    """With the optimizer's states; 0 where not even the weights fit."""
    memory = TrainingMemory(model_bytes=120, trained_bytes=100, example_bytes=30)

    assert memory.most_rows(120 + 300 + 95, states=2) == 3
    assert memory.needed_bytes([3, 4], states=2).tolist() == [510, 540]
    assert memory.most_rows(419, states=2) == 0
    states = [LocalTraining(optimizer="adam"), LocalTraining(momentum=0.9), LocalTraining()]
    assert [one.optimizer_states for one in states] == [2, 1, 0]


def test_a_run_beyond_a_devices_memory_is_refused_by_name(tmp_path: Path) -> None:
    """With the largest batch that fits, which then is accepted; nothing is written."""
    with pytest.raises(ScenarioError) as refused:
        simfl.run(starter(tmp_path, FIXED + 8 * EXAMPLE), tmp_path / "run")

    assert "tiny has 22.4 kB" in str(refused.value)
    assert "batches of at most 8" in str(refused.value)
    assert not (tmp_path / "run").exists()
    with pytest.raises(ScenarioError, match="a smaller model"):
        simfl.run(starter(tmp_path, FIXED), tmp_path / "run")
    fits = starter(tmp_path, FIXED + 8 * EXAMPLE, "algorithm.local.batch_size=8")
    assert simfl.run(fits, tmp_path / "fits").manifest["status"] == "completed"
