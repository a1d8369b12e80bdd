"""The warnings of a study's runs, by kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from simfl.common.notices import ADVICE
from simfl.runs.runfolder import LoadedRun
from simfl.runs.target_warnings import Evaluation, Target, met_at_once

SEPARATOR = ", "
OF_SOME_SETTINGS = "unread_keys"


class FoundKind(NamedTuple):
    """A kind of warning in a study's table: in how many runs, the worst one's message, advice.

    `runs` is like "9 of 9 runs, 1 to 30 per run" if a run has more than one case.
    """

    kind: str
    runs: str
    example: str
    advice: str


def warning_columns(
    run: LoadedRun, targets: Mapping[str, tuple[str, str, float]]
) -> dict[str, Any]:
    """The columns of a run's row about its warnings, and about targets met at once or at the very
    end.

    `warnings` is the number of kinds; `warning_kinds` and `warning_counts` are comma-separated
    lists; `warning_messages` has one line for each.
    """
    found = [(one.kind, one.count, one.message) for one in run.warnings]
    asked = dict.fromkeys((figure, target) for _, figure, target in targets.values())
    last = [f"{figure} {target:g}" for figure, target in asked if _in_last(run, figure, target)]
    if last:
        message = f"{', '.join(last)} is met in the last version only"
        found.append(("target_in_last_version", 1, message))
    first = {figure: known for figure, _ in asked if (known := _first(run, figure)) is not None}
    at_once = met_at_once([Target(figure, figure, target) for figure, target in asked], first)
    if at_once and all(kind != "target_at_once" for kind, _, _ in found):
        found.append(("target_at_once", 1, at_once))
    return {
        "warnings": len(found),
        "warning_kinds": SEPARATOR.join(kind for kind, _, _ in found),
        "warning_counts": SEPARATOR.join(str(count) for _, count, _ in found),
        "warning_messages": "\n".join(message for _, _, message in found),
    }


def warning_kinds(table: pd.DataFrame, called: Sequence[str] = ()) -> list[FoundKind]:
    """Each kind of warning in a study's table.

    `called` gives each row's run a name; then it is said which runs have a warning if not all do,
    and whose message is shown. Keys that only some settings of a study leave unread are there for
    the others, and are not told.
    """
    if "warning_kinds" not in table:  # collected by an earlier simfl
        return []
    found: dict[str, list[_Of]] = {}
    for row, one in enumerate(table.to_dict("records")):
        name = called[row] if called else ""
        kinds = one["warning_kinds"].split(SEPARATOR) if one["warning_kinds"] else []
        # Tables of an earlier simfl only have the kinds.
        counts = one.get("warning_counts", SEPARATOR.join("1" for _ in kinds)).split(SEPARATOR)
        messages = one.get("warning_messages", "\n" * (len(kinds) - 1)).split("\n")
        for kind, count, message in zip(kinds, counts, messages, strict=False):
            found.setdefault(kind, []).append(_Of(int(count), message, name))
    return [
        FoundKind(
            kind,
            _in_runs(found[kind], len(table)),
            _told(max(found[kind], key=lambda one: one.times)),
            advice,
        )
        for kind, advice in ADVICE.items()
        if kind in found and (called or kind != OF_SOME_SETTINGS or len(found[kind]) == len(table))
    ]


class _Of(NamedTuple):
    """A run's warning of one kind; `run` is empty where runs have no names."""

    times: int
    message: str
    run: str


def _in_runs(found: Sequence[_Of], runs: int) -> str:
    named = ", ".join(dict.fromkeys(one.run for one in found if one.run))
    which = f" ({named})" if named and len(found) < runs else ""
    return f"{len(found)} of {runs} runs{which}{_per_run([one.times for one in found])}"


def _told(one: _Of) -> str:
    return f"{one.run}: {one.message}" if one.run and one.message else one.message


def _per_run(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    if most == 1:
        return ""
    return f", {most} per run" if least == most else f", {least} to {most} per run"


def _first(run: LoadedRun, figure: str) -> Evaluation | None:
    """The run's first evaluation that has a figure."""
    known = run.rounds[["version", "time_s", figure]].dropna().head(1)
    return None if known.empty else Evaluation(*known.iloc[0].tolist())


def _in_last(run: LoadedRun, figure: str, target: float) -> bool:
    """Whether the last of several evaluations is the first that meets the target.

    False if the run was set to stop at the target (`stop`), when this is always so.
    """
    if run.scenario["stop"].get(figure) is not None:
        return False
    found = run.rounds[figure].dropna()
    met = found >= target if figure == "accuracy" else found <= target
    return len(found) > 1 and bool(met.iloc[-1]) and int(met.sum()) == 1
