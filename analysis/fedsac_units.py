"""What FedSAC's hidden units are worth and how often they are assigned, off the log of a run."""

from __future__ import annotations

import numpy as np
import torch

from simfl.algorithms.fedsac import normalised
from simfl.common.arrays import FloatArray
from simfl.measures.inequality import gini
from simfl.runs.runfolder import LoadedRun

TOP_SHARE = 0.1


def allotment(run: LoadedRun) -> dict[str, float]:
    """Assumption 5: each unit is assigned the same number of times over the rounds.

    Over the hidden units, of the share of submodels (a client's, in a round) that have the unit:
    assigned_mean, assigned_least, assigned_most; assigned_cov, their standard deviation by their
    mean, 0 where the assumption holds; always_assigned, the share of units that every submodel
    has. p_least, p_most: the least and most of what a client's submodels have of all parameters,
    as a mean over rounds (the theorem's p_i).
    """
    report = run.details("report")
    holders = np.array(list(report["unit_holders"]), dtype=float)
    kept = np.array(list(report["kept_parameters"]), dtype=float)
    assigned = holders.mean(axis=0) / kept.shape[1]
    # The best contributor always has the whole model.
    p = kept.mean(axis=0) / kept.max()
    return {
        "assigned_mean": float(assigned.mean()),
        "assigned_least": float(assigned.min()),
        "assigned_most": float(assigned.max()),
        "assigned_cov": float(assigned.std() / assigned.mean()),
        "always_assigned": float((assigned == 1.0).mean()),
        "p_least": float(p.min()),
        "p_most": float(p.max()),
    }


def concentration(run: LoadedRun) -> dict[str, float]:
    """Inequality of the importance that the last round's submodels were cut by.

    importance_gini; top_tenth, the share of all importance with the most important tenth of units;
    half_held_by, the share of units (the most important) that hold half of it; without_importance,
    the share of units that have none (or a negative one): 1 where none has any, and submodels were
    cut as if all were equally important.
    """
    importance = last_importance(run)
    descending = np.sort(importance)[::-1]
    held = np.cumsum(descending) / descending.sum()
    tenth = max(1, round(TOP_SHARE * len(held)))
    return {
        "importance_gini": float(gini(importance)),
        "top_tenth": float(held[tenth - 1]),
        "half_held_by": float((np.searchsorted(held, 0.5) + 1) / len(held)),
        "without_importance": float((_last_raw(run) <= 0).mean()),
    }


def last_importance(run: LoadedRun) -> FloatArray:
    """Importance in percent, negative ones 0, as it was last computed in a round: (units,)."""
    found: FloatArray = normalised(torch.tensor(_last_raw(run))).numpy()
    return found


def _last_raw(run: LoadedRun) -> FloatArray:
    """The last importances in nats, as they were computed: (units,)."""
    computed = [one for one in run.details("report")["importance"] if len(one)]
    return np.array(computed[-1], dtype=float)


def lorenz_curve(importance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Shares of units, the least important first, and what they have of the sum; both from 0."""
    held = np.concatenate([[0.0], np.cumsum(np.sort(importance))])
    return np.linspace(0.0, 1.0, len(held)), held / held[-1]
