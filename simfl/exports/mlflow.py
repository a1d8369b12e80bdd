"""MLflow: exports a finished run to a tracking server or store."""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

from simfl.exports import ExportFailed, MissingTool, curve_name
from simfl.runs.runfolder import MANIFEST, LoadedRun

LONGEST_VALUE = 500
"""Length of a parameter's value that every MLflow store accepts."""

METRICS = (
    "accuracy",
    "loss",
    "latency_s",
    "energy_j",
    "client_energy_j",
    "client_active_j",
    "server_energy_j",
    "bytes",
    "staleness",
)
"""Columns of the rounds table that become curves."""

TOTALS = (
    "energy_j",
    "client_energy_j",
    "client_active_j",
    "server_energy_j",
    "network_energy_j",
    "carbon_gco2",
    "electricity_cost",
    "bytes",
    "backhaul_bytes",
    "client_rounds",
    "merged_updates",
    "wasted_rounds",
    "wasted_active_j",
    "battery_level",
    "lowest_battery_level",
    "emptied_clients",
)
"""Figures of the manifest that become `total_...`: a curve ends at the last version, but work in
progress has cost something by the end of the run.
"""

REQUEST_SECONDS, RETRIES = 20, 1
"""How long a server may take to answer, and how often a request is repeated: a minute in all.

MLflow's own MLFLOW_HTTP_REQUEST_TIMEOUT and MLFLOW_HTTP_REQUEST_MAX_RETRIES take precedence.
"""


IDENTITY = ("digest", "fingerprint", "status")
"""Keys of the manifest in which an exported run agrees with one that is there: it is the same."""


class Exported(NamedTuple):
    """MLflow's ID of a run, and whether the run had been exported before."""

    identifier: str
    was_there: bool


def export_to_mlflow(
    run: LoadedRun,
    uri: str,
    experiment: str = "simfl",
    setting: Mapping[str, str] = MappingProxyType({}),
) -> Exported:
    """Log a run's parameters, curves, final figures and files, unless it is there already.

    Steps are global versions, and a point's time is simulated time in milliseconds. `setting`: the
    levels of a study's factors, which become tags and part of the name. Raises `MissingTool` if
    MLflow is not installed, and `ExportFailed` if the server or store at `uri` does not answer or
    refuses. Nothing is sent of a run that cannot be read.
    """
    try:
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param, RunTag
    except ImportError:
        raise MissingTool("--mlflow needs MLflow: pip install 'simfl[mlflow]'") from None
    manifest = run.manifest
    name = ", ".join([f"{manifest['name']}-seed{manifest['seed']}", *setting.values()])
    metrics = [Metric(*one) for one in _metrics(run)]
    params = [Param(key, text[:LONGEST_VALUE]) for key, text in parameters(run.scenario).items()]
    identity = {f"simfl.{key}": str(manifest.get(key)) for key in IDENTITY}
    same = " and ".join(f"tags.`{key}` = '{value}'" for key, value in identity.items())
    told = {**identity, "simfl.reason": str(manifest.get("reason"))}
    told |= {f"simfl.factor.{factor}": level for factor, level in setting.items()}
    tags = [RunTag(key, value) for key, value in told.items()]
    tags.append(RunTag("simfl.warnings", ", ".join(one.kind for one in run.warnings) or "none"))
    try:
        with _patience():
            _require_database(uri)
            client = MlflowClient(tracking_uri=uri)
            known = client.get_experiment_by_name(experiment)
            number = known.experiment_id if known else client.create_experiment(experiment)
            there = client.search_runs([number], same, max_results=1)
            if there:
                return Exported(there[0].info.run_id, was_there=True)
            identifier: str = client.create_run(number, run_name=name).info.run_id
            # A request to MLflow may contain at most 100 parameters and 1000 metrics.
            for start in range(0, max(len(params), 1), 100):
                client.log_batch(identifier, params=params[start : start + 100], tags=tags)
            for start in range(0, len(metrics), 1000):
                client.log_batch(identifier, metrics=metrics[start : start + 1000])
            for file in ("scenario.yaml", MANIFEST):
                client.log_artifact(identifier, str(run.path / file))
            ended = "FINISHED" if manifest["status"] == "completed" else "FAILED"
            client.set_terminated(identifier, ended)
    except Exception as error:  # MLflow passes on whatever its stores and their libraries raise
        raise ExportFailed(f"{uri}: MLflow cannot log there: {error}") from error
    return Exported(identifier, was_there=False)


def _require_database(uri: str) -> None:
    """Fail at once if an SQLite file cannot be opened: MLflow would retry for minutes."""
    path = uri.removeprefix("sqlite:///")
    if path != uri:
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA schema_version")


@contextmanager
def _patience() -> Iterator[None]:
    """Replaces MLflow's timeouts of several minutes by `REQUEST_SECONDS` and `RETRIES`."""
    limits = {
        "MLFLOW_HTTP_REQUEST_TIMEOUT": str(REQUEST_SECONDS),
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": str(RETRIES),
    }
    own = {name: limit for name, limit in limits.items() if name not in os.environ}
    os.environ.update(own)
    try:
        yield
    finally:
        for name in own:
            del os.environ[name]


def _metrics(run: LoadedRun) -> Iterator[tuple[str, float, int, int]]:
    """Name, value, simulated milliseconds and version of every point: curves, then final figures.

    An interrupted run has the figures that it has reached.
    """
    manifest = run.manifest
    for column in METRICS:
        name = curve_name(column, run.accuracy_name)
        points = run.rounds[["version", "time_s", column]].itertuples(index=False)
        for version, time_s, value in points:
            if not math.isnan(value):
                yield name, float(value), round(time_s * 1000), int(version)
    finals = {"simulated_time_s": manifest.get("horizon_s"), "wall_s": manifest.get("wall_s")}
    finals |= {f"total_{name}": manifest.get(name) for name in TOTALS}
    for measure, figures in manifest.get("measures", {}).items():
        finals |= {f"{measure}.{name}": value for name, value in figures.items()}
    for name, value in finals.items():
        if value is not None and not math.isnan(value):
            yield name, float(value), round(manifest["horizon_s"] * 1000), 0


def parameters(section: Any, path: str = "") -> dict[str, str]:
    """A scenario's keys as dotted names, each with its value as text."""
    if isinstance(section, Mapping):
        items = [(f"{path}.{key}" if path else str(key), one) for key, one in section.items()]
    elif isinstance(section, list) and any(isinstance(one, Mapping) for one in section):
        items = [(f"{path}.{index}", one) for index, one in enumerate(section)]
    else:
        return {path: str(section)}
    return {name: text for key, one in items for name, text in parameters(one, key).items()}
