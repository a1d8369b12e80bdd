"""The standalone baseline: a separate run for clients' contributions, if needed.

It is a separate scenario with the same data, model, seed and local training, but without the run's
hardware-dependent decisions and failures: contributions depend only on data and recipe.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from simfl.algorithms.base import Algorithm
from simfl.measures.base import Measure
from simfl.scenario.scenario import Scenario
from simfl.scenario.sections import OF_GROUPS
from simfl.scenario.validation.keys import plain

TROUBLES = ("leaving", "faults", "batteries")
"""Keys of a population that may keep clients from training, besides availability."""


def contributions_needed(
    scenario: Scenario, algorithm: Algorithm, measures: Iterable[Measure]
) -> bool:
    """Whether a run needs its clients' contributions."""
    if not algorithm.learns:
        return False
    asked = scenario.algorithm.contributions is not None
    return (
        asked or algorithm.needs_contributions or any(one.needs_contributions for one in measures)
    )


def check_contributions(scenario: Scenario, num_clients: int) -> None:
    """Raises `ScenarioError` if given contributions are not one per client."""
    given = scenario.algorithm.contributions
    if given is None or given.accuracy is None:
        return
    where = scenario.where("algorithm", "contributions", "accuracy")
    if len(given.accuracy) != num_clients:
        found = f"{len(given.accuracy)} values"
        raise where.error(found, f"one for each of {num_clients} clients")
    if given.rounds is not None:
        raise where.error("rounds beside it", "either rounds or accuracy")


def standalone_scenario(scenario: Scenario, algorithm: Algorithm) -> Scenario:
    """The scenario in which every client trains alone for the run's rounds; raises `ScenarioError`.

    `scenario` has all defaults filled in.
    """
    asked = scenario.algorithm.contributions
    rounds = (asked and asked.rounds) or scenario.stop.versions
    if rounds is None:
        raise scenario.where("algorithm", "contributions", "rounds").error(
            "nothing", "rounds of standalone training, because there is no stop.versions"
        )
    content = scenario.as_mapping()
    content["name"] = f"{scenario.name} standalone"
    content["population"]["availability"] = {"name": "always"}
    for group in content["population"].get("groups", ()):
        for key in (*OF_GROUPS, "batteries"):
            group.pop(key, None)
    for trouble in TROUBLES:
        content["population"].pop(trouble, None)
    for codec in ("uplink_codec", "downlink_codec"):  # nothing is sent
        content["population"].pop(codec, None)
    content["algorithm"] = {
        "name": "standalone",
        "non_finite": scenario.algorithm.non_finite,
        "local": plain(replace(algorithm.local, partial=None)),
    }
    content["protocol"] = {"name": "synchronous"}
    content["stop"] = {"versions": rounds}
    content["evaluate"] = {"every": rounds}
    del content["decisions"]
    return Scenario.from_mapping(content, scenario.base_dir)
