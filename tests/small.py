"""A small scenario that tests vary, and ways to run it without a folder."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options, Simulation
from simfl.protocols.run import Run
from simfl.provenance.journal import Journal
from simfl.runs.execution import find_contributions, simulate
from simfl.scenario.scenario import Scenario

SMALL: dict[str, Any] = {
    "name": "small",
    "seed": 3,
    "dtype": "float64",
    "data": {"name": "digits", "partition": {"name": "dirichlet", "alpha": 1.0}},
    "model": {"name": "mlp", "hidden": [12]},
    "population": {
        "name": "catalogue",
        "clients": 8,
        "edges": 2,
        "groups": [
            {"device": "rpi_4b", "link": "wifi5_ac", "share": 0.5},
            {"device": "phone_high_sd865", "link": "lte_2021", "share": 0.5},
        ],
    },
    "algorithm": {
        "name": "fedavg",
        "local": {"epochs": 1, "batch_size": 16, "learning_rate": 0.1},
    },
    "protocol": "synchronous",
    "stop": {"versions": 3},
}
SEMI_ASYNCHRONOUS = {"name": "semi_asynchronous", "edge_rounds": 2, "concurrency": 1}


def small(**changes: Any) -> Scenario:
    """The small scenario with changed sections; a mapping is merged into its section."""
    content = copy.deepcopy(SMALL)
    for key, value in changes.items():
        if (
            isinstance(value, Mapping)
            and isinstance(content.get(key), dict)
            and "name" not in value
        ):
            content[key].update(value)
        else:
            content[key] = value
    return Scenario.from_mapping(content)


def simulated(
    scenario: Scenario, folder: Path | None = None, journal: Journal | None = None, **options: Any
) -> tuple[Simulation, Run]:
    """Run a scenario without writing more than events (with a folder) and return the run."""
    simulation = assemble(scenario, Options(**{"device": "cpu", **options}))
    run = simulation.make_run(folder, journal or Journal(), find_contributions=find_contributions)
    simulate(simulation, run)
    run.close()
    return simulation, run


def final_weights(run: Run) -> dict[str, torch.Tensor]:
    """The last global version's weights."""
    assert run.publications.latest is not None
    return run.publications.latest.value().weights


def largest_difference(
    left: Mapping[str, torch.Tensor], right: Mapping[str, torch.Tensor]
) -> float:
    """The largest absolute difference over all tensors."""
    assert left.keys() == right.keys()
    return max(float((left[name] - right[name]).abs().max()) for name in left)
