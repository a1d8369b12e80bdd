"""On a CUDA device: the quick start, agreement with the CPU, memory that does not grow."""

import pytest
import torch

from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.learning.sums import PartialSum, shares, weighted_sum
from simfl.provenance.journal import Journal
from simfl.runs.execution import run, simulate
from simfl.scenario.scenario import Scenario
from simfl.scenario.shipped import shipped_scenarios
from tests.small import SEMI_ASYNCHRONOUS, final_weights, largest_difference, simulated, small

pytestmark = pytest.mark.cuda


def on(device: str, scenario: Scenario):
    """The run of a scenario on a device, without a folder."""
    simulation = assemble(scenario, Options(device=device))
    one = simulation.make_run(None, Journal())
    simulate(simulation, one)
    one.close()
    return one


def test_quick_start_on_cuda(tmp_path):
    """It ends as on a CPU: completed, all laws kept, the same bytes and events."""
    scenario = Scenario.from_yaml(shipped_scenarios()["quickstart"])

    gpu = run(scenario, tmp_path / "gpu", Options(device="cuda"))
    cpu = run(scenario, tmp_path / "cpu", Options(device="cpu"))

    assert gpu.manifest["numeric_platform"]["device"] == "cuda"
    assert all(gpu.manifest["invariants"].values())
    assert gpu.manifest["fingerprint"] == cpu.manifest["fingerprint"]
    assert gpu.rounds["accuracy"].iloc[-1] == pytest.approx(
        cpu.rounds["accuracy"].iloc[-1], abs=0.05
    )


@pytest.mark.parametrize("model", ["linear", {"name": "mlp", "hidden": [12]}, "cnn"])
def test_cuda_equals_cpu_in_double_precision(model):
    """The same weights to 1e-9 after three versions in float64."""
    scenario = small(model=model, protocol=SEMI_ASYNCHRONOUS)

    gpu = {name: tensor.cpu() for name, tensor in final_weights(on("cuda", scenario)).items()}

    assert largest_difference(gpu, final_weights(simulated(scenario)[1])) < 1e-9


@pytest.mark.parametrize("uplink", ["int8", {"name": "top_k", "share": 0.1}])
def test_codecs_on_cuda_equal_those_on_the_cpu(uplink):
    """Draws are the CPU's on every device, so that double precision agrees to 1e-9."""
    codecs = {"uplink_codec": uplink, "downlink_codec": "int8"}
    scenario = small(population=codecs, protocol=SEMI_ASYNCHRONOUS)

    gpu = {name: tensor.cpu() for name, tensor in final_weights(on("cuda", scenario)).items()}

    assert largest_difference(gpu, final_weights(simulated(scenario)[1])) < 1e-9


def test_peak_memory_is_flat_over_fifty_rounds():
    """The last ten of fifty rounds need no more memory than the first ten."""
    scenario = small(dtype="float32", stop={"versions": 50}, evaluate={"every": 1})
    simulation = assemble(scenario, Options(device="cuda"))
    one = simulation.make_run(None, Journal())
    peaks: list[int] = []
    publish = one.publish

    def measured(*arguments, **named):
        peaks.append(torch.cuda.max_memory_allocated())
        torch.cuda.reset_peak_memory_stats()
        return publish(*arguments, **named)

    one.publish = measured
    simulate(simulation, one)

    assert max(peaks[-10:]) <= 1.02 * max(peaks[:10])


def test_sums_on_cuda_have_the_same_bits_in_any_groups():
    """Of small and large tensors; and the CPU's values to single precision."""
    generator = torch.Generator().manual_seed(0)
    members = [
        {
            "small": torch.randn(30, generator=generator),
            "large": torch.randn(9001, generator=generator),
        }
        for _ in range(11)
    ]
    weights = shares(range(1, 12))
    on_device = [{name: one.cuda() for name, one in model.items()} for model in members]
    parts = [PartialSum(weights) for _ in range(3)]
    for number, part in enumerate(parts):
        part.add({place: on_device[place] for place in range(number, 11, 3)})
    parts[2].merge(parts[0])
    parts[2].merge(parts[1])

    found = parts[2].total()

    assert largest_difference(found, weighted_sum(on_device, weights)) == 0.0
    expected = weighted_sum(members, weights)
    assert largest_difference({n: one.cpu() for n, one in found.items()}, expected) < 1e-6
