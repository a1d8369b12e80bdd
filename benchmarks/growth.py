"""How do costs grow with a simulation's size?

    python benchmarks/growth.py [--quick]

For each kind of size four runs, each twice as large as the one before: the CPU seconds of each,
and the exponent of the power law through them (1: in proportion; 2: quadratic; below 1 where a part
costs the same at every size). Nothing is evaluated before the last version, so that all that
learning leaves for later piles up. Goal: no exponent above 1.15. `--quick` takes a quarter of all
sizes.
"""

from __future__ import annotations

import argparse
import gc
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.provenance.journal import Journal
from simfl.provenance.results import FolderStore
from simfl.runs.execution import simulate
from simfl.scenario.scenario import Scenario
from simfl.scenario.yaml_source.text import dump
from simfl.study.session import StudySession
from simfl.study.studyfile import Study
from simfl.study.worker import work

DOUBLINGS = 4
VALUES_PER_ENTRY = 1_000


def scenario(clients: int, versions: int, **changes: Any) -> dict[str, Any]:
    """Small models on few data, so that what is beside training shows; evaluated in the end."""
    return {
        "name": "growth",
        "data": {
            "name": "synthetic",
            "examples": max(100, 10 * clients),
            "test_examples": 100,
            "partition": "iid",
        },
        "model": "linear",
        "population": {
            "name": "catalogue",
            "clients": clients,
            "edges": 2,
            "groups": [{"device": "rpi_4b", "link": "wifi5_ac", "share": 1.0}],
        },
        "algorithm": {
            "name": "fedavg",
            "local": {"epochs": 1, "batch_size": 16, "learning_rate": 0.1},
        },
        "protocol": "synchronous",
        "stop": {"versions": versions},
        "evaluate": {"every": versions},
        **changes,
    }


def simulated(content: dict[str, Any]) -> None:
    """Run a scenario with its log, without tables."""
    simulation = assemble(Scenario.from_mapping(content), Options(device="cpu"))
    with tempfile.TemporaryDirectory() as folder:
        run = simulation.make_run(Path(folder), Journal())
        simulate(simulation, run)
        run.close()


def versions_synchronous(versions: int) -> None:
    """10 clients, all in every round."""
    simulated(scenario(10, versions))


def versions_asynchronous(versions: int) -> None:
    """10 clients, 5 in flight; every update makes a version."""
    simulated(scenario(10, versions, protocol={"name": "asynchronous", "concurrency": 5}))


def clients(count: int) -> None:
    """4 rounds of everybody."""
    simulated(scenario(count, 4))


def in_flight(count: int) -> None:
    """2,000 clients without learning, four updates per place in flight."""
    protocol = {"name": "asynchronous", "concurrency": count}
    data = {"name": "sizes", "examples_per_client": 100}
    changes = {"protocol": protocol, "algorithm": "none", "data": data, "model": "lenet"}
    simulated(scenario(2_000, 4 * count, **changes))


def study_points(count: int) -> None:
    """A study planned, run in this process and collected: two rounds per point."""
    rates = [round(0.1 + place / 10_000, 4) for place in range(count)]
    content = {
        "scenario": "base.yaml",
        "points": {"grid": {"algorithm.local.learning_rate": rates}},
        "seeds": [1],
        "questions": {"targets": {"accuracy": [0.5]}},
    }
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "base.yaml").write_text(dump(scenario(4, 2)))
        (Path(folder) / "study.yaml").write_text(dump(content))
        study = Study.from_yaml(Path(folder) / "study.yaml")
        session = StudySession(study, Path(folder) / "out", device="cpu")
        for task in session.tasks(session.todo()):
            outcome = work(task)
            assert outcome.status == "completed", outcome.message
        session.collect()


def store_entries(count: int) -> None:
    """Entries and facts written into a store with room for half of them, listed and read anew."""
    limit_bytes = count * 4 * VALUES_PER_ENTRY // 2
    with tempfile.TemporaryDirectory() as name:
        store = FolderStore(Path(name), limit_bytes)
        for place in range(count):
            store.put(f"entry-{place}", {"weights": torch.full((VALUES_PER_ENTRY,), float(place))})
            store.put_fact(f"fact-{place}", place)
        again = FolderStore(Path(name), limit_bytes)
        for place in range(count):
            again.get(f"entry-{place}")


SIZES: dict[str, tuple[Callable[[int], None], int]] = {
    "versions, synchronous": (versions_synchronous, 200),
    "versions, asynchronous": (versions_asynchronous, 400),
    "clients": (clients, 400),
    "clients in flight": (in_flight, 100),
    "study points": (study_points, 8),
    "store entries": (store_entries, 1_000),
}
"""By what grows: what is run, and the smallest of its sizes."""


def seconds(run: Callable[[int], None], size: int) -> float:
    """CPU seconds of one run."""
    gc.collect()
    began = time.process_time()
    run(size)
    return time.process_time() - began


def main() -> None:
    """Print a line per kind of size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a quarter of all sizes")
    quick = parser.parse_args().quick
    for name, (run, smallest) in SIZES.items():
        first = smallest // 4 if quick else smallest
        sizes = [first * 2**doubling for doubling in range(DOUBLINGS)]
        run(max(1, first // 2))  # whatever is made or loaded once
        taken = [seconds(run, size) for size in sizes]
        exponent = np.polyfit([math.log(size) for size in sizes], np.log(taken), 1)[0]
        figures = ", ".join(
            f"{size:,}: {one:.2f} s" for size, one in zip(sizes, taken, strict=True)
        )
        print(f"{name:23s} exponent {exponent:.2f}   {figures}", flush=True)


if __name__ == "__main__":
    main()
