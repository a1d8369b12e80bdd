"""A study file: a base scenario, the keys to vary, seeds and questions; checked and frozen."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, TypeAdapter, model_validator

from simfl.common.suggestion import nearest
from simfl.runs.files import SCENARIO
from simfl.scenario.classes import plain_content
from simfl.scenario.scenario import Scenario
from simfl.scenario.shipped import shipped_scenarios
from simfl.scenario.validation.validate import validate
from simfl.scenario.yaml_source.error import ScenarioError, show
from simfl.scenario.yaml_source.source import KeyPath, Source, key_and_value, read_source
from simfl.study.bound import Bound, bound
from simfl.study.figures import FIGURES
from simfl.study.kinds import KINDS
from simfl.study.levels import as_text, in_one_column, is_labelled, level
from simfl.study.one_setting import is_a_scenario, study_of
from simfl.study.targets import TARGETS, asked_by, column_name

HARDWARE_DRAW = "population.hardware_draw"
"""The scenario key with the number of the draw of its machines."""
VARIANT = "variant"
"""The factor whose levels are the names under `points.variants`."""

Text = Annotated[str, Field(strict=True, min_length=1)]
Settings = dict[Text, Any]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class Interval(_Section):
    """The values that a sampled key may take."""

    low: Annotated[float, Field(strict=True, allow_inf_nan=False, description="smallest value")]
    high: Annotated[float, Field(strict=True, allow_inf_nan=False, description="largest value")]
    scale: Literal["linear", "log"] = "linear"
    integer: Annotated[bool, Field(strict=True, description="whole numbers only")] = False

    @model_validator(mode="after")
    def _is_an_interval(self) -> Interval:
        if self.high <= self.low:
            raise ValueError(f"high: must be above low, {self.low:g}")
        if self.scale == "log" and self.low <= 0:
            raise ValueError("low: must be > 0 on a logarithmic scale")
        if self.integer and math.floor(self.high) < math.ceil(self.low):
            raise ValueError(f"high: no whole number lies between {self.low:g} and {self.high:g}")
        return self


class Sample(_Section):
    """Points sampled from intervals: Latin hypercube, scrambled Sobol sequence, Saltelli's design.

    `saltelli` is made for first-order and total Sobol indices: `size` times the keys and two.
    """

    method: Literal["latin_hypercube", "sobol", "saltelli"]
    size: Annotated[
        int, Field(strict=True, ge=1, description="points; with saltelli, rows of each matrix")
    ]
    seed: Annotated[int, Field(strict=True, ge=0, description="of the sample, not of the runs")] = 0
    over: Annotated[dict[Text, Interval], Field(min_length=1)]

    @model_validator(mode="after")
    def _is_balanced(self) -> Sample:
        if self.method != "latin_hypercube" and self.size & (self.size - 1):
            raise ValueError("size: a Sobol sample is balanced for powers of two only")
        if self.method == "saltelli" and len(self.over) < 2:
            raise ValueError("over: found one key; saltelli needs at least two")
        return self


class Points(_Section):
    """The settings to run; several kinds are combined with each other."""

    variants: dict[Text, Settings] = Field(
        default_factory=dict, description="named settings of keys that belong together"
    )
    grid: dict[Text, Annotated[list[Any], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="values per key, or {label, value}; all combinations are run",
    )
    sample: Sample | None = None


class Comparison(_Section):
    """A factor whose levels are compared with a baseline level, in pairs."""

    factor: Text
    baseline: Any


class _Goal(_Section):
    """A figure to minimize or maximize, with bounds on other figures."""

    minimize: Text | None = None
    maximize: Text | None = None
    subject_to: dict[Text, Text] = Field(
        default_factory=dict, description="figure -> bound for every seed, such as '<= 3600'"
    )

    @model_validator(mode="after")
    def _has_bounds(self) -> Self:
        for metric, text in self.subject_to.items():
            try:
                bound(text)
            except ValueError as error:
                raise ValueError(f"subject_to.{metric}: found {text!r}, {error}") from None
        return self

    def bounds(self) -> dict[str, Bound]:
        """The bound on each figure."""
        return {metric: bound(text) for metric, text in self.subject_to.items()}

    def _under_bounds(self, what: str) -> str:
        bounds = " and ".join(f"{metric} {one}" for metric, one in self.bounds().items())
        return what + (f" with {bounds}" if bounds else "")


class Best(_Goal):
    """The setting with the least, or most, of a figure among those within bounds."""

    @model_validator(mode="after")
    def _asks_one_thing(self) -> Best:
        if (self.minimize is None) == (self.maximize is None):
            raise ValueError("give one figure: minimize or maximize")
        return self

    @property
    def figure(self) -> str:
        """The figure to minimize or maximize."""
        return self.minimize or self.maximize or ""

    @property
    def in_words(self) -> str:
        """The question, such as "least client_energy_j with time_to_accuracy_0.9_s <= 3600"."""
        return self._under_bounds(f"{'most' if self.maximize else 'least'} {self.figure}")


Choices = Annotated[list[Any], Field(min_length=2, description="values, or {label, value}")]
NOT_OF_THE_RUN = ("wall_s", "jobs_trained", "jobs_reused")
"""Figures about how a run was computed; they depend on the computer and on what ran before."""


class Search(_Goal):
    """A search: each next setting is chosen from the results so far."""

    trials: Annotated[int, Field(strict=True, ge=1, description="settings, each with all seeds")]
    batch: Annotated[int, Field(strict=True, ge=1, description="trials run in one batch")] = 8
    over: Annotated[
        dict[Text, Interval | Choices],
        Field(min_length=1, description="key -> interval, or list of values"),
    ]
    pareto: dict[Text, Literal["max", "min"]] = Field(
        default_factory=dict, description="several figures at once, instead of one"
    )

    @model_validator(mode="after")
    def _has_an_end(self) -> Search:
        goals = [bool(one) for one in (self.minimize, self.maximize, self.pareto)]
        if sum(goals) != 1:
            raise ValueError("give one goal: minimize, maximize or pareto")
        if self.pareto and len(self.pareto) < 2:
            raise ValueError("pareto: a front takes two figures; minimize or maximize takes one")
        counts = [_count(one) for one in self.over.values()]
        if math.prod(counts) < self.trials:
            there_are = f"there are {math.prod(counts):g} settings; points.grid runs them all"
            raise ValueError(f"trials: found {self.trials}, but {there_are}")
        return self

    @property
    def objectives(self) -> dict[str, Literal["max", "min"]]:
        """Figure -> whether to maximize or minimize it."""
        if self.pareto:
            return self.pareto
        return {self.minimize: "min"} if self.minimize else {self.maximize or "": "max"}

    @property
    def best(self) -> Best | None:
        """The question that the search answers; None if it has several objectives."""
        if self.pareto:
            return None
        return Best(minimize=self.minimize, maximize=self.maximize, subject_to=self.subject_to)

    @property
    def in_words(self) -> str:
        """Its goal, such as "least client_energy_j with time_to_accuracy_0.9_s <= 3600"."""
        if self.best is not None:
            return self.best.in_words
        return self._under_bounds(
            " and ".join(
                f"{'most' if way == 'max' else 'least'} {name}" for name, way in self.pareto.items()
            )
        )

    @property
    def figures(self) -> tuple[str, ...]:
        """Every figure in its goal."""
        return (*self.objectives, *self.subject_to)


def _count(one: Interval | list[Any]) -> float:
    """How many values a key may take."""
    if isinstance(one, list):
        return len(one)
    return math.floor(one.high) - math.ceil(one.low) + 1 if one.integer else math.inf


class Questions(_Section):
    """The questions about the finished runs."""

    metrics: Annotated[tuple[Text, ...], Field(min_length=1)] = ("accuracy", "time_s", "energy_j")
    targets: dict[
        Literal["accuracy", "loss"], list[Annotated[float, Field(strict=True, allow_inf_nan=False)]]
    ] = Field(default_factory=dict, description="time, joules and bytes until these are met")
    compare: tuple[Comparison, ...] = ()
    pareto: dict[Text, Literal["max", "min"]] = Field(
        default_factory=dict, description="figures of the Pareto front"
    )

    best: Best | None = None

    @property
    def figures(self) -> tuple[str, ...]:
        """The metrics, and of targets that no question names the time and clients' joules."""
        best = [self.best.figure, *self.best.subject_to] if self.best else []
        asked = [asked_by(name) for name in (*self.metrics, *self.pareto, *best)]
        named = {one[1:] for one in asked if one is not None}
        of_targets = [
            column_name(cost, figure, target)
            for figure, targets in self.targets.items()
            for target in targets
            if (figure, target) not in named
            for cost in ("time", "client_energy")
        ]
        return (*self.metrics, *of_targets)

    def target_columns(self, others: Sequence[str] = ()) -> dict[str, tuple[str, str, float]]:
        """Column name -> (column of the rounds table, accuracy or loss, target).

        All columns of `targets`, and those that are requested by name, here or in `others`.
        """
        best = [self.best.figure, *self.best.subject_to] if self.best else []
        named = {name: asked_by(name) for name in (*self.metrics, *self.pareto, *best, *others)}
        return {
            column_name(asked, figure, target): (column, figure, target)
            for figure, targets in self.targets.items()
            for target in targets
            for asked, (column, _) in TARGETS.items()
        } | {name: asked for name, asked in named.items() if asked is not None}


class Uncertainty(_Section):
    """Runs of every setting on drawn sets of machines, by their profiles' uncertainty."""

    draws: Annotated[
        int, Field(strict=True, ge=2, description="sets of machines, the same for all settings")
    ]


class Study(_Section):
    """One study; made by `from_yaml` or `from_mapping`."""

    name: Text
    scenario: Text | dict[Text, Any] = Field(
        description="a file beside the study's, a shipped scenario's name, or its content"
    )
    set: Settings = Field(default_factory=dict, description="keys to set in every point")
    points: Points = Field(default_factory=Points)
    search: Search | None = None
    uncertainty: Uncertainty | None = None
    seeds: Annotated[tuple[Annotated[int, Field(strict=True, ge=0)], ...], Field(min_length=1)] = (
        0,
    )
    questions: Questions = Field(default_factory=Questions)

    _source: Source = PrivateAttr()
    _base: Scenario = PrivateAttr()

    @classmethod
    def from_yaml(
        cls,
        path: Path | str,
        shipped: Mapping[str, Path] | None = None,
        overrides: Sequence[str] = (),
        seeds: Sequence[int] | None = None,
        draws: int | None = None,
    ) -> Study:
        """The study in a YAML file, with `KEY=VALUE` for every point, other seeds, and drawn
        machines.

        A scenario or a run folder becomes a study of that one setting with five seeds. `shipped`
        are the scenarios that can be given by name; the default is those that come with simfl.
        Raises ScenarioError, whose text names file, line and key.
        """
        folder = Path(path)
        file = folder / SCENARIO if folder.is_dir() else folder
        source = read_source(file, "a study file, a scenario or a run folder")
        if is_a_scenario(source.content, cls.model_fields):
            source = study_of(source, overrides)
        elif "name" not in source.content:
            source = source.with_value("name", file.stem, source.file)
        as_written = validate(TypeAdapter(cls), source.content, KeyPath(source))
        changed = _overridden(source, as_written, overrides, seeds, draws)
        return cls._from_source(changed, shipped)

    @classmethod
    def from_mapping(cls, content: Mapping[str, Any], base_dir: Path | str = ".") -> Study:
        """The study in a mapping; its scenario may also be a mapping, and its parts may be classes.

        Files are relative to `base_dir`. Raises ScenarioError.
        """
        folder = Path(base_dir).absolute()
        content = {"name": "study", **content}
        if isinstance(content.get("scenario"), Scenario):
            content["scenario"] = content["scenario"].as_given()
        return cls._from_source(Source("study", folder, plain_content(content, folder)))

    @classmethod
    def _from_source(cls, source: Source, shipped: Mapping[str, Path] | None = None) -> Study:
        study = validate(TypeAdapter(cls), source.content, KeyPath(source))
        study._source = source
        study._check()
        study._base = study._found_base(shipped)
        study._check_uncertainty()
        return study

    def _found_base(self, shipped: Mapping[str, Path] | None) -> Scenario:
        """The scenario that the study names or contains; raises ScenarioError."""
        source, place = self._source, self.where("scenario")
        if not isinstance(self.scenario, str):
            inner = {
                keys[1:]: line for keys, line in source.lines.items() if "scenario" in keys[:1]
            }
            content = {"name": self.name, **source.content["scenario"]}
            return Scenario.from_source(Source(source.file, source.base_dir, content, inner))
        file = source.base_dir / self.scenario
        try:
            is_there = file.is_file()
        except OSError as error:
            accepted = f"the name of a file ({error.strerror})"
            raise place.error(show(self.scenario), accepted) from error
        if not is_there:
            known = shipped_scenarios() if shipped is None else shipped
            if self.scenario not in known:
                accepted = f"a file or one of {', '.join(known)}"
                guess = nearest(self.scenario, known) or ";"
                message = f"no scenario {self.scenario!r}{guess} accepted: {accepted}"
                raise place.error(show(self.scenario), accepted, message)
            file = known[self.scenario]
        return Scenario.from_yaml(file)

    @property
    def base(self) -> Scenario:
        """The scenario that every point changes."""
        return self._base

    @property
    def content(self) -> dict[str, Any]:
        """The study as it was written."""
        return self._source.content

    def folder(self, out: Path | None = None) -> Path:
        """The study's folder: `out`, or else a folder with its name below runs/."""
        return out if out is not None else Path("runs") / re.sub(r"[^-+.,=@~ \w]", "_", self.name)

    def where(self, *keys: str | int) -> KeyPath:
        """The place `keys` in this study, for errors that name file, line and key."""
        return KeyPath(self._source, keys)

    def origin(self, *keys: str | int) -> str:
        """File and line of a place, as shown in an error about a point."""
        file, line = self._source.place(keys)
        return file if line is None else f"{file}:{line}"

    def _check(self) -> None:
        if len(set(self.seeds)) < len(self.seeds):
            raise self.where("seeds").error(show(list(self.seeds)), "each seed once")
        self._check_factors()
        known = [*FIGURES, *self.target_columns()]
        questions = self.questions
        asked: list[tuple[KeyPath, str]] = []
        place = self.where("questions")
        asked += [(place.child("metrics", at), name) for at, name in enumerate(questions.metrics)]
        asked += [(place.child("pareto", name), name) for name in questions.pareto]
        targets = [
            (place.child("targets", figure, at), column_name("time", figure, target))
            for figure, asked_for in questions.targets.items()
            for at, target in enumerate(asked_for)
        ]
        columns: set[str] = set()
        for one, name in targets:
            if name in columns:
                accepted = "targets that differ in six digits, because these name their columns"
                raise one.error(f"{name} once more", accepted)
            columns.add(name)
        asked += targets
        if questions.best is not None:
            asked += _of_goal(place.child("best"), questions.best, [questions.best.figure])
        if self.search is not None:
            asked += _of_goal(self.where("search"), self.search, list(self.search.objectives))
        for place, name in asked:
            target = asked_by(name)
            if target is not None and target[1] == "accuracy" and not target[2] <= 1.0:
                raise place.error(f"{target[2]:g}", "an accuracy of at most 1, a share")
            # A misspelt target may contain a dot, too.
            is_of_measure = "." in name and "_to_" not in name.partition(".")[0]
            if name not in known and not is_of_measure:
                guess = nearest(name, known) or ";"
                accepted = (
                    f"{', '.join(known)}, a target such as time_to_accuracy_0.9_s, or a measure's"
                    " figure such as waiting.idle_time_share"
                )
                message = f"unknown figure {name!r}{guess} accepted: {accepted}"
                raise place.error(show(name), accepted, message)
            if is_of_measure:
                measure, _, figure = name.partition(".")
                known_of_it = list(KINDS.get(measure, (figure,)))
                if figure not in known_of_it:
                    guess = nearest(figure, known_of_it) or ";"
                    accepted = f"{', '.join(known_of_it)} of {measure}"
                    message = f"unknown figure {name!r}{guess} accepted: {accepted}"
                    raise place.error(show(name), accepted, message)
        self._check_search()

    def _check_uncertainty(self) -> None:
        if self.uncertainty is None:
            return
        place = self.where("uncertainty")
        if self.search is not None:
            raise place.error(
                "uncertainty beside a search",
                "one of them: ask the settings that a search has found in a study of their own",
            )
        sampled = self.points.sample.over if self.points.sample else {}
        variants = [keys for one in self.points.variants.values() for keys in one]
        if HARDWARE_DRAW in (*self.set, *self.points.grid, *sampled, *variants):
            raise place.error(f"{HARDWARE_DRAW} set, too", "one of them: draws set that key")
        population = self.base.as_given()["population"]
        if isinstance(population, dict) and population.get("hardware_draw") is not None:
            where = self.base.where("population", "hardware_draw")
            accepted = f"null in a study that draws machines ({self.origin('uncertainty')})"
            raise where.error(show(population["hardware_draw"]), accepted)

    def _check_search(self) -> None:
        if self.search is None:
            return
        if self.points != Points():
            raise self.where("points").error(
                "points beside a search", "one of them: a search chooses its points"
            )
        for place, name in _of_goal(self.where("search"), self.search, self.search.objectives):
            if name in NOT_OF_THE_RUN:
                raise place.error(
                    name, "a figure of what is simulated, which every machine computes alike"
                )

    def target_columns(self) -> dict[str, tuple[str, str, float]]:
        """`Questions.target_columns`, including targets that a search requests by name."""
        return self.questions.target_columns(self.search.figures if self.search else ())

    def _check_labels(self) -> None:
        lists = [(self.where("points", "grid", key), one) for key, one in self.points.grid.items()]
        if self.search is not None:
            over = self.where("search", "over")
            found = self.search.over.items()
            lists += [(over.child(key), one) for key, one in found if isinstance(one, list)]
        for where, values in lists:
            seen: set[Any] = set()
            for index, value in enumerate(values):
                if not is_labelled(value):
                    continue
                place, label = where.child(index, "label"), value["label"]
                if not isinstance(label, str) or not label or label in seen:
                    raise place.error(show(label), "a text, each once")
                seen.add(label)
            told: set[Any] = set()
            for index, one in enumerate(in_one_column([level(value) for value in values])):
                if one in told:
                    accepted = "values that tables tell apart; {label: ..., value: ...} names one"
                    raise where.child(index).error(f"{one} once more", accepted)
                told.add(one)

    def _check_factors(self) -> None:
        self._check_labels()
        sample = self.points.sample
        if sample and sample.method == "saltelli" and (self.points.grid or self.points.variants):
            raise self.where("points", "sample", "method").error(
                "saltelli", "latin_hypercube or sobol where there are variants or a grid, too"
            )
        sampled = sample.over if sample else {}
        for key in sampled:
            if key in self.points.grid:
                raise self.where("points", "sample", "over", key).error(
                    "a key that points.grid varies too", "each key once"
                )
        levels = self.levels()
        for index, one in enumerate(self.questions.compare):
            place = self.where("questions", "compare", index)
            if one.factor not in levels:
                guess = nearest(one.factor, levels) or ";"
                accepted = ", ".join(levels) or "no factor, as none has levels"
                message = f"unknown factor {one.factor!r}{guess} accepted: {accepted}"
                raise place.child("factor").error(show(one.factor), accepted, message)

    def check_baselines(self) -> None:
        """Raises ScenarioError for a baseline that is not a level of its factor.

        Call it once the points are known to be valid; otherwise a misspelt level would be reported
        as a wrong baseline.
        """
        levels = self.levels()
        for index, one in enumerate(self.questions.compare):
            known = levels[one.factor]
            given = level(one.baseline)
            if given not in known and as_text(given) not in known:
                place = self.where("questions", "compare", index, "baseline")
                raise place.error(show(one.baseline), f"one of {', '.join(map(str, known))}")

    def levels(self) -> dict[str, list[Any]]:
        """The factors that have levels, with the levels as the table shows them."""
        named = {VARIANT: list(self.points.variants)} if self.points.variants else {}
        return named | {key: [level(one) for one in v] for key, v in self.points.grid.items()}


def _of_goal(
    place: KeyPath, goal: _Goal, figures: Sequence[str] | Mapping[str, str]
) -> list[tuple[KeyPath, str]]:
    """Every figure of a goal with its place in the file."""
    section = "maximize" if goal.maximize else "minimize" if goal.minimize else "pareto"
    inner = place.child(section)
    objectives = [(inner.child(name) if section == "pareto" else inner, name) for name in figures]
    return objectives + [(place.child("subject_to", name), name) for name in goal.subject_to]


def _overridden(
    source: Source,
    study: Study,
    overrides: Sequence[str],
    seeds: Sequence[int] | None,
    draws: int | None,
) -> Source:
    """A study's content with more keys under `set`, other seeds, and a number of drawn machines.

    Raises ScenarioError for a key that the study's points vary.
    """
    content = copy.deepcopy(source.content)
    origins = dict(source.origins)
    points, search = study.points, study.search
    sampled = points.sample.over if points.sample else ()
    varied = {*points.grid, *sampled, *(key for one in points.variants.values() for key in one)}
    searched = search.over if search else ()
    for override in overrides:
        key, value = key_and_value(override)
        if key in varied or key in searched:
            whose = "points vary" if key in varied else "search varies"
            message = f"the study's {whose} it; change it there"
            raise ScenarioError("--set", None, key, "", "", message)
        common = content.get("set") or {}
        common.pop(key, None)
        content["set"] = {**common, key: value}  # last: a section set as a whole comes before it
        origins["set", key] = "--set"
    if seeds is not None:
        content["seeds"] = list(seeds)
        origins["seeds",] = "--seeds"
    if draws is not None:
        content["uncertainty"] = {"draws": draws}
        origins["uncertainty",] = origins["uncertainty", "draws"] = "--draws"
    return replace(source, content=content, origins=origins)
