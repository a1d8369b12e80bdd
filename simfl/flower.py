"""Functions for Flower apps: the simulated clock, and a scenario for an app's folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simfl.bridges.present import now, record
from simfl.scenario.scenario import Scenario
from simfl.scenario.yaml_source.source import KeyPath, Source, read_source

__all__ = ["now", "record", "scenario"]

LAST_S = 1e9
"""The time at which a run ends that sets no limit: an app ends by itself."""


def scenario(
    app: Path | str,
    *,
    population: Path | str | Mapping[str, Any] | None = None,
    base: Path | str | None = None,
    run_config: Mapping[str, Any] | None = None,
    overrides: list[str] | tuple[str, ...] = (),
    seed: int | None = None,
) -> Scenario:
    """The scenario of a Flower app on simulated machines.

    `population` is the section of that name, or a YAML file with it; `base` a YAML file with any
    other keys of a scenario (name, seed, population, decisions, stop, ...), except those that the
    app supplies: data, model and algorithm. Raises ScenarioError.
    """
    folder = Path(app)
    source = Source("simfl flower", Path.cwd(), {}) if base is None else read_source(base)
    content: dict[str, Any] = dict(source.content)
    for key in ("data", "model", "algorithm"):
        if key in content:
            accepted = "a scenario without data, model and algorithm, which the app brings"
            raise KeyPath(source, (key,)).error(key, accepted)
    for key, value in (
        ("name", folder.resolve().name),
        ("data", {"name": "sizes"}),
        ("model", {"name": "mlp"}),
        ("algorithm", {"name": "none"}),
        ("stop", {"time_s": LAST_S}),
    ):
        if key not in content:
            source = source.with_value(key, value, "simfl flower")
    if isinstance(population, Mapping):
        source = source.with_value("population", dict(population), "population")
    elif population is not None:
        given = read_source(population).content
        section = given.get("population", given)
        source = source.with_value("population", section, str(population))
    protocol = dict(content.get("protocol", {}))
    protocol.setdefault("name", "simfl.bridges.flower:Flower")
    protocol["app"] = str(folder.absolute())
    protocol["run_config"] = {**protocol.get("run_config", {}), **(run_config or {})}
    source = source.with_value("protocol", protocol, "simfl flower")
    source = source.with_overrides(overrides)
    if seed is not None:
        source = source.with_value("seed", seed, "--seed")
    return Scenario.from_source(source)
