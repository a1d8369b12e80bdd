"""The runs of a study: settings x seeds, each checked and identified by its digest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simfl.assembly.assemble import outlined
from simfl.assembly.unread import reason_of
from simfl.scenario.plugins import is_import_path, plugin_file
from simfl.scenario.scenario import Keys, Scenario
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.scenario.yaml_source.source import KeyPath, Source
from simfl.study.design import Setting, settings
from simfl.study.studyfile import HARDWARE_DRAW, Interval, Study

DIGITS = 16
"""Characters of a run's digest in its folder's name: 64 bits, ample for any study."""


@dataclass(frozen=True)
class Point:
    """One run of a study: a setting (`number`, counted from 0) with a seed.

    `factors` distinguish the setting from others; `digest` is that of the simulation, so points
    with equal digests are the same run. With a `draw`, its machines are drawn within their
    uncertainty.
    """

    number: int
    seed: int
    factors: dict[str, Any]
    scenario: Scenario
    digest: str
    draw: int | None = None

    @property
    def folder_name(self) -> str:
        """The run's folder within the study's."""
        return self.digest[:DIGITS]


def points(study: Study, data_root: Path | None = None) -> list[Point]:
    """Every run, setting by setting and within a setting seed by seed.

    Neighbours have different seeds: runs side by side could not share training anyway, and a later
    run finds what was trained for its seed. Runs on drawn machines come last, draw by draw, each
    with one of the seeds in turn.

    A key that a point sets but does not read is removed from that point. Raises ScenarioError for
    the first point that is not a valid scenario (with the study's file and line if the value is
    from there); for a key that the study sets and that none of the points with this value reads, or
    whose whole section they set; and then for a baseline that no point has.
    """
    chosen = settings(study)
    found = planned(study, chosen, data_root, must_be_read=True)
    study.check_baselines()
    if study.uncertainty is not None:
        for draw in range(study.uncertainty.draws):
            found += planned(study, chosen, data_root, draw=draw)
    return found


def planned(
    study: Study,
    chosen: Sequence[Setting],
    data_root: Path | None = None,
    first: int = 0,
    *,
    must_be_read: bool = False,
    draw: int | None = None,
) -> list[Point]:
    """The runs of these settings, counted from `first`; with `must_be_read`, keys are checked as by
    `points`.

    In a search, some trials may have a key that nothing reads in them. With a `draw`, every setting
    has one run, on those machines.
    """
    base, folder = study.base.below(data_root), study.where().source.base_dir
    found, named = [], _Named()
    for number, setting in enumerate(chosen, start=first):
        for place, seed in _seeds(study, draw):
            values = {**setting.values, "seed": (seed, study.origin("seeds", place))}
            if draw is not None:
                values[HARDWARE_DRAW] = (draw, study.origin("uncertainty"))
            source = base.where().source
            for key, (value, origin) in values.items():
                before = source
                source = source.with_value(key, with_own_files(value, folder), origin)
                named.replaced(before, source, key)
            try:
                scenario = Scenario.from_source(source)
                outline = outlined(scenario)
            except ScenarioError as error:
                raise _about_integers(study, error) from error
            scenario = scenario.without(named.unread_in(scenario, outline.unread))
            found.append(Point(number, seed, setting.factors, scenario, outline.digest, draw))
    if must_be_read:
        named.check()
    return found


def _about_integers(study: Study, error: ScenarioError) -> ScenarioError:
    """The error, with a hint if an interval gave non-integers to a key of whole numbers."""
    sample, search = study.points.sample, study.search
    over: dict[str, Any] = {**(search.over if search else {}), **(sample.over if sample else {})}
    interval = over.get(error.key)
    its_integers = error.accepted.startswith("an integer")
    if not isinstance(interval, Interval) or interval.integer or not its_integers:
        return error
    accepted = f"{error.accepted}; 'integer: true' beside low and high gives whole numbers"
    return ScenarioError(error.file, error.line, error.key, error.found, accepted)


def _seeds(study: Study, draw: int | None) -> list[tuple[int, int]]:
    """Seeds with their indices in the study's list: all of them, or the one of a draw."""
    every = list(enumerate(study.seeds))
    return every if draw is None else [every[draw % len(every)]]


def with_own_files(value: Any, folder: Path) -> Any:
    """`value` with absolute paths for parts in files beside the study.

    Others stay as they are: they are looked up beside the scenario, which is another file and may
    be one shipped with simfl.
    """
    if isinstance(value, Mapping):
        return {key: with_own_files(one, folder) for key, one in value.items()}
    if isinstance(value, list):
        return [with_own_files(one, folder) for one in value]
    if isinstance(value, str) and is_import_path(value):
        file = plugin_file(value, folder)
        if file is not None and file.is_file():
            return f"{file}:{value.rpartition(':')[2]}"
    return value


class _Named:
    """The keys that a study sets, and whether any point reads them."""

    def __init__(self) -> None:
        self._read: set[tuple[Keys, str]] = set()
        self._unread: dict[tuple[Keys, str], ScenarioError] = {}

    def unread_in(self, scenario: Scenario, unread: Mapping[Keys, str]) -> list[Keys]:
        """The keys that nothing reads in this point."""
        idle = []
        for keys, origin in scenario.where().source.origins.items():
            reason = reason_of(keys, unread)
            if reason is None:
                self._read.add((keys, origin))
                continue
            idle.append(keys)
            message = f"nothing reads it, in any point that sets it so: {reason}"
            self._unread[keys, origin] = scenario.where(*keys).error("", "", message)
        return idle

    def replaced(self, before: Source, after: Source, section: str) -> None:
        """Record keys that are gone because the whole section above them was set."""
        for keys in before.origins.keys() - after.origins.keys():
            message = f"nothing reads it, in any point that sets it so: {section} is set as a whole"
            error = KeyPath(before, keys).error("", "", message)
            self._unread[keys, before.origins[keys]] = error

    def check(self) -> None:
        """Raises ScenarioError for the first key that no point reads."""
        for named, error in self._unread.items():
            if named not in self._read:
                raise error


def shard(whole: list[Point], index: int, count: int) -> list[Point]:
    """The `index`-th (from 1) of `count` shares, whose sizes differ by at most one point.

    Points with the same seed stay together as far as possible, since they share training.
    """
    by_seed = sorted(whole, key=lambda point: (point.seed, point.number))
    ends = [math.floor(len(whole) * end / count) for end in (index - 1, index)]
    return by_seed[slice(*ends)]
