"""A finished run as one row of its study's table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from pandas import DataFrame

from simfl.measures.inequality import coefficient_of_variation, jain_index
from simfl.runs.runfolder import LoadedRun
from simfl.runs.so_far import manifest_so_far, so_far
from simfl.study.comparable import caveat_columns
from simfl.study.warned import warning_columns

OF_BATTERIES = ("battery_level", "lowest_battery_level", "emptied_clients")
OF_CLIENT_ROUNDS = ("client_rounds", "wasted_rounds", "wasted_active_j")
"""Figures of the manifest about client rounds; NaN for a run that has not come to its end."""

ENDED = ("completed", "diverged")
"""Ways to end after which running again would bring nothing new."""


def row(run: LoadedRun, targets: Mapping[str, tuple[str, str, float]]) -> dict[str, Any]:
    """The figures of `figures.FIGURES`, of the targets, and of the run's measures.

    Also the columns of `warned.warning_columns` and of `comparable.caveat_columns`.

    `targets`: column name -> (column of the rounds table, accuracy or loss, target). A figure of a
    measure is called `measure.figure`. A target that the run missed is NaN: it would have taken
    more than `time_s`, `energy_j`, ... and `bytes`, which are those of the run's end. Of a run that
    has not come to its end, figures are those of its last version, or NaN.
    """
    rounds, unfinished = run.rounds, so_far(run) is not None
    manifest = manifest_so_far(run) if unfinished else run.manifest
    counts = manifest["counts"]
    accuracies, losses = rounds["accuracy"].dropna(), rounds["loss"].dropna()
    clients = DataFrame() if unfinished else run.clients
    between_s = np.diff(rounds["time_s"].to_numpy(dtype=float))
    at_clients = clients.get("served_accuracy")
    row: dict[str, Any] = {
        "status": manifest["status"],
        "reason": manifest["reason"],
        "accuracy": float(accuracies.iloc[-1]) if len(accuracies) else math.nan,
        "best_accuracy": float(accuracies.max()) if len(accuracies) else math.nan,
        "loss": float(losses.iloc[-1]) if len(losses) else math.nan,
        "versions": counts["versions"],
        "time_s": manifest["horizon_s"],
        "energy_j": manifest["energy_j"],
        "client_energy_j": manifest["client_energy_j"],
        "client_active_j": manifest["client_active_j"],
        "server_energy_j": manifest["server_energy_j"],
        "carbon_gco2": manifest.get("carbon_gco2", math.nan),
        "electricity_cost": manifest.get("electricity_cost", math.nan),
        **{name: manifest.get(name, math.nan) for name in OF_BATTERIES},
        "bytes": manifest["bytes"],
        "backhaul_bytes": manifest.get("backhaul_bytes", math.nan),
        "latency_cv": coefficient_of_variation(between_s) if between_s.size > 1 else math.nan,
        "staleness": run.mean_staleness,
        "jain_participation": math.nan if unfinished else jain_index(run.merged_updates),
        "merged_updates": manifest.get("merged_updates", math.nan),
        **{name: manifest.get(name, math.nan) for name in OF_CLIENT_ROUNDS},
        "worst_client_accuracy": math.nan if at_clients is None else float(at_clients.min()),
        "wall_s": manifest["wall_s"],
        "jobs_trained": counts["jobs_trained"],
        "jobs_reused": counts["jobs_reused"],
        **warning_columns(run, targets),
        **caveat_columns(run),
    }
    for name, (column, figure, target) in targets.items():
        row[name] = run.spent_to(column, **{figure: target})
    for measure, figures in manifest.get("measures", {}).items():
        row |= {f"{measure}.{name}": value for name, value in figures.items()}
    return row
