"""The warnings of a study's runs, by kind."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from simfl.common.notices import ADVICE
from simfl.runs.runfolder import LoadedRun

SEPARATOR = ", "


def kinds_of(
    run: LoadedRun, targets: Mapping[str, tuple[str, str, float]]
) -> list[tuple[str, int]]:
    """The kinds of a run's warnings, each with its count; and of a target met at the very end."""
    kinds = [(one.kind, one.count) for one in run.warnings]
    asked = dict.fromkeys((figure, target) for _, figure, target in targets.values())
    if any(_in_last_version(run, figure, target) for figure, target in asked):
        kinds.append(("target_in_last_version", 1))
    return kinds


def warning_kinds(table: pd.DataFrame) -> list[tuple[str, str, str]]:
    """Each kind in a study's table, how many of its runs have it, and what to do about it.

    As "9 of 9 runs, 1 to 30 per run" where some run has what is warned of more than once.
    """
    if "warning_kinds" not in table:  # collected by an earlier simfl
        return []
    counts: dict[str, list[int]] = {}
    for one in table.to_dict("records"):
        kinds = one["warning_kinds"].split(SEPARATOR)
        # Tables of an earlier simfl have the kinds alone.
        times = (
            one["warning_counts"].split(SEPARATOR)
            if "warning_counts" in one
            else ["1"] * len(kinds)
        )
        for kind, count in zip(kinds, times, strict=True):
            if kind:
                counts.setdefault(kind, []).append(int(count))
    return [
        (kind, f"{len(counts[kind])} of {len(table)} runs{_per_run(counts[kind])}", advice)
        for kind, advice in ADVICE.items()
        if kind in counts
    ]


def _per_run(counts: list[int]) -> str:
    least, most = min(counts), max(counts)
    if most == 1:
        return ""
    return f", {most} per run" if least == most else f", {least} to {most} per run"


def _in_last_version(run: LoadedRun, figure: str, target: float) -> bool:
    """Whether the last of several evaluations is the first that meets the target.

    Not where the run was to end when it does (`stop`): then it cannot be otherwise.
    """
    if run.scenario["stop"].get(figure) is not None:
        return False
    found = run.rounds[figure].dropna()
    met = found >= target if figure == "accuracy" else found <= target
    return len(found) > 1 and bool(met.iloc[-1]) and int(met.sum()) == 1
