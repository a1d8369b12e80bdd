"""How full batteries were, found again from the log of a run.

The joules of a row are what a client drew in that time, its idle power included, and what comes in
follows from the scenario: batteries that are walked along the rows have the levels that they had in
the run. What a device would have drawn if it were not off stands in its rows, too (`unmet_j`). Who
waits draws its idle power, whoever is charged with it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from simfl.assembly.assemble import outlined
from simfl.eventlog.kinds import STATES
from simfl.runs.runfolder import LoadedRun
from simfl.scenario.scenario import Scenario
from simfl.system.battery import Batteries

_NOTHING = 1e-9
"""Of a capacity: what is left of it by rounding, when a battery has run empty."""


def battery_levels(run: LoadedRun) -> pd.DataFrame:
    """Columns client, time_s and level (of the capacity, 0 to 1), by client and time.

    A client has its level at time 0 and at the end of each of its rows, and none on mains power.
    Raises `ScenarioError` where the run's scenario cannot be built any more.
    """
    outline = outlined(Scenario.from_yaml(run.path / "scenario.yaml"))
    population, world = outline.parts[("population",)], outline.world
    charging = population.batteries
    levels = pd.DataFrame({"client": [], "time_s": [], "level": []})
    if charging is None:
        return levels
    devices, index = world.devices, world.device_index
    batteries = charging.build(devices, index, outline.streams, population.start_s)
    clients = np.flatnonzero(np.isfinite(batteries.capacity_j))
    found = [levels, _levels(batteries, clients)]
    rows = _rows(run)
    rows = rows[rows["client"].isin(clients)]
    for _, each in rows.groupby(rows.groupby("client").cumcount()):
        who = each["client"].to_numpy(np.int64)
        end_s = np.maximum(each["time_s"].to_numpy(), batteries.time_s[who])
        empty = ~batteries.off[who] & (batteries.level(who) <= _NOTHING)
        batteries.switch_off(who[empty & (each["unmet_j"].to_numpy() > 0)])
        batteries.advance(who, end_s, each["load_w"].to_numpy())
        found.append(_levels(batteries, who))
    whole = pd.concat(found, ignore_index=True).astype({"client": int})
    return whole.sort_values(["client", "time_s"], ignore_index=True)


def _levels(batteries: Batteries, clients: np.ndarray) -> pd.DataFrame:
    columns = {"time_s": batteries.time_s[clients], "level": batteries.level(clients)}
    return pd.DataFrame({"client": clients, **columns})


def _rows(run: LoadedRun) -> pd.DataFrame:
    """client, kind, time_s, load_w and unmet_j of what clients did and waited, in order of time."""
    events = run.events
    kept = events["client"].notna() & events["kind"].isin(STATES) & (events["duration_s"] > 0)
    rows = events.loc[kept, ["client", "kind", "time_s", "duration_s", "energy_j", "unmet_j"]]
    idle_w = rows["client"].map(run.clients.set_index("client")["power_idle_w"])
    # What a device would have drawn of an empty battery was its load, too.
    load_w = (rows["energy_j"] + rows["unmet_j"]) / rows["duration_s"]
    return rows.assign(load_w=load_w.where(rows["kind"] != "idle", idle_w))
