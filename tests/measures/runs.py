"""Runs for the tests of measures: of known latencies, of FedCure whole, and runs made wrong."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import simfl
from simfl.runs.runfolder import LoadedRun
from simfl.streams import Streams
from simfl.system.catalogue import Catalogue
from simfl.system.populations.paper import Paper
from simfl.system.world import World

LATENCY_S = (1.0, 1.1, 1.3, 1.6, 2.5)
"""The card's five edge servers."""

GIGACYCLE = 1.0e9


@dataclass(frozen=True, kw_only=True)
class OwnSpeeds(Paper):
    """One client per edge server at 1 GHz, whose round takes so many seconds, and no message."""

    dispatch_s: Annotated[tuple[float, ...], "of one client round, per edge server"] = LATENCY_S

    def build(self, streams: Streams, catalogue: Catalogue) -> World:
        """The literature's world, with work given instead of drawn."""
        world = super().build(streams, catalogue)
        return dataclasses.replace(world, work_factor=np.array(self.dispatch_s))


def known_latencies(
    folder: Path,
    scheduling: str | dict[str, Any],
    rounds: int,
    concurrency: int = 2,
    noise: float = 0.02,
    **decisions: Any,
) -> LoadedRun:
    """A run without learning over edge servers of `LATENCY_S`, one client each."""
    scenario = simfl.Scenario.from_mapping(
        {
            "name": "known-latencies",
            "seed": 5,
            "data": {"name": "sizes", "examples_per_client": 1, "input_shape": [1], "outputs": 2},
            "model": "linear",
            "population": {
                "name": f"{Path(__file__)}:OwnSpeeds",
                "clients": 5,
                "edges": 5,
                "cycles_per_example": [GIGACYCLE, GIGACYCLE],
                "frequency_max_hz": [GIGACYCLE, GIGACYCLE],
                "access_bps": [1e15, 1e15],
                "backhaul_bps": 1e15,
                "noise": noise,
            },
            "algorithm": {"name": "none", "local": {"steps": 1, "batch_size": 1}},
            "protocol": {
                "name": "semi_asynchronous",
                "edge_rounds": 1,
                "concurrency": concurrency,
            },
            "decisions": {"scheduling": scheduling, **decisions},
            "stop": {"versions": rounds},
        }
    )
    return simfl.run(scenario, folder)


def fedcure(folder: Path, *overrides: str) -> LoadedRun:
    """A FedCure run without learning on 50 clients with two of ten labels per edge server."""
    path = Path(__file__).parents[2] / "scenarios" / "fedcure" / "fedcure.yaml"
    changes = ["algorithm.name=none", "protocol.edge_rounds=2", "stop.versions=40"]
    return simfl.run(simfl.Scenario.from_yaml(path, [*changes, *overrides]), folder)


def edited(run: LoadedRun, kind: str, change: Callable[[int, dict[str, Any]], None]) -> LoadedRun:
    """The run as it would be read if its rows of one kind said something else.

    `change` is called with each row's number and its columns, `detail` as a mapping, and changes
    them in place.
    """
    events = run.events.copy()
    for number, index in enumerate(events.index[events["kind"] == kind]):
        row = events.loc[index].to_dict()
        row["detail"] = json.loads(row["detail"])
        change(number, row)
        events.at[index, "value"] = row["value"]
        events.at[index, "detail"] = json.dumps(row["detail"])
    other = LoadedRun(run.path)
    other.events = events
    return other
