"""Over-selection and deadlines: how long a server waits for the clients of a round."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.common.limits import SHORTEST_S

ROUNDING = 1e-12
"""By what share of the time since the start an update may miss its deadline."""


@dataclass(frozen=True)
class DeadlinePolicy:
    """Over-selection and deadlines (Bonawitz et al., MLSys 2019, arXiv 1902.01046, section 2.2).

    A round closes when the first 1/`over_selection` of its clients have reported, or at the
    deadline if that is earlier. After the deadline it still waits for as many updates as the
    algorithm needs or, with `least_updates`, is given up with fewer than these: the updates are
    dropped, and the next round begins. Late clients finish all the same, and pay for it; the round
    after their arrival takes their updates, with a share that falls with staleness, or they are
    dropped.
    """

    deadline_s: Annotated[
        float | None,
        SHORTEST_S,
        "seconds from dispatch to the close of a round, which without least_updates then still"
        " waits for its first update if there is none; an edge server also waits this long for its"
        " first available client; null: no limit",
    ] = None
    over_selection: Annotated[
        float,
        ">= 1",
        "<= 1e6",
        "ratio of selected clients (the selection's count) to clients that are waited for: to merge"
        " the first 10, select 13 with 1.3",
    ] = 1.0
    late: Annotated[
        Literal["drop", "carry_over"],
        "whether updates that arrive after the close are dropped or carried over",
    ] = "drop"
    least_updates: Annotated[
        int | None,
        ">= 1",
        "a round that closes with fewer updates is given up: they are dropped, and the next round"
        " begins; null: after the deadline the round waits for its first update",
    ] = None

    @property
    def leaves_behind(self) -> bool:
        """Whether a round may close before all of its clients have reported."""
        return self.deadline_s is not None or self.over_selection > 1.0

    def wanted(self, selected: int) -> int:
        """The number of clients, out of `selected`, that are waited for."""
        # No additional client because of a rounding error.
        return math.ceil(selected / self.over_selection * (1 - 1e-12))

    def closes_s(
        self,
        dispatched_s: float,
        arrives_s: FloatArray,
        ends_s: FloatArray,
        least: int,
        away_s: FloatArray,
    ) -> float:
        """When a round with uploads at `arrives_s` (inf: never) closes.

        It waits for at least `least` of them, or `least_updates` if these are more, but not beyond
        the last of `ends_s`, when clients have reported or given up; after the deadline it does not
        wait for clients that have left by then (each at `away_s`, inf: never), and with
        `least_updates` for nobody.
        """
        least = max(least, self.least_updates or 1)
        arrivals_s = np.minimum(np.sort(arrives_s), ends_s.max())
        enough_s = float(arrivals_s[min(least, arrivals_s.size) - 1])
        closes_s = max(float(arrivals_s[self.wanted(arrivals_s.size) - 1]), enough_s)
        if self.deadline_s is None:
            return closes_s
        deadline_s = dispatched_s + self.deadline_s
        on_time = arrives_s <= deadline_s * (1 + ROUNDING)  # the last bits of a sum decide nothing
        deadline_s = max(deadline_s, float(arrives_s[on_time].max(initial=0.0)))
        if self.least_updates is not None:
            return min(closes_s, deadline_s)
        nobody_s = max(float(np.minimum(ends_s, away_s).max()), deadline_s)
        return min(max(min(closes_s, deadline_s), enough_s), nobody_s)


UNLIMITED = DeadlinePolicy()
