"""Battery levels over time, reconstructed from a run's log.

The joules of a row are the client's consumption in that time, including idle power, and the
charging follows from the scenario: batteries simulated along the rows have the same levels as in
the run. Rows also have the joules that a device would have drawn if it were not off (`unmet_j`). A
waiting client draws its idle power, whether or not it is charged to the training, and so does a
client that is away during a round: a row with pauses is simulated part by part.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from simfl.assembly.assemble import outlined
from simfl.common.arrays import IntArray
from simfl.eventlog.kinds import STATES
from simfl.runs.runfolder import LoadedRun
from simfl.scenario.scenario import Scenario

_COLUMNS = ("client", "time_s", "level", "charged_j", "spilled_j")

_NOTHING = 1e-9
"""As a share of the capacity: what rounding may leave when a battery has run empty."""


def battery_levels(run: LoadedRun) -> pd.DataFrame:
    """Columns client, time_s, level (share of the capacity, 0 to 1), charged_j and spilled_j.

    The latter two are joules since the start: into the battery, and beyond a full one.

    A client has a level at time 0 and at the end of each of its rows; clients on mains power have
    none. Between these times the load is assumed constant, over a row without its pauses: if a
    battery is full during a part of a message, its level is approximate. Raises `ScenarioError` if
    the run's scenario can no longer be built.
    """
    outline = outlined(Scenario.from_yaml(run.path / "scenario.yaml"))
    batteries = outline.parts[("population",)].build_batteries(outline.world)
    levels = pd.DataFrame({name: [] for name in _COLUMNS})
    if batteries is None:
        return levels
    clients = np.flatnonzero(np.isfinite(batteries.capacity_j))
    charged_j, spilled_j = np.zeros((2, batteries.capacity_j.size))

    def columns(clients: IntArray) -> pd.DataFrame:
        joules = charged_j[clients], spilled_j[clients]
        values = clients, batteries.time_s[clients], batteries.level(clients), *joules
        return pd.DataFrame(dict(zip(_COLUMNS, values, strict=True)))

    found = [levels, columns(clients)]
    rows = _rows(run)
    rows = rows[rows["client"].isin(clients)]
    for _, each in rows.groupby(rows.groupby("client").cumcount()):
        who = each["client"].to_numpy(np.int64)
        end_s = np.maximum(each["time_s"].to_numpy(), batteries.time_s[who])
        empty = ~batteries.off[who] & (batteries.level(who) <= _NOTHING)
        batteries.switch_off(who[empty & (each["unmet_j"].to_numpy() > 0)])
        flow = batteries.advance(who, end_s, each["load_w"].to_numpy())
        charged_j[who] += flow.charged_j
        spilled_j[who] += flow.spilled_j
        found.append(columns(who[each["whole"].to_numpy()]))
    whole = pd.concat(found, ignore_index=True).astype({"client": int})
    return whole.sort_values(["client", "time_s"], ignore_index=True)


def battery_figures(run: LoadedRun) -> dict[str, float]:
    """Figures of the manifest: the mean and the lowest level at the end, and how many ran empty.

    A client that begins with nothing has not run empty. No figures if all are on mains power.
    """
    levels = battery_levels(run)
    by_client = levels.groupby("client")["level"]
    if not len(by_client):
        return {}
    at_end = by_client.last()
    ran_empty = (levels["level"] <= _NOTHING) & (by_client.shift() > _NOTHING)
    return {
        "battery_level": float(at_end.mean()),
        "lowest_battery_level": float(at_end.min()),
        "emptied_clients": int(levels.loc[ran_empty, "client"].nunique()),
    }


_ROW = ["client", "kind", "start_s", "time_s", "duration_s", "energy_j", "unmet_j"]


def _rows(run: LoadedRun) -> pd.DataFrame:
    """client, time_s, load_w and unmet_j of clients' activities and waiting, in order of time.

    Each is a row of the log up to its end (`whole`), or up to where a pause in it begins or ends.
    """
    events = run.events
    kept = events["client"].notna() & events["kind"].isin(STATES) & (events["duration_s"] > 0)
    rows = events.loc[kept, _ROW].reset_index(drop=True)
    idle_w = rows["client"].map(run.clients.set_index("client")["power_idle_w"])
    # Energy that an empty battery did not give was part of the device's load, too.
    load_w = (rows["energy_j"] + rows["unmet_j"]) / rows["duration_s"]
    load_w = load_w.where(rows["kind"] != "idle", idle_w)
    rows = rows.assign(load_w=load_w, idle_w=idle_w, whole=True)
    pauses = _pauses(run, rows)
    if pauses.empty:
        return rows
    parts = [rows.drop(pauses["row"].unique())]
    parts += [_parts(rows.loc[[row]], own) for row, own in pauses.groupby("row")]
    return pd.concat(parts).sort_values("time_s", kind="stable", ignore_index=True)


def _pauses(run: LoadedRun, rows: pd.DataFrame) -> pd.DataFrame:
    """row, from_s and to_s of the pauses within rows, in order of time."""
    none = pd.DataFrame({"row": [], "from_s": [], "to_s": []})
    events = run.events
    if not (events["kind"] == "unavailable").any():
        return none
    away = run.details("unavailable").query("then == 'goes_on'")
    if away.empty:
        return none
    away = away.assign(from_s=away["time_s"], kind=away["stage"])
    found = pd.merge_asof(
        away[["client", "kind", "from_s", "value"]].sort_values("from_s"),
        rows[["client", "kind", "start_s", "time_s"]].assign(row=rows.index).sort_values("start_s"),
        left_on="from_s",
        right_on="start_s",
        by=["client", "kind"],
    )
    found["to_s"] = np.minimum(found["from_s"] + found["value"], found["time_s"])
    return found[found["to_s"] > found["from_s"]]


def _parts(row: pd.DataFrame, pauses: pd.DataFrame) -> pd.DataFrame:
    """One row, split into those between its pauses and those of the pauses, at idle power."""
    [(start_s, end_s, idle_w)] = row[["start_s", "time_s", "idle_w"]].to_numpy()
    bounds_s = [*pauses[["from_s", "to_s"]].to_numpy(float).ravel(), end_s]
    parts = row.loc[row.index.repeat(len(bounds_s))].assign(time_s=bounds_s)
    lasts_s = np.diff([start_s, *bounds_s])
    paused_s = lasts_s[1::2].sum()
    wanted_j = float((row["energy_j"] + row["unmet_j"]).iloc[0]) - idle_w * paused_s
    at_work_s = lasts_s[0::2].sum()
    loads_w = np.full(lasts_s.size, wanted_j / at_work_s if at_work_s > 0 else 0.0)
    loads_w[1::2] = idle_w
    parts["load_w"], parts["whole"] = loads_w, parts["time_s"] == end_s
    return parts[lasts_s > 0]
