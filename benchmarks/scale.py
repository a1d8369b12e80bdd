"""A thousand to a million clients without training: memory, speed, and time per row.

    python benchmarks/scale.py [--sizes 1000 10000 100000 1000000] [--rows 10000000]

Each population runs in a process of its own, with the full log and with rounds only, until the log
has about `--rows` rows: 10,000 clients (or all) take part in a round, drawn at random. Beside it,
bare SimPy with one timeout per row (benchmarks/events.py). Goals: under 1.5 GB for the million; at
least 0.4 of bare SimPy with the full log and 1.2 with `log: rounds`; time in proportion to rows.
All times are CPU seconds: other programs on the machine do not count.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

from events import timed_run, timed_simpy

from simfl.assembly.assemble import assemble
from simfl.scenario.scenario import Scenario

PARTICIPANTS = 10_000
ROWS_PER_TURN = 4  # idle, download, compute, upload


def scenario(clients: int, rows: int, level: str) -> Scenario:
    """A mixed population of which at most `PARTICIPANTS` take part in a round."""
    count = min(PARTICIPANTS, clients)
    rounds = max(1, round((rows - clients) / (ROWS_PER_TURN * count)))
    return Scenario.from_mapping(
        {
            "name": "scale",
            "data": {"name": "sizes", "examples_per_client": 600},
            "model": "fedcure_cnn",
            "population": {
                "name": "catalogue",
                "clients": clients,
                "edges": 10,
                "groups": [
                    {"device": "rpi_4b", "link": "wifi5_ac", "share": 0.5},
                    {"device": "phone_high_sd865", "link": "lte_2021", "share": 0.5},
                ],
                "compute_noise": 0.05,
                "transfer_noise": 0.05,
            },
            "algorithm": "none",
            "protocol": "synchronous",
            "decisions": {"selection": {"name": "random", "count": count}},
            "stop": {"versions": rounds},
            "log": {"level": level},
        }
    )


def measure(clients: int, rows: int, level: str) -> dict[str, float]:
    """One run in this process: its figures."""
    began = time.process_time()
    simulation = assemble(scenario(clients, rows, level))
    assembled_s = time.process_time() - began
    written, _, seconds = timed_run(simulation)
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    return {
        "rows": written,
        "start_s": assembled_s,
        "run_s": seconds,
        "peak_gb": peak_gb,
        "simpy_s": timed_simpy(written),
    }


def main() -> None:
    """Print a line per population and log level."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10**3, 10**4, 10**5, 10**6])
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--one", nargs=2, metavar=("CLIENTS", "LEVEL"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        clients, level = arguments.one
        print(json.dumps(measure(int(clients), arguments.rows, level)))
        return
    for level, goal in (("full", 0.4), ("rounds", 1.2)):
        for clients in arguments.sizes:
            command = [sys.executable, __file__, "--one", str(clients), level]
            command += ["--rows", str(arguments.rows)]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            print(
                f"log: {level:7s} {clients:9,d} clients: {found['rows']:11,.0f} rows in"
                f" {found['run_s']:6.1f} s (start {found['start_s']:4.1f} s),"
                f" {found['rows'] / found['run_s']:9,.0f} rows/s, peak {found['peak_gb']:.2f} GB;"
                f" ratio to bare SimPy {found['simpy_s'] / found['run_s']:.2f} (goal {goal})",
                flush=True,
            )


if __name__ == "__main__":
    main()
