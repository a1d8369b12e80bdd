"""How far a run has come that has not come to its end."""

from __future__ import annotations

import math
import shlex
from typing import Any

from simfl.runs.runfolder import LoadedRun, RunFolderError

OF_A_VERSION = (
    "energy_j",
    "client_energy_j",
    "client_active_j",
    "server_energy_j",
    "network_energy_j",
    "bytes",
)
"""Figures of the manifest that the table of versions has, too."""

OF_THE_END = (
    "carbon_gco2",
    "electricity_cost",
    "measures",
    "merged_updates",
    "backhaul_bytes",
    "client_rounds",
    "wasted_rounds",
    "wasted_active_j",
    "battery_level",
    "lowest_battery_level",
    "emptied_clients",
)
"""Figures of the manifest that are not known of the last version."""


def so_far(run: LoadedRun) -> str | None:
    """Of a run without an end: how far its tables go, and how to go on; None of one with its end.

    Raises `RunFolderError` where it has written no table yet.
    """
    if run.has("clients.parquet"):
        return None
    if not run.has("rounds.parquet"):
        raise RunFolderError(f"{run.path}: has no table of its versions yet; {run.standing}")
    status, last = run.manifest["status"], _last_version(run)
    how = "it is going on, or was killed" if status == "running" else str(run.manifest["reason"])
    folder, scenario = (shlex.quote(str(one)) for one in (run.path, run.path / "scenario.yaml"))
    return (
        f"{run.path}: not ended ({how}); figures are those until version {last['version']:.0f}, at"
        f" {last['time_s']:.4g} s of simulated time; `simfl run {scenario} --out {folder} --resume`"
        f" goes on with it"
    )


def manifest_so_far(run: LoadedRun) -> dict[str, Any]:
    """The manifest of a run without an end, with the figures of its last version."""
    last, told = _last_version(run), run.manifest
    counts = {**told["counts"], "versions": int(last["version"])}
    if told["status"] == "running":  # its manifest is that of its beginning
        counts |= {"jobs_trained": math.nan, "jobs_reused": math.nan}
        told = {**told, "wall_s": math.nan}
    spent = {name: last[name] for name in OF_A_VERSION}
    rest = {key: value for key, value in told.items() if key not in OF_THE_END}
    return {**rest, **spent, "horizon_s": last["time_s"], "counts": counts}


def _last_version(run: LoadedRun) -> dict[str, Any]:
    """Its row in the table of versions; before the first one all is 0."""
    rows: list[dict[Any, Any]] = run.rounds.tail(1).to_dict("records")
    return rows[0] if rows else dict.fromkeys(("version", "time_s", *OF_A_VERSION), 0)
