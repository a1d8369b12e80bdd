"""Multiple comparisons: the role of luck in many verdicts, and in the best of many settings.

The least of many means is more often below its true value than above. Its interval is that of a
setting that was named beforehand, so it is too optimistic: of 8 settings that are in truth alike,
the best one's interval holds its true mean in 81 to 88 of 100 studies instead of 95; of 24, in
about 72 (by simulation, 3 to 10 seeds). New seeds did not influence the choice. If 24 settings are
in truth like the baseline, about half of all studies have some verdict "higher" or "lower".
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from simfl.study.figures import on_test_set

FEWEST = 4
"""From this many settings or verdicts on, the effect of choosing among them is mentioned."""
BY_TEST_SET = (
    "; it was also chosen by the test examples that judge it: choose by"
    " model_selection.validation_accuracy (data.validation_share) instead, or test on others"
)
"""Said of a best setting by a figure of the test set."""
UNSURE = "?"
"""Behind verdicts that are not significant among all of a study."""
LEVEL = 0.05
"""The significance level of verdicts: one minus the confidence of their intervals."""


@dataclass(frozen=True)
class Compared:
    """The `paired_differences` of a figure, each level of a factor with the `baseline`."""

    metric: str
    baseline: str
    differences: pd.DataFrame


def of_verdicts(found: Sequence[Compared]) -> list[str]:
    """A sentence about all verdicts of a study.

    It names those that are no longer certain among so many, by Holm's procedure (Scand. J. Stat.
    6:65, 1979), which holds for any dependence between figures. Empty for few verdicts, or if no
    setting differs from its baseline.
    """
    several = len({(one.differences.columns[0], one.baseline) for one in found}) > 1
    count, told, unsure = _judged(found)
    if count < FEWEST or not told:
        return []
    names = [
        _name(found[place], found[place].differences.iloc[row].to_dict(), several)
        for place, row in unsure
    ]
    rest = (
        f'not significant ("{UNSURE}" in the tables): {", ".join(names)}'
        if names
        else "all of them are significant"
    )
    return [
        f"{count} verdicts of 95 % each, {told} of them higher or lower; for equal settings"
        f" one in twenty would be; by Holm's procedure for all together: {rest}"
    ]


def in_tables(found: Sequence[Compared]) -> list[list[str]]:
    """The verdicts of each comparison's rows, those that `of_verdicts` doubts with `UNSURE`."""
    unsure = set(_judged(found)[2])
    return [
        [
            f"{verdict}{UNSURE}" if (place, row) in unsure else str(verdict)
            for row, verdict in enumerate(one.differences["verdict"])
        ]
        for place, one in enumerate(found)
    ]


def _judged(found: Sequence[Compared]) -> tuple[int, int, list[tuple[int, int]]]:
    """How many verdicts there are, how many are higher or lower, and where those are that Holm's
    procedure does not confirm: the comparison, and its row. Few verdicts are left as they are.
    """
    verdicts = [
        (row["p_value"], (place, number), row["verdict"] in ("higher", "lower"))
        for place, one in enumerate(found)
        for number, row in enumerate(one.differences.to_dict("records"))
        if row["p_value"] == row["p_value"]
    ]
    count, told = len(verdicts), sum(tells for *_, tells in verdicts)
    if count < FEWEST:
        return count, told, []
    order = sorted(range(count), key=lambda place: verdicts[place][0])
    failed = (verdicts[place][0] > LEVEL / (count - rank) for rank, place in enumerate(order))
    certain = next((rank for rank, fails in enumerate(failed) if fails), count)
    unsure = [verdicts[place][1] for place in sorted(order[certain:]) if verdicts[place][2]]
    return count, told, unsure


def _name(one: Compared, row: Mapping[Hashable, Any], several: bool) -> str:
    """What a verdict is about, with the factor and the baseline if there are several."""
    factor = one.differences.columns[0]
    if not several:
        return f"{one.metric} of {row[factor]}"
    return f"{one.metric} of {factor} {row[factor]} against {one.baseline}"


def of_best(settings: int, metric: str) -> list[str]:
    """A sentence about the best of many settings by a figure; empty for few."""
    if settings < FEWEST:
        return []
    return [
        f"the best of {settings} was chosen by the seeds that judge it, so its figure is partly"
        " luck; in 95 of 100 studies the truly best is it or one of those not told apart from it"
        " (symmetric spread): run these with other seeds"
        + (BY_TEST_SET if on_test_set(metric) else "")
    ]


def of_front(settings: int) -> list[str]:
    """A sentence about a Pareto front among many settings; empty for few."""
    if settings < FEWEST:
        return []
    return [
        f"a front compares means: of {settings} settings some are on it, or not, by luck where"
        " intervals overlap; run those near it with other seeds"
    ]
