"""Multiple comparisons: the role of luck in many verdicts, and in the best of many settings.

The least of many means is more often below its true value than above. Its interval is that of a
setting that was named beforehand, so it is too optimistic: of 8 settings that are in truth alike,
the best one's interval holds its true mean in 81 to 88 of 100 studies instead of 95; of 24, in
about 72 (by simulation, 3 to 10 seeds). New seeds did not influence the choice. If 24 settings are
in truth like the baseline, about half of all studies have some verdict "higher" or "lower".
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

FEWEST = 4
"""From this many settings or verdicts on, the effect of choosing among them is mentioned."""
LEVEL = 0.05
"""The significance level of verdicts: one minus the confidence of their intervals."""


def of_verdicts(found: Sequence[tuple[str, pd.DataFrame]]) -> list[str]:
    """A sentence about all verdicts of `paired_differences` in a study, each given with its figure.

    It names those that are no longer certain among so many, by Holm's procedure (Scand. J. Stat.
    6:65, 1979), which holds for any dependence between figures. Empty for few verdicts, or if no
    setting differs from its baseline.
    """
    known = [
        (one["p_value"], f"{metric} of {one[comparisons.columns[0]]}", one["verdict"])
        for metric, comparisons in found
        for one in comparisons.to_dict("records")
        if one["p_value"] == one["p_value"]
    ]
    told = [name for _, name, verdict in known if verdict in ("higher", "lower")]
    count = len(known)
    if count < FEWEST or not told:
        return []
    sure = set()
    for rank, (p, name, _) in enumerate(sorted(known)):
        if p > LEVEL / (count - rank):
            break
        sure.add(name)
    unsure = [name for name in told if name not in sure]
    rest = f"not significant: {', '.join(unsure)}" if unsure else "all of them are significant"
    return [
        f"{count} verdicts of 95 % each, {len(told)} of them higher or lower; for equal settings"
        f" one in twenty would be; by Holm's procedure for all together: {rest}"
    ]


def of_best(settings: int) -> list[str]:
    """A sentence about the best of many settings; empty for few."""
    if settings < FEWEST:
        return []
    return [
        f"the best of {settings} was chosen by the seeds that judge it: its figure is partly luck,"
        " and each verdict compares one pair alone; run the best few with other seeds"
    ]


def of_front(settings: int) -> list[str]:
    """A sentence about a Pareto front among many settings; empty for few."""
    if settings < FEWEST:
        return []
    return [
        f"a front compares means: of {settings} settings some are on it, or not, by luck where"
        " intervals overlap; run those near it with other seeds"
    ]
