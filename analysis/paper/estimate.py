"""What runs will take, found out from short ones of the same kind."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from simfl.assembly.assemble import outlined
from simfl.assembly.simulation import Options
from simfl.protocols.publication import Diverged, Progress
from simfl.runs.execution import run
from simfl.scenario.scenario import Scenario

LENGTHS = (2, 10, 50)
"""Versions of short runs, each only where the one before took too little to be measured."""

LEAST_S = 2.0
"""Core-seconds that are enough to measure."""

ASIDE = frozenset(("name", "seed", "stop", "evaluate", "decisions", "log"))
"""Sections that do not tell how much a version computes."""


@dataclass(frozen=True)
class Probe:
    """What a version takes: core-seconds, and simulated ones."""

    core_s: float = 0.0
    simulated_s: float = math.inf

    def takes_s(self, scenario: Scenario) -> float:
        """Core-seconds of a whole run, to whichever end is the first."""
        stop = scenario.stop
        versions = (
            math.inf if stop.versions is None else stop.versions,
            math.inf if stop.time_s is None else stop.time_s / self.simulated_s,
        )
        return self.core_s * min(versions) if math.isfinite(min(versions)) else 0.0


def kind_of(scenario: Scenario) -> str:
    """The same for runs whose versions compute about as much.

    The algorithm's own numbers are left out (a rate, a weight), those of local training are not.
    """
    told = {
        name: one for name, one in scenario.model_dump(mode="json").items() if name not in ASIDE
    }
    algorithm = told.get("algorithm")
    if isinstance(algorithm, dict):
        told["algorithm"] = {
            name: one
            for name, one in algorithm.items()
            if isinstance(one, bool) or not isinstance(one, int | float)
        }
    text = json.dumps(told, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def ends_itself(scenario: Scenario) -> bool:
    """Whether the algorithm may end a run before its last version, as a game that is settled."""
    return bool(outlined(scenario).parts["algorithm",].stands)


def probed(scenario: Scenario, options: Options) -> Probe:
    """What a version takes in a short run, beginning apart; raises what `simfl.run` raises.

    Jobs are trained when somebody asks for what comes of them, which may be versions later: what
    was spent counts for the jobs that were trained meanwhile.
    """
    found = Probe()
    for versions in LENGTHS:
        marks: list[tuple[float, Progress]] = []

        def mark(progress: Progress, marks: list[tuple[float, Progress]] = marks) -> None:
            marks.append((time.process_time(), progress))

        short = scenario.with_overrides([f"stop.versions={versions}", "evaluate.measures=[]"])
        with tempfile.TemporaryDirectory() as folder, suppress(Diverged):
            run(short, Path(folder) / "probe", replace(options, workers=0, watch=mark))
        if len(marks) < LENGTHS[0]:  # it diverged, or came to another end
            break
        (began_s, first), (ended_s, last) = marks[0], marks[-1]
        trained = (last.jobs - first.jobs) / last.jobs if last.jobs else 1 - 1 / len(marks)
        if trained:
            found = Probe((ended_s - began_s) / trained / len(marks), last.time_s / len(marks))
        if ended_s - began_s >= LEAST_S:
            break
    return found
