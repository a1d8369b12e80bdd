"""A run on an accelerator equals the run without; requests to devices, and their settings."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import simfl
from simfl.assembly import registry
from simfl.assembly.simulation import Options
from simfl.learning import devices
from simfl.learning.devices import CPU, CUBLAS_WORKSPACE, CudaDevice, found_device
from simfl.learning.workers import parallel
from simfl.runs.execution import FolderInUse
from simfl.runs.runfolder import LoadedRun
from simfl.scenario.scenario import Scenario
from simfl.scenario.yaml_source.error import ScenarioError
from tests.learning.posing import Posing
from tests.small import final_weights, largest_difference, simulated, small
from tests.test_contracts import PROTOCOLS, refusal, scenario_of

NOISY = """
import torch
from torch import nn

class Noisy(nn.Module):
    def __init__(self, input_shape, outputs):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.Linear(5, outputs))

    def forward(self, inputs):
        outputs = self.layers(inputs)
        return outputs + 0.1 * torch.randn_like(outputs)
"""
LONE = """
from torch import nn

class Alone(nn.Sequential):
    def __init__(self, input_shape, outputs):
        convolution = nn.Conv2d(1, 40, 3, padding=1)
        super().__init__(convolution, nn.ReLU(), nn.Flatten(), nn.Linear(2560, outputs))
"""
MEMORIES = {"small": 3e5, "middle": 1e6, "large": 4e6}


def single(**changes: Any) -> Scenario:
    """The small scenario in float32, two versions."""
    return small(dtype="float32", stop={"versions": 2}, **changes)


def model_of(run: LoadedRun) -> bytes:
    """The final model, byte by byte."""
    return run.file("model.safetensors").read_bytes()


def same(one: LoadedRun, other: LoadedRun) -> bool:
    """Whether two runs have the same events and the same model."""
    return one.manifest["fingerprint"] == other.manifest["fingerprint"] and (
        model_of(one) == model_of(other)
    )


def cut_off(scenario: Scenario, folder: Path, device: Posing) -> None:
    """Run until the first version is out."""

    def interrupt(progress: Any) -> None:
        if progress.version:
            raise KeyboardInterrupt

    options = Options(device=device, watch=interrupt, snapshot_seconds=0.0)
    with pytest.raises(KeyboardInterrupt):
        simfl.run(scenario, folder, options)


def test_an_accelerator_changes_nothing_of_a_run(tmp_path: Path) -> None:
    """Events and model are the CPU's; the manifest has the size of cohorts, which a resumption
    must not change unasked."""
    scenario = single()
    on_cpu = simfl.run(scenario, tmp_path / "cpu", Options(device="cpu"))
    there, other = (Posing(MEMORIES[name]) for name in ("small", "large"))

    cut_off(scenario, tmp_path / "cut", there)
    with pytest.raises(FolderInUse, match=r"cohort_jobs 16: 4 -> 16: 32"):
        simfl.run(scenario, tmp_path / "cut", Options(device=other), resume=True)
    elsewhere = Options(device=other, any_platform=True)
    run = simfl.run(scenario, tmp_path / "cut", elsewhere, resume=True)

    platform = run.manifest["numeric_platform"]
    assert (platform["device"], platform["cohort_jobs"]) == ("posing", "16: 32")
    assert (platform["evaluation_rows"], platform["precision"]) == (1024, "float32")
    assert (
        not {"cohort_jobs", "evaluation_rows", "precision"}
        & on_cpu.manifest["numeric_platform"].keys()
    )
    assert on_cpu.manifest["device"] == {}
    assert "cohorts" not in str(run.manifest["warnings"])
    assert same(run, on_cpu)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["stacked", "one_by_one", "loop"])
def test_one_run_however_it_is_computed(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None, 2 processes, accelerators of three sizes, one whose memory runs out, and a resumption
    on another size."""
    for least in ("FEWEST_FLOPS", "FEWEST_FLOPS_FOR_THREADS", "FEWEST_FLOPS_PER_JOB"):
        monkeypatch.setattr(parallel, least, 0.0)
    file = tmp_path / "parts.py"
    file.write_text(NOISY + LONE)
    models = {
        "stacked": {"name": "mlp", "hidden": [12]},
        "one_by_one": {"name": f"{file}:Alone"},
        "loop": {"name": f"{file}:Noisy"},
    }
    scenario = single(model=models[form])
    plain = simfl.run(scenario, tmp_path / "none", Options(device="cpu"))
    ways = {
        "two": Options(device="cpu", workers=2),
        **{name: Options(device=Posing(size)) for name, size in MEMORIES.items()},
        "occupied": Options(device=Posing(MEMORIES["large"], MEMORIES["small"])),
    }
    assert plain.manifest["numeric_platform"]["kernel_family"] == form

    runs = {name: simfl.run(scenario, tmp_path / name, how) for name, how in ways.items()}
    cut_off(scenario, tmp_path / "cut", Posing(MEMORIES["small"]))
    elsewhere = Options(device=Posing(MEMORIES["middle"]), any_platform=True)
    runs["resumed"] = simfl.run(scenario, tmp_path / "cut", elsewhere, resume=True)

    kinds = {one["kind"] for one in runs["occupied"].manifest["warnings"]}
    assert ("halved_cohorts" in kinds) == (form == "stacked")
    for run in runs.values():
        assert same(run, plain)


def test_a_precision_rounds_products_and_belongs_to_the_keys() -> None:
    """bfloat16 has 8 bits: the model differs a little."""
    device = Posing(MEMORIES["small"])
    exact, rough = (
        simulated(single(precision=one), device=device) for one in ("float32", "bfloat16")
    )

    difference = largest_difference(final_weights(exact[1]), final_weights(rough[1]))
    assert 1e-5 < difference < 0.05
    assert exact[0].root != rough[0].root
    assert rough[0].platform["precision"] == "bfloat16"


@pytest.mark.parametrize(
    ("changes", "device", "message"),
    [
        ({"dtype": "float64", "precision": "tf32"}, Posing(1e6), "with dtype float64; accepted"),
        ({"precision": "tf32"}, "cpu", "found 'tf32', which the device cpu does not support"),
        ({"precision": "bfloat16"}, "cpu", "accepted there: float32"),
    ],
)
def test_a_precision_that_there_is_not(
    changes: dict[str, str], device: Any, message: str, tmp_path: Path
) -> None:
    """It is refused with what is accepted, and nothing is written."""
    scenario = small(**{"dtype": "float32", **changes})

    with pytest.raises(ScenarioError, match=message):
        simfl.run(scenario, tmp_path / "run", Options(device=device))

    assert not (tmp_path / "run").exists()


class TwoGpus:
    """What torch says where there are two."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made = SimpleNamespace(name="Some GPU", major=9, minor=0, total_memory=2**37)
        for name, answer in {
            "is_available": True,
            "device_count": 2,
            "current_device": 0,
            "get_device_properties": made,
            "get_device_name": "Some GPU",
        }.items():
            monkeypatch.setattr(torch.cuda, name, lambda *_, answer=answer: answer)
        monkeypatch.setattr(devices, "driver_version", lambda: "580.1")


@pytest.mark.parametrize(
    ("asked", "found"), [("auto", "cuda:0"), ("cuda", "cuda:0"), ("cuda:1", "cuda:1")]
)
def test_devices_by_name(asked: str, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first GPU by default, any by number; cuBLAS is told before its first call."""
    TwoGpus(monkeypatch)
    monkeypatch.delenv(CUBLAS_WORKSPACE, raising=False)

    device = found_device(asked)

    assert str(device.torch) == found
    assert device.total_bytes == 2**37
    assert os.environ[CUBLAS_WORKSPACE] == ":4096:8"
    assert device.described()["driver"] == "580.1"
    assert device.described()["gpu"] == "Some GPU"
    assert device.platform()["gpu"] == "Some GPU 9.0"
    assert "driver" not in device.platform()
    assert found_device("cpu") is CPU


@pytest.mark.parametrize(
    ("asked", "gpus", "message"),
    [
        ("cuda:2", True, "torch sees only cuda:0 .Some GPU., cuda:1 .Some GPU. here; accepted:"),
        ("cuda:0", False, "torch sees no CUDA device here; accepted: auto, cpu$"),
        ("cuda:first", True, "accepted: auto, cpu, cuda, cuda:N"),
        ("gpu", False, "accepted: auto, cpu, cuda, cuda:N"),
    ],
)
def test_a_device_that_there_is_not(
    asked: str, gpus: bool, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One error that says what torch sees."""
    if gpus:
        TwoGpus(monkeypatch)

    with pytest.raises(ValueError, match=message):
        found_device(asked)


def test_cuda_computes_the_same_way_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deterministic algorithms and no TF32 unless it is asked for, within a run and only there."""
    TwoGpus(monkeypatch)
    device = CudaDevice("cuda")

    def switches() -> tuple[bool, list[Any]]:
        each = [getattr(one, name) for one, name in devices._tf32_switches()]
        return torch.are_deterministic_algorithms_enabled(), each

    outside = switches()
    with device.computing("float32"):
        inside = switches()
        with device.computing("tf32"):
            faster = switches()
        assert switches() == inside

    assert switches() == outside
    assert outside[0] is False
    assert inside[0] is faster[0] is True
    assert set(inside[1]) <= {"ieee", False}
    assert set(faster[1]) <= {"tf32", True}


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", registry.names("algorithms"))
def test_every_algorithm_in_padded_cohorts(algorithm: str) -> None:
    """To the last bit the CPU's model, under the first protocol that it takes."""
    protocol = next(one for one in PROTOCOLS if not refusal(algorithm, one))
    scenario = scenario_of(algorithm, protocol)
    (_, expected), (simulation, found) = (
        simulated(scenario, device=device) for device in ("cpu", Posing(MEMORIES["small"]))
    )

    if simulation.algorithm.learns:
        assert largest_difference(final_weights(found), final_weights(expected)) == 0.0
    assert [one.kind for one in found.warnings] == [one.kind for one in expected.warnings]
