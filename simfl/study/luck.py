"""What has to be said of the best of many settings: it is the best by luck, too.

The mean that is least of many is below its true value more often than not, so its interval, which
is that of one setting that was named beforehand, holds less often than it says: of 8 settings that
are alike in 81 to 88 of 100 studies instead of 95, of 24 in about 72 (by simulation, 3 to 10
seeds). Other seeds know nothing of the choice.
"""

from __future__ import annotations

FEWEST = 4
"""Settings, among which the choice begins to show."""


def of_best(settings: int) -> list[str]:
    """A sentence about the best of so many settings; none of few."""
    if settings < FEWEST:
        return []
    return [
        f"the best of {settings} was chosen by the seeds that judge it: luck flatters its figure,"
        " and each verdict is of one pair alone; run the best few with other seeds"
    ]


def of_front(settings: int) -> list[str]:
    """A sentence about a Pareto front among so many settings; none of few."""
    if settings < FEWEST:
        return []
    return [
        f"a front goes by means: of {settings} settings luck puts some on it and keeps others off"
        " where intervals overlap; run the nearest with other seeds"
    ]
