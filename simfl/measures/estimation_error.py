"""The error of latency estimates against realised latencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from simfl.measures.base import Measure
from simfl.runs.runfolder import LoadedRun

COLUMNS = ["time_s", "round", "edge", "estimated_s", "realised_s", "error_s", "relative_error"]
DISPATCH = ("download", "compute", "upload", "edge_aggregate")
"""The kinds of rows of an edge server's dispatch."""


def estimation_errors(run: LoadedRun) -> pd.DataFrame:
    """One row per scheduled dispatch whose model reached the cloud, in the order of the decisions.

    `time_s` of the decision, its number `round`, the chosen edge server `edge`, `estimated_s` its
    latency as estimated then, `realised_s` from the decision to its model's arrival, `error_s`
    estimated minus realised, `relative_error` that divided by realised. Empty for a run without
    decisions (the first dispatch of each edge server is not one), or without events in its log.
    """
    decisions = run.details("schedule")
    if decisions.empty:
        return pd.DataFrame(columns=COLUMNS)
    edge = decisions["value"].astype(int)
    estimated_s = [
        np.nan if latencies[one] is None else latencies[one]
        for latencies, one in zip(decisions["estimated_latency_s"], edge, strict=True)
    ]
    found = pd.DataFrame(
        {
            "time_s": decisions["time_s"],
            "round": decisions["round"].astype(int),
            "edge": edge,
            "estimated_s": np.array(estimated_s, dtype=float),
        }
    )
    arrived = _arrivals(run)
    found = found.merge(arrived, on=["edge", "round"]).reset_index(drop=True)
    found["realised_s"] = found.pop("arrived_s") - found["time_s"]
    found["error_s"] = found["estimated_s"] - found["realised_s"]
    found["relative_error"] = found["error_s"] / found["realised_s"]
    return found[COLUMNS]


def _arrivals(run: LoadedRun) -> pd.DataFrame:
    """When the model of each dispatch (edge, round) that became a version arrived at the cloud."""
    keys = ["edge", "round"]
    events = run.events
    rows = events[events["kind"].isin(DISPATCH) & events["edge"].notna()]
    # An edge server's last row is its upload; if it sends nothing itself, use its clients' last
    # row.
    own = rows[rows["client"].isna()].groupby(keys)["time_s"].max()
    ends = own.combine_first(rows.groupby(keys)["time_s"].max())
    merged = run.rounds.dropna(subset=["edge"])[keys]
    return merged.join(ends.rename("arrived_s"), on=keys, how="inner").astype({"edge": int})


@dataclass(frozen=True)
class EstimationError(Measure):
    """The error of the run's latency estimates, over all scheduled dispatches."""

    learned: ClassVar[bool] = False

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """mean_error_s, mean_absolute_error_s, and the mean absolute relative error.

        Empty without decisions, as under flat protocols, or without events in the log.
        """
        errors = estimation_errors(run)
        if errors.empty:
            return {}
        return {
            "mean_error_s": float(errors["error_s"].mean()),
            "mean_absolute_error_s": float(errors["error_s"].abs().mean()),
            "mean_absolute_relative_error": float(errors["relative_error"].abs().mean()),
        }
