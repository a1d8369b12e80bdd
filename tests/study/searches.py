"""A search over figures that a formula gives: no simulation runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from simfl.study.asking import Choice, ask
from simfl.study.levels import as_text, level
from simfl.study.studyfile import Search

OVER: dict[str, Any] = {
    "rate": {"low": 1e-3, "high": 1.0, "scale": "log"},
    "count": {"low": 1, "high": 10, "integer": True},
    "rule": ["all", {"name": "random", "share": 0.5}, {"label": "third", "value": 3}],
}
PENALTY = {"all": 9.0, "random share=0.5": 0.0, "third": 20.0}
SEEDS = (1, 2)

Figures = Callable[[Mapping[str, Any], int], dict[str, Any]]


def bowl(keys: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Joules that are least, about 0, at a rate of 0.03, a count of 7 and the second rule."""
    joules = 10 * (np.log10(keys["rate"] / 0.03)) ** 2 + (keys["count"] - 7) ** 2
    joules += PENALTY[keys["rule"]] + 0.01 * seed
    return {"energy_j": joules, "bytes": 1e4 / keys["count"]}


def search(**changes: Any) -> Search:
    """Thirty trials for the fewest joules, in batches of five."""
    goal = {"minimize": "energy_j"}
    return Search.model_validate({"trials": 30, "batch": 5, "over": OVER, **goal, **changes})


def run_trials(one: Search, batch: list[Choice], first: int, figures: Figures) -> pd.DataFrame:
    """The rows of a batch's runs."""
    rows = []
    for number, choice in enumerate(batch, start=first):
        keys = {
            key: level(values[int(value)]) if isinstance(values, list) else value
            for (key, values), value in zip(one.over.items(), choice, strict=True)
        }
        texts = {key: as_text(keys[key]) if key == "rule" else keys[key] for key in keys}
        for seed in SEEDS:
            about = {"study": "bowl", "point": number, "seed": seed, "digest": f"{number}/{seed}"}
            ended = {"status": "completed", "reason": "", "accuracy": 0.5, "best_accuracy": 0.5}
            wall = {"wall_s": 1.0, "jobs_trained": 0, "jobs_reused": 0}
            known = {**about, "folder": "", **texts, **ended, **wall, "time_s": 100.0}
            rows.append({**known, **figures(texts, seed)})
    return pd.DataFrame(rows)


def searched(one: Search, figures: Figures = bowl) -> tuple[list[Choice], pd.DataFrame]:
    """All trials of a search, and the table of their runs."""
    asked: list[Choice] = []
    table = pd.DataFrame()
    while len(asked) < one.trials:
        batch = ask(one, SEEDS[0], asked, table)
        table = pd.concat([table, run_trials(one, batch, len(asked), figures)], ignore_index=True)
        asked += batch
    return asked, table
