"""simfl: clock, energy, event log and an evaluation of every version included.

It makes data of the same shape itself.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from stopwatch import A_ROUND, BATCH, CLASSES, CLIENTS, EPOCHS, HIDDEN, RATE, Job

from simfl import Scenario, run
from simfl.assembly.simulation import Options


def main() -> None:
    """Run it; a further argument is the number of workers."""
    job = Job()
    workers = int(sys.argv[6]) if len(sys.argv) > 6 else 0
    scenario = Scenario.from_mapping(
        {
            "name": "peers",
            "data": {
                "name": "synthetic",
                "examples": CLIENTS * job.rows,
                "test_examples": 500,
                "features": job.features,
                "outputs": CLASSES,
                "partition": "iid",
            },
            "model": {"name": "mlp", "hidden": [HIDDEN, HIDDEN]},
            "population": {"name": "paper", "clients": CLIENTS, "edges": 4},
            "algorithm": {
                "name": "fedavg",
                "local": {"epochs": EPOCHS, "batch_size": BATCH, "learning_rate": RATE},
            },
            "protocol": "synchronous",
            "decisions": {"selection": {"name": "random", "share": A_ROUND / CLIENTS}},
            "stop": {"versions": job.rounds},
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        options = Options(device="cpu", workers=workers, watch=lambda _: job.round_ended())
        run(scenario, Path(folder) / "run", options)
    job.report()


if __name__ == "__main__":
    main()
