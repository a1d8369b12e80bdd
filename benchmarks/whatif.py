"""What do what-if questions about hardware cost?

    python benchmarks/whatif.py [--variants 20] [--versions 40] [--cold 2]

One synchronous scenario is run once and then with other devices, links and CPU caps, all through
one result store. Participants do not depend on time, so the variants train nothing. `--cold` of
them are run again without the store, to compare the logs byte for byte. Goal: first run and 20
variants together take at most 1.2 times the first run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from simfl.assembly.simulation import Options
from simfl.provenance.results import MemoryStore
from simfl.runs.execution import run
from simfl.runs.runfolder import LoadedRun
from simfl.scenario.scenario import Scenario

DEVICES = ("rpi_4b", "rpi_5", "phone_high_sd865", "phone_mid_sd660", "jetson_nano")
LINKS = ("wifi5_ac", "lte_2021", "ethernet_1g")
CAPS_HZ = (6.0e8, 1.2e9)


def scenario(versions: int) -> Scenario:
    """An MLP with MNIST's shapes, 20 clients, 5 epochs a round."""
    return Scenario.from_mapping(
        {
            "name": "whatif",
            "data": {
                "name": "synthetic",
                "examples": 12_000,
                "test_examples": 2_000,
                "features": 784,
                "outputs": 10,
            },
            "model": "mlp",
            "population": {
                "name": "catalogue",
                "clients": 20,
                "edges": 4,
                "groups": [{"device": "rpi_4b", "link": "wifi5_ac", "share": 1.0}],
            },
            "algorithm": {
                "name": "fedavg",
                "local": {"epochs": 5, "batch_size": 32, "learning_rate": 0.05},
            },
            "protocol": "synchronous",
            "stop": {"versions": versions},
        }
    )


def variants(count: int) -> list[list[str]]:
    """Overrides of hardware alone."""
    every = [
        [
            f"population.groups.0.device={device}",
            f"population.groups.0.link={link}",
            f"decisions.allocation={{name: capped, frequency_hz: {cap_hz}}}",
        ]
        for cap_hz in CAPS_HZ
        for device in DEVICES
        for link in LINKS
    ]
    return every[:count]


def timed(one: Scenario, folder: Path, options: Options) -> tuple[LoadedRun, float]:
    """A run and its seconds, from the scenario to the finished folder."""
    began = time.perf_counter()
    return run(one, folder, options), time.perf_counter() - began


def main() -> None:
    """Print seconds, ratio and whether logs are the same."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variants", type=int, default=20)
    parser.add_argument("--versions", type=int, default=40)
    parser.add_argument("--cold", type=int, default=2)
    arguments = parser.parse_args()
    base, store = scenario(arguments.versions), MemoryStore()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _, first_s = timed(base, folder / "first", Options(device="cpu", store=store))
        total_s, trained = 0.0, 0
        for index, overrides in enumerate(variants(arguments.variants)):
            what_if = base.with_overrides(overrides)
            warm, seconds = timed(what_if, folder / f"{index}", Options(device="cpu", store=store))
            total_s += seconds
            trained += warm.manifest["counts"]["jobs_trained"]
            if index < arguments.cold:
                cold, _ = timed(what_if, folder / f"{index}-cold", Options(device="cpu"))
                logs = [(one.path / "events.parquet").read_bytes() for one in (warm, cold)]
                print(f"variant {index}: same log as a cold run: {logs[0] == logs[1]}")
    print(
        f"first run {first_s:.2f} s; {arguments.variants} variants {total_s:.2f} s, {trained} jobs"
        f" trained; together {(first_s + total_s) / first_s:.2f} times the first run (goal 1.2)"
    )


if __name__ == "__main__":
    main()
