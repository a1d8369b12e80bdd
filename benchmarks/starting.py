"""What does a command cost before and after what it is for?

    python benchmarks/starting.py [--repeats 5]

Processor time (user and system, one thread) of whole commands, each in a process of its own: the
least of several repeats, taken in turns, since other work on the machine can only add. Goals: a
small run at most 1 s beyond `import torch`, a finished study read again and a comparison at most
2 s, the help at most 0.3 s beyond a bare interpreter.

Modules are read as bytecode, as in an installed package: the first round, which writes it, does
not count.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

SMALL = """
name: small
data: {name: digits, partition: iid}
model: {name: mlp, hidden: [12]}
population: {name: paper, clients: 2, edges: 1}
algorithm: {name: fedavg, local: {learning_rate: 0.1}}
protocol: synchronous
stop: {versions: 1}
"""

STUDY = """
scenario: small.yaml
points:
  grid: {algorithm.local.learning_rate: [0.05, 0.1]}
seeds: [1, 2]
questions: {metrics: [accuracy, client_energy_j], pareto: {accuracy: max, client_energy_j: min}}
"""


def processor_s(command: list[str], folder: Path) -> float:
    """User and system time of a command that runs in the folder."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPYCACHEPREFIX": str(folder / "pyc")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run(
        [sys.executable, *command], check=True, cwd=folder, env=environment, capture_output=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print a line for each command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    run = ["-m", "simfl", "run", "small.yaml", "--overwrite", "--out"]
    commands = {
        "python": ["-c", "pass"],
        "import torch": ["-c", "import torch"],
        "simfl --help": ["-m", "simfl", "--help"],
        "a small run": [*run, "one"],
        "a small run, --quiet": [*run, "two", "--quiet"],
        "a finished study again": ["-m", "simfl", "study", "study.yaml", "--out", "study"],
        "simfl compare": ["-m", "simfl", "compare", "one", "two"],
    }
    least: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "small.yaml").write_text(SMALL, encoding="utf-8")
        (folder / "study.yaml").write_text(STUDY, encoding="utf-8")
        for repeat in range(-1, arguments.repeats):
            for command, words in commands.items():
                taken_s = processor_s(words, folder)
                if repeat >= 0:
                    least[command] = min(taken_s, least.get(command, taken_s))
    for command, taken_s in least.items():
        beyond = "import torch" if "run" in command else "python"
        print(f"{command:24s} {taken_s:5.2f} s, {taken_s - least[beyond]:5.2f} beyond {beyond}")


if __name__ == "__main__":
    main()
