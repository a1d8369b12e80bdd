"""How fast is a run without learning, against bare SimPy?

    python benchmarks/events.py [--clients 1000] [--rounds 100] [--repeats 5]

A timing-only run (`algorithm: none`, synchronous, everybody takes part) with the full event log,
and with rounds only, against as many bare SimPy timeouts as the log has rows, in 1,000 processes
and without a log. One process, the three alternating; the medians of the ratios are what counts.
Times are CPU seconds: other programs on the machine do not count.
Goals: at least 0.4 of bare SimPy with the full log, 1.2 with `log: rounds`.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from pathlib import Path

import simpy

from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Simulation
from simfl.provenance.journal import Journal
from simfl.runs.execution import simulate
from simfl.scenario.scenario import Scenario


def scenario(clients: int, rounds: int, level: str) -> Scenario:
    """A mixed population whose clients exchange a small CNN every round."""
    return Scenario.from_mapping(
        {
            "name": "events",
            "data": {"name": "sizes", "examples_per_client": 600},
            "model": "fedcure_cnn",
            "population": {
                "name": "catalogue",
                "clients": clients,
                "edges": 1,
                "groups": [
                    {"device": "rpi_4b", "link": "wifi5_ac", "share": 0.5},
                    {"device": "phone_high_sd865", "link": "lte_2021", "share": 0.5},
                ],
                "compute_noise": 0.05,
            },
            "algorithm": "none",
            "protocol": "synchronous",
            "stop": {"versions": rounds},
            "log": {"level": level},
        }
    )


def timed_run(simulation: Simulation) -> tuple[int, int, float]:
    """Rows, SimPy events and seconds of one run, its log written and merged."""
    gc.collect()
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        run = simulation.make_run(Path(folder), Journal())
        simulate(simulation, run)
        run.close()
        seconds = time.process_time() - began
    # SimPy numbers its events; the next number is how many there were.
    return run.log.rows_written, next(run.env._eid), seconds


def timed_simpy(rows: int, processes: int = 1000) -> float:
    """Seconds of bare SimPy for one timeout per row."""

    def process(env: simpy.Environment, timeouts: int, delay: float):
        for _ in range(timeouts):
            yield env.timeout(delay)

    gc.collect()
    began = time.process_time()
    env = simpy.Environment()
    for index in range(processes):
        env.process(process(env, rows // processes, 1.0 + index / processes))
    env.run()
    return time.process_time() - began


def main() -> None:
    """Print rows per second and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    simulations = {
        level: assemble(scenario(arguments.clients, arguments.rounds, level))
        for level in ("full", "rounds")
    }
    ratios: dict[str, list[float]] = {level: [] for level in simulations}
    for _ in range(arguments.repeats):
        for level, simulation in simulations.items():
            rows, events, seconds = timed_run(simulation)
            bare = timed_simpy(rows)
            ratios[level].append(bare / seconds)
            print(
                f"log: {level:7s} {rows:9,d} rows in {seconds:6.2f} s: {rows / seconds:9,.0f}"
                f" rows/s, {events / seconds:8,.0f} SimPy events/s; bare SimPy"
                f" {rows / bare:9,.0f} timeouts/s; ratio {bare / seconds:.2f}"
            )
    for level, goal in (("full", 0.4), ("rounds", 1.2)):
        print(f"log: {level:7s} median ratio {statistics.median(ratios[level]):.2f} (goal {goal})")


if __name__ == "__main__":
    main()
