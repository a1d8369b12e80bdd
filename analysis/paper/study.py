"""Running experiments: every one with every seed, none twice."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from paper.experiments import Experiment, Scale, Trial
from simfl.assembly.simulation import Options
from simfl.learning.datasets.base import DataMissing
from simfl.protocols.publication import Diverged
from simfl.runs.execution import run
from simfl.runs.runfolder import MANIFEST, load_run
from simfl.scenario.scenario import Scenario
from simfl.scenario.yaml_source.error import ScenarioError

ENDED = ("completed", "diverged")
PROBE_VERSIONS = 2


@dataclass
class Study:
    """The runs of one paper at one scale, kept in `folder`.

    `seeds` and `data` are the scale's unless the command line gives others. `skipped` says which
    data sets are not at hand, and why.
    """

    scale: Scale
    folder: Path
    seeds: int
    data: tuple[str, ...]
    options: Options = field(default_factory=Options)
    skipped: dict[str, str] = field(default_factory=dict)

    def run(self, experiments: Sequence[Experiment]) -> list[Trial]:
        """One trial per experiment and seed; those of absent data sets are left out, and said so.

        All experiments of a seed come before the next seed, so that what an interruption leaves is
        a comparison already. Runs that are there are read; one that was cut off goes on. A run
        that diverges is a result. Raises what `simfl.run` raises for other reasons than absent
        data.
        """
        planned = [(one, seed) for seed in range(self.seeds) for one in experiments]
        if self.scale.estimate:
            self._print_estimate(planned)
        trials = []
        for count, (one, seed) in enumerate(planned, start=1):
            if one.data in self.skipped:
                continue
            try:
                folder, took_s = self._one(one, seed)
            except ScenarioError as error:
                if not isinstance(error.__cause__, DataMissing):
                    raise
                self.skipped[one.data] = str(error.__cause__)
                print(f"SKIPPED {one.data}: {error.__cause__}", flush=True)
                continue
            if took_s is not None:
                where = f"{count} of {len(planned)}: {one.data} {one.name}, seed {seed}"
                status = load_run(folder).manifest["status"]
                print(f"  {where}: {status} in {took_s:.1f} s", flush=True)
            trials.append(Trial(one.data, one.name, seed, folder))
        return trials

    def _one(self, one: Experiment, seed: int) -> tuple[Path, float | None]:
        """The run's folder, and the seconds that it took; None where it was there already."""
        scenario = Scenario.from_yaml(one.scenario, one.overrides, seed)
        folder = self._folder(one, seed, scenario)
        if _ended(folder):
            return folder, None
        began = time.perf_counter()
        with suppress(Diverged):
            run(scenario, folder, self.options, resume=True)
        return folder, time.perf_counter() - began

    def _folder(self, one: Experiment, seed: int, scenario: Scenario) -> Path:
        """Where the scenario's run lies, under whichever experiment it was first run for."""
        runs, digest = self.folder / "runs", scenario.digest[:12]
        name = re.sub(r"[^-+.=\w]", "_", f"{one.data}-{one.name}-{seed}")
        return next(iter(runs.glob(f"*-{digest}")), runs / f"{name}-{digest}")

    def _print_estimate(self, planned: Sequence[tuple[Experiment, int]]) -> None:
        """Print how long the runs that are still to do will take, from a short one per data set."""
        per_version_s: dict[str, float] = {}
        total_s, left = 0.0, 0
        for one, seed in planned:
            scenario = Scenario.from_yaml(one.scenario, one.overrides, seed)
            if _ended(self._folder(one, seed, scenario)) or scenario.stop.versions is None:
                continue
            if one.data not in per_version_s:
                per_version_s[one.data] = self._probe_s(scenario)
            total_s += per_version_s[one.data] * scenario.stop.versions
            left += 1
        print(f"  {left} of {len(planned)} runs to do, about {total_s / 3600:.1f} h", flush=True)

    def _probe_s(self, scenario: Scenario) -> float:
        """Wall seconds per version; 0 where the data are absent."""
        short = [f"stop.versions={PROBE_VERSIONS}", "evaluate.measures=[]"]
        with tempfile.TemporaryDirectory() as folder:
            try:
                result = run(scenario.with_overrides(short), Path(folder) / "probe", self.options)
            except ScenarioError as error:
                if not isinstance(error.__cause__, DataMissing):
                    raise
                return 0.0
        return float(result.manifest["wall_s"]) / PROBE_VERSIONS


def _ended(folder: Path) -> bool:
    """Whether the folder holds a run that came to its end."""
    manifest = folder / MANIFEST
    if not manifest.exists():
        return False
    return json.loads(manifest.read_text(encoding="utf-8"))["status"] in ENDED
