"""A scenario as a study of one setting with several seeds, for error bars."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from simfl.scenario.yaml_source.source import Source
from simfl.study.targets import column_name

SEEDS = 5
"""The number of seeds: the scenario's own and those after it."""
LEARNED = ("accuracy", "loss")
FIGURES = ("time_s", "energy_j", "client_energy_j", "bytes")


def is_a_scenario(content: Mapping[str, Any], of_a_study: Collection[str]) -> bool:
    """Whether a file's content is a scenario, with none of a study's keys except `name`."""
    return {"data", "population"} <= set(content) and set(content) & set(of_a_study) <= {"name"}


def study_of(scenario: Source, overrides: Sequence[str]) -> Source:
    """The study of a scenario's file: its main figures, and the cost of reaching the target it
    stops at.

    `overrides` may set that target (`stop.accuracy=0.9`); the study then sets it in its runs. The
    study's name differs from the scenario's, which may be the name of a run folder.
    """
    content = scenario.with_overrides(overrides).content
    seed, stop = content.get("seed", 0), content.get("stop")
    first = seed if isinstance(seed, int) and seed >= 0 else 0
    ends = stop if isinstance(stop, Mapping) else {}
    asked = [
        column_name(spent, figure, float(ends[figure]))
        for figure in ("accuracy", "loss")
        if _is_number(ends.get(figure))
        for spent in ("time", "client_energy")
    ]
    population = content.get("population")
    if isinstance(population, Mapping) and population.get("region") is not None:
        asked = ["carbon_gco2", *asked]
    if isinstance(population, Mapping) and population.get("batteries") is not None:
        asked = ["battery_level", "lowest_battery_level", *asked]
    study = {
        "name": f"{content.get('name') or Path(scenario.file).stem}_error_bars",
        "scenario": Path(scenario.file).name,
        "seeds": list(range(first, first + SEEDS)),
        "questions": {"metrics": [*(LEARNED if _learns(content) else ()), *FIGURES, *asked]},
    }
    return Source(scenario.file, scenario.base_dir, study)


def _learns(content: Mapping[str, Any]) -> bool:
    """Whether a scenario does more than time its clients."""
    algorithm = content.get("algorithm")
    return (algorithm.get("name") if isinstance(algorithm, Mapping) else algorithm) != "none"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
