"""On a CUDA device: the quick start, agreement with the CPU, memory that does not grow."""

import pytest
import torch

from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.learning import placing
from simfl.learning.batched import BatchedTrainer
from simfl.learning.job import LocalTraining, Recipe
from simfl.learning.sums import PartialSum, shares, weighted_sum
from simfl.provenance.journal import Journal
from simfl.runs.execution import run, simulate
from simfl.scenario.scenario import Scenario
from simfl.scenario.shipped import shipped_scenarios
from tests.learning.training import network, plain_loss, shards, submit
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
    assert gpu.manifest["numeric_platform"]["cohort_jobs"]
    assert {"gpu", "driver", "cuda", "memory_bytes"} <= gpu.manifest["device"].keys()
    assert all(gpu.manifest["invariants"].values())
    assert gpu.manifest["fingerprint"] == cpu.manifest["fingerprint"]
    assert gpu.rounds["accuracy"].iloc[-1] == pytest.approx(
        cpu.rounds["accuracy"].iloc[-1], abs=0.05
    )


def test_the_same_run_again_has_the_same_bits(tmp_path):
    """For a convolutional network, with deterministic algorithms."""
    scenario = small(model="cnn", dtype="float32", stop={"versions": 2})

    models = [
        run(scenario, tmp_path / name, Options(device="cuda")).file("model.safetensors")
        for name in "ab"
    ]

    assert models[0].read_bytes() == models[1].read_bytes()


@pytest.mark.parametrize("model", ["relu_mlp", "cnn", "bn_mlp", "residual"])
def test_company_shows_only_where_it_is_said(model):
    """Cohorts of 1, 3, 17 and all jobs: the same bits, unless the trainer warns of it."""
    recipe = Recipe(LocalTraining(epochs=1, batch_size=8, learning_rate=0.1))
    data = shards((16,) * 40)

    def trained(cap):
        trainer = BatchedTrainer(
            network(model, torch.float32).placed("cuda"), data, plain_loss, cohort_cap=cap
        )
        futures = [submit(trainer, client, recipe) for client in range(len(data))]
        return trainer, [future.result() for future in futures]

    trainer, together = trained(None)
    differing = [
        (cap, client)
        for cap in (1, 3, 17)
        for client, (one, other) in enumerate(zip(trained(cap)[1], together, strict=True))
        if largest_difference(one.payload, other.payload) != 0.0
    ]

    warned = "cohort_dependent" in [one.kind for one in trainer.notices()]
    assert warned or not differing, differing


def test_data_that_stay_here_change_no_bit(monkeypatch):
    """Streamed through pinned memory, step by step: what resident data give."""
    recipe = Recipe(LocalTraining(epochs=2, batch_size=8, learning_rate=0.1))

    def trained():
        trainer = BatchedTrainer(
            network("relu_mlp", torch.float32).placed("cuda"), shards((16, 40, 9)), plain_loss
        )
        return trainer, [submit(trainer, client, recipe).result() for client in range(3)]

    resident, expected = trained()
    monkeypatch.setattr(placing, "DATA_SHARE", 0.0)
    streaming, found = trained()

    assert resident.shards[0].inputs.is_cuda
    assert not streaming.shards[0].inputs.is_cuda
    assert streaming.shards[0].targets.is_cuda
    for one, other in zip(found, expected, strict=True):
        assert largest_difference(one.payload, other.payload) == 0.0


@pytest.mark.parametrize("precision", ["tf32", "bfloat16"])
@pytest.mark.parametrize("model", ["cnn", {"name": "mlp", "hidden": [64]}])
def test_precisions_are_close_to_float32(precision, model):
    """After three versions, to the bits that they have."""
    changes = {"model": model, "dtype": "float32"}

    exact, rough = (
        final_weights(on("cuda", small(**changes, precision=one))) for one in ("float32", precision)
    )

    assert largest_difference(exact, rough) < 0.05


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
    """For small and large tensors; they equal the CPU's values in single precision."""
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
