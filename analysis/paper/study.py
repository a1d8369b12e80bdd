"""Running experiments: every one with every seed, none twice."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from paper.estimate import Probe, ends_itself, kind_of, probed
from paper.experiments import Experiment, Scale, Trial
from paper.tables import gather
from simfl.assembly.simulation import Options
from simfl.common.files import DataMissing
from simfl.protocols.publication import Diverged
from simfl.runs.execution import run
from simfl.runs.runfolder import MANIFEST, LoadedRun, load_run
from simfl.scenario.scenario import Scenario
from simfl.scenario.yaml_source.error import ScenarioError

ENDED = ("completed", "diverged")

Found = TypeVar("Found")


class OnlyPlanned(Exception):
    """Raised where a study that only plans would have to run something."""


def each_of(shows: Iterable[Callable[[], Found]]) -> list[Found]:
    """What each of them finds; a plan goes through all of them before it ends.

    Raises OnlyPlanned after the last one, where any did.
    """
    found, ended = [], None
    for show in shows:
        try:
            found.append(show())
        except OnlyPlanned as end:
            ended = end
    if ended is not None:
        raise ended
    return found


@dataclass
class Study:
    """The runs of one paper at one scale, kept in `folder`.

    `seeds` and `data` are the scale's unless the command line gives others; seeds below `from_seed`
    are left to another machine. `skipped` says which data sets are not at hand, and why. After
    `limit_s` seconds no run begins: what is finished is a result. With `only_plan` nothing is run.
    With `only`, experiments of these names or whose names go on with a comma or a space, and no
    others. `takes_s` has every run that was planned, by data, name and seed, and the core-seconds
    that it took or will take about. `keep` takes what `run` measures, run by run, and `again`:
    whether the run was made now; `kept` are those runs, `made` all that were made now, `shown` all
    that are there, and `partial` the data sets and seeds of which some are not.
    """

    scale: Scale
    folder: Path
    seeds: int
    data: tuple[str, ...]
    options: Options = field(default_factory=Options)
    skipped: dict[str, str] = field(default_factory=dict)
    limit_s: float = math.inf
    only_plan: bool = False
    only: tuple[str, ...] = ()
    from_seed: int = 0
    began_s: float = field(default_factory=time.monotonic)
    takes_s: dict[tuple[str, str, int], float] = field(default_factory=dict)
    keep: Callable[..., object] | None = None
    kept: set[tuple[str, str, int]] = field(default_factory=set)
    made: set[tuple[str, str, int]] = field(default_factory=set)
    shown: set[tuple[str, str, int]] = field(default_factory=set)
    partial: set[tuple[str, int]] = field(default_factory=set)

    def asked_for(self, name: str) -> bool:
        """Whether an experiment of this name is to be shown."""
        ends = ("", ",", " ")  # not `fedavg_long` with `fedavg`
        begins = [one for one in self.only if name.startswith(one)]
        return not self.only or any(name[len(one) :][:1] in ends for one in begins)

    def of_first(self, seeds: int) -> Study:
        """The same with the first so many seeds, whichever are asked for."""
        return replace(self, seeds=seeds, from_seed=0)

    def measured(
        self,
        experiments: Sequence[Experiment],
        figures: Callable[[LoadedRun], Mapping[str, float]],
    ) -> pd.DataFrame:
        """What `figures` says of every run."""
        return gather(self.run(experiments, figures), figures)

    def run(
        self,
        experiments: Sequence[Experiment],
        figures: Callable[[LoadedRun], Mapping[str, float]] | None = None,
    ) -> list[Trial]:
        """One trial per experiment and seed; those of absent data sets are left out, and said so.

        All experiments of a seed come before the next seed, so that what an interruption leaves is
        a comparison already. Runs that are there are read; one that was cut off goes on. A run
        that diverges is a result. Raises what `simfl.run` raises for other reasons than absent
        data. What `figures` says of a run is kept when the run ends, so that none is lost.
        """
        seeds = range(self.from_seed, self.seeds)
        others = {one.data for one in experiments if not self.asked_for(one.name)}
        self.partial.update((data, seed) for data in others for seed in seeds)
        experiments = [one for one in experiments if self.asked_for(one.name)]
        planned = [(one, seed) for seed in seeds for one in experiments]
        if self.scale.estimate or self.only_plan:
            self._estimate(planned)
        trials = []
        for count, (one, seed) in enumerate(planned, start=1):
            if one.data in self.skipped:
                continue
            late = time.monotonic() - self.began_s > self.limit_s
            if (late or self.only_plan) and not self._is_there(one, seed):
                self.partial.add((one.data, seed))
                continue
            try:
                folder, took_s = self._one(one, seed)
            except ScenarioError as error:
                self._skip(one.data, error)
                continue
            if took_s is not None:
                where = f"{count} of {len(planned)}: {one.data} {one.name}, seed {seed}"
                status = load_run(folder).manifest["status"]
                print(f"  {where}: {status} in {took_s:.1f} s", flush=True)
                self.takes_s[one.data, one.name, seed] = self._core_s(folder)
                self.made.add((one.data, one.name, seed))
            self.shown.add((one.data, one.name, seed))
            trials.append(Trial(one.data, one.name, seed, folder))
            if figures is not None and self.keep is not None:
                self.keep(gather(trials[-1:], figures), again=took_s is not None)
                self.kept.add((one.data, one.name, seed))
        there = sum(one.data not in self.skipped for one, _ in planned)
        if len(trials) < there:
            if self.only_plan:
                raise OnlyPlanned
            print(f"  NOT RUN: {there - len(trials)} of {there}, as the time was over", flush=True)
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

    def _skip(self, data: str, error: ScenarioError) -> None:
        """Leave out a data set that is not at hand; raises any other error."""
        if not isinstance(error.__cause__, DataMissing):
            raise error
        self.skipped[data] = str(error.__cause__)
        print(f"SKIPPED {data}: {error.__cause__}", flush=True)

    def _is_there(self, one: Experiment, seed: int) -> bool:
        scenario = Scenario.from_yaml(one.scenario, one.overrides, seed)
        return _ended(self._folder(one, seed, scenario))

    def planned(self) -> pd.DataFrame:
        """What an exhibit takes: data, name, seeds, core_hours (of all seeds)."""
        rows = [(data, name, takes_s) for (data, name, _), takes_s in self.takes_s.items()]
        table = pd.DataFrame(rows, columns=["data", "name", "takes_s"])
        grouped = table.groupby(["data", "name"], sort=False)["takes_s"]
        return grouped.agg(seeds="size", core_hours=lambda s: s.sum() / 3600).reset_index()

    def _estimate(self, planned: Sequence[tuple[Experiment, int]]) -> None:
        """Print the core-hours of the runs that are still to do.

        A run takes what another seed of it took; without one, what a version takes in a short run
        of its kind (`estimate.kind_of`), times its versions.
        """
        took_s: dict[tuple[str, str], float] = {}
        left: list[tuple[tuple[str, str, int], Scenario]] = []
        for one, seed in planned:
            key = one.data, one.name, seed
            scenario = Scenario.from_yaml(one.scenario, one.overrides, seed)
            folder = self._folder(one, seed, scenario)
            if _ended(folder):
                took_s[key[:2]] = self.takes_s[key] = self._core_s(folder)
            else:
                left.append((key, scenario))
        sooner = False
        for key, scenario in left:
            if key[:2] not in took_s and key[0] not in self.skipped:
                probe = self._probe(key[0], scenario)
                if key[0] not in self.skipped:
                    took_s[key[:2]] = probe.takes_s(scenario)
                    sooner |= ends_itself(scenario)
            if key[0] not in self.skipped:
                self.takes_s[key] = took_s[key[:2]]
        to_do = [key for key, _ in left if key in self.takes_s]
        hours = sum(self.takes_s[key] for key in to_do) / 3600
        said = "at most" if sooner else "about"
        print(
            f"  {len(to_do)} of {len(planned)} runs to do, {said} {hours:.1f} core-hours",
            flush=True,
        )

    def _core_s(self, folder: Path) -> float:
        """Core-seconds of a run that is there: those of its last process, on all its cores."""
        return max(1, self.options.workers) * float(_manifest(folder)["wall_s"])

    def _probe(self, data: str, scenario: Scenario) -> Probe:
        """What runs of this kind take, found out once; nothing where the data are absent: said."""
        file = self.folder / "versions.json"
        known: dict[str, list[float]] = json.loads(file.read_text()) if file.exists() else {}
        kind = kind_of(scenario)
        if kind not in known:
            try:
                found = probed(scenario, self.options)
            except ScenarioError as error:
                self._skip(data, error)
                return Probe()
            known[kind] = [found.core_s, found.simulated_s]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(known, indent=1), encoding="utf-8")
        return Probe(*known[kind])


def _ended(folder: Path) -> bool:
    """Whether the folder holds a run that came to its end."""
    return (folder / MANIFEST).exists() and _manifest(folder)["status"] in ENDED


def _manifest(folder: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    return manifest
