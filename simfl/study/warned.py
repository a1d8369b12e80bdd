"""The warnings of a study's runs, by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pandas as pd

from simfl.common.notices import ADVICE
from simfl.runs.runfolder import LoadedRun

SEPARATOR = ", "


def kinds_of(run: LoadedRun, targets: Mapping[str, tuple[str, str, float]]) -> list[str]:
    """The kinds of a run's warnings, and whether it met a target in its last version only."""
    kinds = [one.kind for one in run.warnings]
    asked = dict.fromkeys((figure, target) for _, figure, target in targets.values())
    if any(_in_last_version(run, figure, target) for figure, target in asked):
        kinds.append("target_in_last_version")
    return kinds


def warning_kinds(table: pd.DataFrame) -> list[tuple[str, int, str]]:
    """Each kind in a study's table with how many of its runs have it, and what to do about it."""
    if "warning_kinds" not in table:  # collected by an earlier simfl
        return []
    counts = Counter(kind for text in table["warning_kinds"] for kind in text.split(SEPARATOR))
    return [(kind, counts[kind], advice) for kind, advice in ADVICE.items() if counts[kind]]


def _in_last_version(run: LoadedRun, figure: str, target: float) -> bool:
    """Whether the last of several evaluations is the first that meets the target.

    Not where the run was to end when it does (`stop`): then it cannot be otherwise.
    """
    if run.scenario["stop"].get(figure) is not None:
        return False
    found = run.rounds[figure].dropna()
    met = found >= target if figure == "accuracy" else found <= target
    return len(found) > 1 and bool(met.iloc[-1]) and int(met.sum()) == 1
