"""Why differences between single runs mean less than they seem to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from simfl.runs.runfolder import HARDWARE, LoadedRun
from simfl.study.levels import level
from simfl.study.studyfile import HARDWARE_DRAW

NOT_COMPARED = ("name",)
"""Keys of a scenario that have no effect."""

DEALT_OUT = ("data.partition.", "data.noise_variance.")
"""Sections of the data that do not change the test examples."""

MOST_NAMED = 3
"""The most figures named of a profile."""

PROFILES = ("devices", "links")
"""Sections of the hardware that hold profiles by name."""

SERVERS = ("cloud_server", "edge_server", "backhaul")
"""Sections of the hardware that hold one profile, which the key of that name chooses."""


def unlike(
    runs: Sequence[LoadedRun],
    different: Mapping[str, Sequence[str]],
    rounds: Sequence[pd.DataFrame],
) -> list[str]:
    """Reasons why differences between the runs mean less than they seem to, one sentence each.

    `different` are the `differing_keys` of their scenarios, `rounds` the tables of versions of
    those that have ended.
    """
    files = [*_profiles(runs, different), *_platforms(runs)]
    found = []
    if not different and not files and not all(one.equals(rounds[0]) for one in rounds[1:]):
        found.append(
            "but the runs differ: in a file that the scenario names (data, your own part), or the"
            " code of simfl"
        )
    if "seed" in different:
        found.append(
            f"seeds differ ({', '.join(different['seed'])}), and with them all random draws,"
            " including the test examples of some data sets: a difference may be chance;"
            " simfl study runs every setting with the same seeds"
        )
    data = [one for one in different if one.startswith("data.") and not one.startswith(DEALT_OUT)]
    if data:
        named = "data.name" if "data.name" in data else ", ".join(data)
        found.append(
            f"data differ ({named}): accuracy, loss and costs to a target may refer to other"
            " test examples or another task"
        )
    if "evaluate.every" in different:
        found.append(
            f"evaluate.every differs ({', '.join(different['evaluate.every'])}): a target counts as"
            " met when a version is evaluated, so with fewer evaluations it is met later and"
            " best_accuracy is lower"
        )
    return [*found, *files, *_ends(runs, different)]


def differing_keys(scenarios: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Dotted key -> its value in each scenario, for the keys that differ."""
    flat = [dict(_leaves(one)) for one in scenarios]
    keys = dict.fromkeys(key for one in flat for key in one if key not in NOT_COMPARED)
    return {
        key: [str(level(one[key])) if key in one else "-" for one in flat]
        for key in keys
        if any(one.get(key, math.inf) != flat[0].get(key, math.inf) for one in flat)
    }


def _profiles(runs: Sequence[LoadedRun], different: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A sentence for each profile that has other figures under the same name.

    Drawn machines differ by intent. A run without an end has no file of its hardware.
    """
    if HARDWARE_DRAW in different:
        return
    known = [run.hardware for run in runs if (run.path / HARDWARE).exists()]
    of_all = [{section: one[section] for section in SERVERS if section in one} for one in known]
    for one, hardware in zip(of_all, known, strict=True):
        for section in PROFILES:
            one.update(hardware.get(section, {}))
    for name in dict.fromkeys(name for one in of_all for name in one):
        if any(key.startswith(f"population.{name}") for key in different):
            continue
        figures = differing_keys([one[name] for one in of_all if name in one])
        if figures:
            texts = [f"{key} {' and '.join(dict.fromkeys(own))}" for key, own in figures.items()]
            more = f" and {len(texts) - MOST_NAMED} more" if len(texts) > MOST_NAMED else ""
            yield (
                f"the profile {name} differs ({', '.join(texts[:MOST_NAMED])}{more}):"
                " differences in time and energy are its, too"
            )


def _platforms(runs: Sequence[LoadedRun]) -> Iterator[str]:
    """A sentence each if versions or numeric platforms differ.

    The rest of a platform (the model's kernels, the type of numbers) follows from the scenario.
    """
    for key, figures, what in (
        ("versions", ("simfl", "torch"), "versions differ"),
        ("numeric_platform", ("torchvision", "device", "cpu"), "numeric platforms differ"),
    ):
        known = [run.manifest.get(key) or {} for run in runs]
        told = differing_keys([{one: own.get(one) for one in figures} for own in known])
        if told:
            values = ", ".join(f"{name} {' and '.join(own)}" for name, own in told.items())
            yield f"{what} ({values}), and with them at least the last bits of what is learned"


def _ends(runs: Sequence[LoadedRun], different: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Sentences about runs that ended after unlike work, or by diverging."""
    for run in runs:
        if run.manifest["status"] == "diverged":
            yield (
                f"{run.path}: diverged ({run.manifest['reason']}); what it has spent is no"
                " difference to others"
            )
    stops = [key for key in different if key.startswith("stop.")]
    ended = [str(run.manifest["reason"]) for run in runs if run.manifest["status"] == "completed"]
    rules = {" ".join(one for one in reason.split() if one.isalpha()) for reason in ended}
    if stops or len(rules) > 1:
        yield (
            f"the runs end by unlike rules ({', '.join(stops or ended)}): differences in time,"
            " energy and bytes are those of unlike work; --accuracy compares what a target took"
        )


def _leaves(section: Any, path: tuple[str, ...] = ()) -> Any:
    items: Any = ()
    if isinstance(section, Mapping):
        items = section.items()
    elif isinstance(section, list) and any(isinstance(one, Mapping) for one in section):
        items = enumerate(section)
    if not items:
        yield ".".join(path), section
    for key, one in items:
        yield from _leaves(one, (*path, str(key)))
