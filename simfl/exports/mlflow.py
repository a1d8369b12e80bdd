"""MLflow: a finished run as a run of a tracking server or store."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from simfl.exports import MissingTool
from simfl.runfolder import LoadedRun

LONGEST_VALUE = 500
"""Characters of a parameter that every MLflow store accepts."""

METRICS = ("accuracy", "loss", "latency_s", "energy_j", "bytes", "staleness")
"""Columns of the rounds table that become curves."""


def export_to_mlflow(run: LoadedRun, uri: str, experiment: str = "simfl") -> str:
    """Log a run's parameters, curves, final figures and scenario; the MLflow run's identifier.

    Steps are global versions, and a point's time is simulated time in milliseconds. Raises
    `MissingTool` where MLflow is not installed.
    """
    try:
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param, RunTag
    except ImportError:
        raise MissingTool("--mlflow needs MLflow: pip install 'simfl[mlflow]'") from None
    client = MlflowClient(tracking_uri=uri)
    known = client.get_experiment_by_name(experiment)
    number = known.experiment_id if known is not None else client.create_experiment(experiment)
    manifest = run.manifest
    made = client.create_run(number, run_name=f"{manifest['name']}-seed{manifest['seed']}")
    identifier: str = made.info.run_id
    curves = [
        Metric(column, float(value), int(time_s * 1000), int(version))
        for column in METRICS
        for version, time_s, value in run.rounds[["version", "time_s", column]].itertuples(
            index=False
        )
        if not math.isnan(value)
    ]
    end_ms = int(manifest["horizon_s"] * 1000)
    finals = {"simulated_time_s": manifest["horizon_s"], "wall_s": manifest["wall_s"]} | {
        f"{measure}.{name}": value
        for measure, figures in manifest.get("measures", {}).items()
        for name, value in figures.items()
    }
    curves += [Metric(k, float(v), end_ms, 0) for k, v in finals.items() if not math.isnan(v)]
    params = [Param(key, text[:LONGEST_VALUE]) for key, text in parameters(run.scenario).items()]
    tags = [
        RunTag(f"simfl.{key}", str(manifest[key]))
        for key in ("digest", "fingerprint", "status", "reason")
    ]
    # A request of MLflow's takes 100 parameters and 1000 metrics at most.
    for start in range(0, max(len(params), 1), 100):
        client.log_batch(identifier, params=params[start : start + 100], tags=tags)
    for start in range(0, len(curves), 1000):
        client.log_batch(identifier, metrics=curves[start : start + 1000])
    client.log_artifact(identifier, str(run.path / "scenario.yaml"))
    ended = "FINISHED" if manifest["status"] == "completed" else "FAILED"
    client.set_terminated(identifier, ended)
    return identifier


def parameters(section: Any, path: str = "") -> dict[str, str]:
    """A scenario's keys as dotted names, each with its value in text."""
    if isinstance(section, Mapping):
        items = [(f"{path}.{key}" if path else str(key), one) for key, one in section.items()]
    elif isinstance(section, list) and any(isinstance(one, Mapping) for one in section):
        items = [(f"{path}.{index}", one) for index, one in enumerate(section)]
    else:
        return {path: str(section)}
    return {name: text for key, one in items for name, text in parameters(one, key).items()}
