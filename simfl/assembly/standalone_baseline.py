"""The run before the run: what clients achieve alone, where an algorithm or a measure needs it.

It is a scenario of its own, with the same data, model, seed and local training, and nothing of the
run's hardware-dependent decisions and troubles: contributions are a matter of data and recipe.
"""

from __future__ import annotations

from collections.abc import Iterable

from simfl.algorithms.base import Algorithm
from simfl.measures.base import Measure
from simfl.scenario.scenario import Scenario
from simfl.scenario.sections import OF_GROUPS
from simfl.scenario.validation.keys import plain

TROUBLES = ("leaving", "faults", "batteries")
"""Keys of a population that keep clients from training, beside their availability."""


def contributions_needed(
    scenario: Scenario, algorithm: Algorithm, measures: Iterable[Measure]
) -> bool:
    """Whether a run has to know what its clients contribute."""
    if not algorithm.learns:
        return False
    asked = scenario.algorithm.contributions is not None
    return (
        asked or algorithm.needs_contributions or any(one.needs_contributions for one in measures)
    )


def check_contributions(scenario: Scenario, num_clients: int) -> None:
    """Raises `ScenarioError` where contributions are given and are not one per client."""
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
    """Every client trains alone, as long as the run's clients do; raises `ScenarioError`.

    scenario: with all defaults filled in.
    """
    asked = scenario.algorithm.contributions
    rounds = (asked and asked.rounds) or scenario.stop.versions
    if rounds is None:
        raise scenario.where("algorithm", "contributions", "rounds").error(
            "nothing", "rounds of standalone training, where stop.versions does not say how many"
        )
    content = scenario.as_mapping()
    content["name"] = f"{scenario.name} standalone"
    content["population"]["availability"] = {"name": "always"}
    for group in content["population"].get("groups", ()):
        for kind in OF_GROUPS:
            group.pop(kind, None)
    for trouble in TROUBLES:
        content["population"].pop(trouble, None)
    for codec in ("uplink_codec", "downlink_codec"):  # nothing is sent
        content["population"].pop(codec, None)
    content["algorithm"] = {
        "name": "standalone",
        "non_finite": scenario.algorithm.non_finite,
        "local": plain(algorithm.local),
    }
    content["protocol"] = {"name": "synchronous"}
    content["stop"] = {"versions": rounds}
    content["evaluate"] = {"every": rounds}
    del content["decisions"]
    return Scenario.from_mapping(content, scenario.base_dir)
