"""The same federated training through simfl and through other simulators, in the same minutes.

    python benchmarks/peers.py [--work digits mnist] [--peers fedlab flower ...] [--cache FOLDER]

50 clients, 10 a round, federated averaging of an MLP with two hidden layers of 200: local training
of 5 epochs, batches of 32, SGD. "digits": 64 values, 30 examples a client; "mnist": 784 values,
600 examples; both synthetic. Every peer runs in a process of its own, with one thread (Flower: as
many Ray actors as there are cores), through its own interface and without evaluations; simfl with
its clock, energy, event log and an evaluation of every version. Peers are installed from the
package index into virtual environments under --cache (a temporary folder unless given), each
beside the same torch; one that cannot be installed or does not run is left out, with the reason.
All run in turns; what counts are the ratios.

Goals for simfl: 4 times the best peer's updates a second on digits, 3 times on mnist; the first
round's end less than 2 s after the start; peak memory below theirs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from peer_drivers.stopwatch import A_ROUND, CLASSES, CLIENTS, RESULT

DRIVERS = Path(__file__).parent / "peer_drivers"
LONGEST_S = 300


@dataclass(frozen=True)
class Work:
    """What a client has: examples of so many values. `goal`: simfl over the best peer."""

    rows: int
    features: int
    goal: float


WORK = {"digits": Work(30, 64, 4.0), "mnist": Work(600, 784, 3.0)}
PEERS = {
    "fedlab": "fedlab==1.3.0",
    "fluke": "fluke-fl==0.8.1",
    "pfl": "pfl==0.6.0",
    "flgo": "flgo==0.4.4",
    "flower": "flwr[simulation]==1.41.0",
}


class Unavailable(Exception):
    """A peer that cannot be measured, with the reason."""


def installed(peer: str, cache: Path) -> Path:
    """The Python of a peer's virtual environment, which is made if need be."""
    folder = cache / peer
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    done, wanted = folder / "installed.txt", [PEERS[peer], *same_torch()]
    if done.exists() and done.read_text().split() == wanted:
        return python
    print(f"{peer}: installing {' '.join(wanted)}", flush=True)
    make = [sys.executable, "-m", "venv", "--clear", str(folder)]
    install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *wanted]
    for command in (make, install):
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise Unavailable(f"cannot be installed: {last_line(result.stderr)}")
    done.write_text("\n".join(wanted))
    return python


def same_torch() -> list[str]:
    """The torch and torchvision that run here, without a build's own suffix."""
    return [f"{name}=={version(name).partition('+')[0]}" for name in ("torch", "torchvision")]


def run(name: str, python: Path, data: Path, work: Work, rounds: int, *more: str) -> dict[str, Any]:
    """One run of a driver: what its last line says."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    driver, sizes = DRIVERS / f"with_{name}.py", (work.rows, work.features)
    command = [python, driver, data, *sizes, rounds, time.time(), *more]
    try:
        result = subprocess.run(
            [str(one) for one in command],
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_S,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"took more than {LONGEST_S} s") from error
    lines = [line for line in result.stdout.splitlines() if line.startswith(RESULT)]
    if result.returncode or not lines:
        raise Unavailable(f"does not run: {last_line(result.stderr)}")
    found: dict[str, Any] = json.loads(lines[-1].removeprefix(RESULT))
    return found


def last_line(text: str) -> str:
    """What an error ends with."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "no message")


def measure(name: str, ways: dict[str, tuple[Path, Sequence[str]]], options: Any) -> None:
    """Print a row per simulator for one kind of work."""
    work, found = WORK[name], {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        data, rng = Path(folder) / "data.npz", np.random.default_rng(0)
        shape = (CLIENTS, work.rows)
        inputs = rng.random((*shape, work.features), dtype=np.float32)
        np.savez(data, inputs=inputs, labels=rng.integers(0, CLASSES, shape))
        for _ in range(options.repeats):
            for way in list(found):
                python, more = ways[way]
                try:
                    driver = "simfl" if way.startswith("simfl") else way
                    found[way].append(run(driver, python, data, work, options.rounds, *more))
                except Unavailable as reason:
                    print(f"{name}: {way} left out: {reason}")
                    del found[way]
    rates = {
        way: A_ROUND / statistics.median(s for result in results for s in result["round_s"])
        for way, results in found.items()
    }
    others = [rate for way, rate in rates.items() if not way.startswith("simfl")]
    for way, results in found.items():
        first_s = statistics.median(result["first_s"] for result in results)
        peak = max(result["peak_bytes"] for result in results)
        row = f"{name:7s} {way:9s} {rates[way]:8.1f} updates/s"
        row += f"   first round after {first_s:5.1f} s   peak {peak / 1e9:5.2f} GB"
        if way.startswith("simfl") and others:
            row += f"   {rates[way] / max(others):5.2f}x the best peer (goal {work.goal:g}x)"
        print(row, flush=True)


def main() -> None:
    """Install the peers and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", nargs="+", choices=WORK, default=list(WORK), metavar="WORK")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS), metavar="PEER")
    parser.add_argument("--cache", type=Path, help="where the peers' environments are kept")
    parser.add_argument("--rounds", type=int, default=8, help="of each run; the first is no rate")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2, help="of simfl's second row")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("--rounds: at least 2")
    here = Path(sys.executable)
    ways: dict[str, tuple[Path, Sequence[str]]] = {"simfl": (here, ())}
    if options.workers:
        ways[f"simfl +{options.workers}"] = (here, (str(options.workers),))
    with tempfile.TemporaryDirectory() as temporary:
        cache = (options.cache or Path(temporary)).resolve()
        for peer in options.peers:
            try:
                ways[peer] = (installed(peer, cache), ())
            except Unavailable as reason:
                print(f"{peer} left out: {reason}")
        for name in options.work:
            measure(name, ways, options)


if __name__ == "__main__":
    main()
