"""What does simulating cost on top of training?

    python benchmarks/overhead.py [--versions 20] [--repeats 5]

The wall time of a whole run (simulated clock, decisions, event log written to disk, aggregation,
evaluation of every version) against two bare trainings of the same jobs in the same process:

- the bare training loop: the lean loop over the clients, written by hand (benchmarks/loops.py).
  Goals: at most 15 % more on an MLP with MNIST's shapes (20 clients of 600 examples,
  784-200-200-10), at most 40 % more on logistic regression over digits;
- the jobs alone: simfl's own batched trainer is handed the very cohorts of the run. This is the
  harder comparison, and says what the simulation costs once training is as fast as here.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from loops import lean

from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.learning.models.base import as_module
from simfl.learning.task import Task
from simfl.protocols.values import Values
from simfl.provenance.journal import Journal
from simfl.runs.execution import simulate
from simfl.scenario.scenario import Scenario

WORK = {
    "digits logistic": ({"name": "digits", "partition": "iid"}, "linear", 0.40),
    "mnist-shaped MLP": (
        {"name": "synthetic", "examples": 12_000, "test_examples": 2_000, "features": 784,
         "outputs": 10, "partition": "iid"},
        "mlp",
        0.15,
    ),
}  # fmt: skip


def scenario(data: dict[str, object], model: str, versions: int) -> Scenario:
    """20 clients, 5 epochs of batch 32, synchronous."""
    return Scenario.from_mapping(
        {
            "name": "overhead",
            "data": data,
            "model": model,
            "population": {"name": "paper", "clients": 20, "edges": 4},
            "algorithm": {
                "name": "fedavg",
                "local": {"epochs": 5, "batch_size": 32, "learning_rate": 0.05},
            },
            "protocol": "synchronous",
            "stop": {"versions": versions},
        }
    )


def measure(one: Scenario, versions: int) -> tuple[float, float, float, int]:
    """Seconds of the run, of the lean loop and of its jobs' bare training, and how many jobs."""
    simulation = assemble(one, Options(device="cpu"))
    cohorts: list[Sequence[Task]] = []
    with tempfile.TemporaryDirectory() as folder:
        run = simulation.make_run(Path(folder), Journal(Path(folder) / "journal.jsonl"))
        assert isinstance(run.values, Values)
        trainer = run.values.trainer
        train = trainer.train

        def recording(tasks: Sequence[Task]) -> list:
            cohorts.append(tasks)
            return train(tasks)

        trainer.train = recording  # type: ignore[method-assign]
        began = time.perf_counter()
        simulate(simulation, run)
        run.close()
        run_s = time.perf_counter() - began
    began = time.perf_counter()
    for tasks in cohorts:
        train(tasks)
    bare_s = time.perf_counter() - began
    data = simulation.partitioned.data
    models = [
        as_module(simulation.parts[("model",)], data.input_shape, data.outputs) for _ in range(2)
    ]
    shards = [(shard.inputs, shard.targets) for shard in simulation.partitioned.clients]
    began = time.perf_counter()
    for _ in range(versions):
        lean(models[0], shards, models[1])
    return run_s, time.perf_counter() - began, bare_s, trainer.trained


def main() -> None:
    """Print the ratio for each kind of work."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--versions", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    for name, (data, model, goal) in WORK.items():
        by_loop, by_jobs = [], []
        for _ in range(arguments.repeats):
            one = scenario(data, model, arguments.versions)
            run_s, lean_s, bare_s, jobs = measure(one, arguments.versions)
            by_loop.append(run_s / lean_s - 1)
            by_jobs.append(run_s / bare_s - 1)
            print(
                f"{name}: run of {jobs} jobs {run_s:.2f} s, lean loop {lean_s:.2f} s"
                f" ({by_loop[-1]:+.0%}), its jobs alone {bare_s:.2f} s ({by_jobs[-1]:+.0%})"
            )
        print(
            f"{name}: median {statistics.median(by_loop):+.0%} against the bare training loop (goal"
            f" at most {goal:+.0%}), {statistics.median(by_jobs):+.0%} against its jobs alone"
        )


if __name__ == "__main__":
    main()
