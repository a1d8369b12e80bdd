"""What the log alone says a run has cost: sums over its rows equal the totals given beside it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from simfl.eventlog.kinds import CLIENT_STATES, STATES
from simfl.runs.runfolder import LoadedRun

MESSAGES = ("download", "upload")


def check_books(run: LoadedRun) -> None:
    """Every law of a run that ended, recomputed from its event log."""
    assert run.manifest["violations"] == []
    check_rows(run)
    check_energy(run)
    check_bytes(run)
    check_states(run)
    check_clients(run)
    check_versions(run)


def check_rows(run: LoadedRun) -> None:
    """Rows stand in order of time, and nothing takes less than nothing."""
    events = run.events
    assert np.array_equal(events["seq"], np.arange(len(events))), "seq counts the rows"
    assert events["time_s"].is_monotonic_increasing, "rows are in order of time"
    assert (events["start_s"] <= events["time_s"]).all(), "nothing ends before it begins"
    took_s = (events["time_s"] - events["start_s"]).to_numpy()
    np.testing.assert_allclose(events["duration_s"], took_s, rtol=1e-9, atol=1e-9)
    assert (events["duration_s"] >= 0).all(), "durations are not negative"
    assert (events["energy_j"] >= 0).all(), "joules are not negative"
    assert (events["time_s"] <= run.manifest["horizon_s"]).all(), "nothing is later than the end"


def check_energy(run: LoadedRun) -> None:
    """Joules of all rows are the run's."""
    events, manifest = run.events, run.manifest
    assert events["energy_j"].sum() == pytest.approx(manifest["energy_j"], rel=1e-9)
    clients, network = events["client"].notna(), events["actor"] == "network"
    parts = {"client": clients, "server": ~clients & ~network, "network": network}
    for part, rows in parts.items():
        spent_j = events.loc[rows, "energy_j"].sum()
        assert spent_j == pytest.approx(manifest[f"{part}_energy_j"], rel=1e-9, abs=1e-9), part
    assert run.clients["active_j"].sum() == pytest.approx(manifest["client_active_j"], rel=1e-9)
    for table in (manifest, run.rounds):
        added = sum(table[f"{part}_energy_j"] for part in parts)
        np.testing.assert_allclose(added, table["energy_j"], rtol=1e-12)
    by_kind = events.groupby("kind")["energy_j"].sum()
    for kind, joules in manifest["energy_by_state_j"].items():
        assert by_kind.get(kind, 0.0) == pytest.approx(joules, rel=1e-9), kind
    assert sum(manifest["energy_by_state_j"].values()) == pytest.approx(manifest["energy_j"])


def check_bytes(run: LoadedRun) -> None:
    """What senders counted has arrived, was lost, or was in flight when the run ended."""
    traffic = run.manifest["traffic"]
    messages = run.events[run.events["kind"].isin(MESSAGES)]
    cut = messages["cut_by"] == "end"
    assert messages["bytes"].sum() == run.manifest["bytes"] == traffic["bytes_received"]
    assert messages["lost_bytes"].sum() == traffic["bytes_lost"]
    fates = ("received", "lost", "in_flight")
    assert traffic["bytes_sent"] == sum(traffic[f"bytes_{fate}"] for fate in fates)
    in_flight = bool((messages.loc[cut, "attempts"] > 0).any())
    assert in_flight or traffic["bytes_in_flight"] == 0, "only what the end cuts is in flight"


def check_states(run: LoadedRun) -> None:
    """Each device is in one state at a time, from the beginning of the run to its end."""
    events = run.events
    states = events[events["kind"].isin(STATES)].sort_values(["actor", "start_s", "time_s"])
    actor = states["actor"].to_numpy()
    starts_s, ends_s = states["start_s"].to_numpy(), states["time_s"].to_numpy()
    first = np.append(True, actor[1:] != actor[:-1])[: actor.size]
    last = np.append(first[1:], True)[: actor.size]
    assert (starts_s[first] == 0.0).all(), "every device begins at time 0"
    assert (ends_s[last] == run.manifest["horizon_s"]).all(), "every device is there to the end"
    gap_s = np.abs(starts_s[1:] - ends_s[:-1])[~first[1:]]
    assert (gap_s <= 1e-12).all(), f"states follow each other: {gap_s.max(initial=0.0)} s between"


def check_clients(run: LoadedRun) -> None:
    """Each client's row in the table of clients is what its own rows add up to."""
    own, clients = run.events.dropna(subset="client"), run.clients
    client, kind = own["client"].to_numpy(dtype=np.int64), own["kind"].to_numpy()
    assert clients["client"].tolist() == list(range(len(clients)))

    def summed(column: str, rows: np.ndarray) -> np.ndarray:
        return np.bincount(client[rows], own[column].to_numpy()[rows], minlength=len(clients))

    everything = np.ones(len(own), dtype=bool)
    told = {"energy_j": summed("energy_j", everything)}
    for state in CLIENT_STATES:
        told[f"{state}_j"] = summed("energy_j", kind == state)
        told[f"{state}_s"] = summed("duration_s", kind == state)
    told["bytes_received"] = summed("bytes", kind == "download")
    told["bytes_sent"] = summed("bytes", kind == "upload")
    for column, expected in told.items():
        np.testing.assert_allclose(clients[column], expected, rtol=1e-9, atol=1e-12)


def check_versions(run: LoadedRun) -> None:
    """Energy by each version's moment is that of the rows by then; bytes are those arrived.

    A message or a computation under way has taken a part of its joules by then, whatever part,
    and so has whoever waits while a battery runs empty, or at nobody's cost for a part of the time.
    """
    events: pd.DataFrame = run.events
    starts_s, ends_s = events["start_s"].to_numpy(), events["time_s"].to_numpy()
    joules, active_j = events["energy_j"].to_numpy(), events["active_j"].fillna(0.0).to_numpy()
    sizes = np.where(events["kind"].isin(MESSAGES), events["bytes"], 0)
    uneven = ((events["kind"] == "network") | (events["unmet_j"] > 0)).to_numpy()
    if run.scenario["population"].get("client_idle") == "present":
        uneven = uneven | (events["kind"] == "idle").to_numpy()
    length_s = np.where(ends_s > starts_s, ends_s - starts_s, np.inf)
    over = ends_s <= starts_s
    for row in run.rounds.itertuples():
        share = np.clip((row.time_s - starts_s) / length_s, 0.0, 1.0)
        share[over] = ends_s[over] <= row.time_s
        under_way = (share > 0) & (share < 1)
        uneven_j = active_j[under_way].sum() + joules[under_way & uneven].sum()
        assert row.energy_j == pytest.approx(
            (share * joules).sum(), rel=1e-9, abs=uneven_j + 1e-9
        ), f"joules by version {row.version}"
        assert row.bytes == sizes[ends_s <= row.time_s].sum(), f"bytes by version {row.version}"
