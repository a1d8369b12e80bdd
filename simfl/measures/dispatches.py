"""A run's dispatches and scheduling decisions as tables, from its event log."""

from __future__ import annotations

import numpy as np
import pandas as pd

from simfl.runs.runfolder import LoadedRun

ROUND_0 = 0
"""The round in which all edge servers are dispatched, without a decision."""


def dispatches(run: LoadedRun) -> pd.DataFrame:
    """One row per dispatch of an edge server whose model arrived, in the order of arrival.

    `round`, `edge`, `dispatched_s` (its download begins), `arrived_s` (its upload ends) and
    `latency_s` between them; `staleness` in versions and mixing `share` if the cloud merged it.
    Empty for flat protocols and for runs that kept no events.
    """
    events = run.events
    messages = events[events["client"].isna() & events["actor"].str.startswith("edge-")]
    uploads = messages[(messages["kind"] == "upload") & messages["cut_by"].isna()]
    keys = ["round", "edge"]
    began = messages[messages["kind"] == "download"].groupby(keys)["start_s"].min()
    ended = uploads.groupby(keys)["time_s"].max()
    merged = events[(events["kind"] == "cloud_aggregate") & events["edge"].notna()]
    merged = merged[merged["cut_by"].isna()].set_index(keys)
    table = pd.DataFrame({"dispatched_s": began, "arrived_s": ended}).dropna()
    table["latency_s"] = table["arrived_s"] - table["dispatched_s"]
    table = table.join(merged[["staleness", "value"]]).rename(columns={"value": "share"})
    return table.reset_index().sort_values("arrived_s", ignore_index=True)


def whole_rounds(run: LoadedRun) -> pd.DataFrame:
    """One row per round in which the cloud averaged all edge models together, in order.

    `round`, `dispatched_s` (the first edge server's download begins), `arrived_s` (the last upload
    ends) and `latency_s` between them. Empty if the cloud merges edge models one by one, for flat
    protocols and for runs without events.
    """
    # By the rounds of events: a version's row has the round that begins with it.
    events = run.events[run.events["kind"] == "cloud_aggregate"]
    averaged = events[events["edge"].isna() & events["cut_by"].isna()]["round"]
    table = dispatches(run)
    rounds = table[table["round"].isin(averaged)].groupby("round", as_index=False)
    table = rounds.agg({"dispatched_s": "min", "arrived_s": "max"})
    return table.assign(latency_s=table["arrived_s"] - table["dispatched_s"])


def flat_rounds(run: LoadedRun) -> pd.DataFrame:
    """One row per version of a flat protocol, in order.

    `version`, `round`, `dispatched_s` (the selection of its clients, or of the client whose update
    arrived last), `arrived_s` (it is published) and `latency_s` between them. Empty for protocols
    with tiers and for runs that kept no events.
    """
    events = run.events
    selected = events[(events["kind"] == "select") & events["edge"].isna()]
    began = selected.groupby("round")["time_s"].max().rename("dispatched_s")
    table = run.rounds[["version", "round", "time_s"]].rename(columns={"time_s": "arrived_s"})
    table = table.join(began, on="round", how="inner")
    return table.assign(latency_s=table["arrived_s"] - table["dispatched_s"])


def decisions(run: LoadedRun) -> pd.DataFrame:
    """The cloud's scheduling decisions in order: `round`, `picked` and the columns of the log.

    Empty if the cloud decides nothing.
    """
    rows = run.details("schedule").sort_values("round", ignore_index=True)
    return rows.assign(picked=rows["value"].astype(int))


def columns(table: pd.DataFrame, name: str) -> np.ndarray:
    """A column of lists, one per row and one number per edge server, as (rows, edge servers)."""
    return np.array(table[name].tolist(), dtype=float)


def owed_shares(run: LoadedRun) -> np.ndarray:
    """delta: the least share of the dispatches that the scheduling rule owes each edge server.

    kappa D_m / D, where kappa is the sum that the run logged before its start; empty if nothing is
    owed, as with Greedy.
    """
    noted = run.details("feasibility")
    if noted.empty:
        return np.zeros(0)
    owed = np.array(noted.iloc[0]["owed_share"], dtype=float)
    return float(owed.sum()) * data_shares(run, owed.size)


def data_shares(run: LoadedRun, edges: int) -> np.ndarray:
    """D_m / D: each edge server's share of all training examples, shape (edges,)."""
    clients = run.clients
    examples = np.bincount(clients["edge"], clients["num_examples"], minlength=edges)
    shares: np.ndarray = examples / examples.sum()
    return shares
