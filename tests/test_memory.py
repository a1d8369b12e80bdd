"""Devices without the memory that training takes."""

from __future__ import annotations

from pathlib import Path

import pytest

import simfl
from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.common.training_memory import TrainingMemory
from simfl.learning.job import LocalTraining
from simfl.scenario.shipped import shipped_scenarios
from simfl.scenario.yaml_source.error import ScenarioError
from tests.small import small

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
    with pytest.raises(ScenarioError, match="batches of at most 8"):  # nobody could train
        simfl.run(
            starter(tmp_path, FIXED + 8 * EXAMPLE, "population.memory=drop"), tmp_path / "run"
        )
    fits = starter(tmp_path, FIXED + 8 * EXAMPLE, "algorithm.local.batch_size=8")
    assert simfl.run(fits, tmp_path / "fits").manifest["status"] == "completed"


@pytest.mark.parametrize("sharing", ["dedicated", "throughput_fair"])
def test_rounds_of_clients_without_memory_fail_where_they_may(sharing: str, tmp_path: Path) -> None:
    """They download and have no memory; the others train on; both executors say the same."""
    scenario = starter(
        tmp_path,
        FIXED + 8 * EXAMPLE,
        "population.memory=drop",
        f"population.access_sharing={{name: {sharing}}}",
        "population.groups=[{device: tiny, link: wifi5_ac, share: 0.5},"
        "{device: rpi_4b, link: wifi5_ac, share: 0.5}]",
        # Who crashes, which nobody does in time, is noticed late; who lacks memory says so.
        "population.faults={clients: {works: {mean_s: 1e9}, broken: {mean_s: 1}}}",
        "population.noticed_after_s=1000",
    )

    run = simfl.run(scenario, tmp_path / "run")

    assert run.rounds["time_s"].max() < 1000
    at_once = simfl.run(scenario.with_overrides(["population.noticed_after_s=0"]), tmp_path / "0")
    assert "noticed_at_once" not in {one.kind for one in at_once.warnings}
    tiny = set(run.clients.loc[run.clients["device"] == "tiny", "client"])
    failed, downloads = run.details("out_of_memory"), run.details("download")
    downloads = downloads[downloads["client"].isin(tiny)]
    assert tiny
    assert set(failed["client"]) == tiny
    for kind in ("compute", "upload"):
        assert not tiny & set(run.details(kind)["client"])
    assert sorted(failed["time_s"]) == sorted(downloads["time_s"])
    assert (failed["value"] == 2 * EXAMPLE).all()
    assert all(run.manifest["invariants"].values())
    assert [one.kind for one in run.warnings].count("out_of_memory") == 1


@pytest.mark.parametrize(("optimizer", "states"), [("sgd", 0), ("adam", 2)])
def test_an_optimizer_counts_where_nothing_is_trained(optimizer: str, states: int) -> None:
    """Its values need memory, whether simfl trains the model or only times it."""
    local = {"optimizer": optimizer, "batch_size": 8}
    simulation = assemble(
        small(
            data={"name": "sizes", "examples_per_client": 32, "input_shape": [1, 8, 8]},
            algorithm={"name": "none", "local": local},
        ),
        Options(device="cpu"),
    )

    assert simulation.algorithm.local.optimizer_states == states
