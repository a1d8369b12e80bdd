"""What runs spend until they are as good as another one was at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd


def prices(
    courses: Mapping[str, pd.DataFrame], baseline: str, targets: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Per run, seconds and joules until it first reaches the baseline's last value of each target.

    `courses` by name: a row per version, columns time_s and energy_j (both since the start) and
    one per target. Figures: T_s and T_j of target T, and seconds_to_T and joules_to_T relative to
    what the baseline itself spent, all NaN where a run never gets there; reached_T is 1 or 0.
    FIGURE_end is what the run had spent at its end, in the same unit: one that never got there
    would have needed more.
    """
    spent = {
        name: {
            figure: value
            for target in targets
            for figure, value in _until(course, target, courses[baseline][target].iloc[-1]).items()
        }
        for name, course in courses.items()
    }
    base = dict(spent[baseline])
    for figures in spent.values():
        for target in targets:
            for unit, name in (("s", "seconds"), ("j", "joules")):
                for end in ("", "_end"):
                    relative = figures[f"{target}_{unit}{end}"] / base[f"{target}_{unit}"]
                    figures[f"{name}_to_{target}{end}"] = relative
            figures[f"reached_{target}"] = float(np.isfinite(figures[f"{target}_s"]))
    return spent


def _until(course: pd.DataFrame, target: str, value: float) -> dict[str, float]:
    there = course[course[target] >= value]
    first = there.iloc[0] if len(there) else {"time_s": np.nan, "energy_j": np.nan}
    last = course.iloc[-1]
    return {
        f"{target}_s": float(first["time_s"]),
        f"{target}_j": float(first["energy_j"]),
        f"{target}_s_end": float(last["time_s"]),
        f"{target}_j_end": float(last["energy_j"]),
    }
