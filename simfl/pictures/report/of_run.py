"""The report of one run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from simfl.common.quantity import in_vain
from simfl.measures.staleness_distribution import staleness_distribution
from simfl.pictures.colours import STATE_COLOURS, radio_tails
from simfl.pictures.overview import MOST_NAMED_EDGES
from simfl.pictures.report import charts
from simfl.pictures.report.fairness import fairness
from simfl.pictures.report.page import Page, shown
from simfl.pictures.report.timeline import timeline
from simfl.runs.runfolder import LoadedRun, edge_servers
from simfl.runs.so_far import so_far
from simfl.runs.summary import batteries, footprint, over_the_backhaul, wasted
from simfl.study.figures import with_unit
from simfl.study.reliability import reliability_sentences

INTERRUPTIONS = {
    "crash": "crashes",
    "unavailable": "clients that left in mid-round",
    "battery_empty": "batteries that ran empty in mid-round",
    "out_of_memory": "rounds of clients with too little memory",
    "late": "uploads after the close of their round",
    "given_up": "rounds given up for want of updates",
}
"""Events that are counted if there are any."""

MOST_BARS = 30
"""The most numbers of rounds that have a bar of their own."""

MOST_CLIENTS = 2000
"""The number of clients whose rows are embedded."""


def report_run(run: LoadedRun, path: Path) -> Path:
    """Write the page of a run, or what is known of one that has not come to its end.

    Raises `RunFolderError` where nothing is.
    """
    page = Page(f"{run.manifest['name']}, seed {run.manifest['seed']}")
    unfinished = so_far(run)
    if unfinished is not None:
        return _report_so_far(page, run, unfinished, path)
    _warnings(page, run)
    _what_ran(page, run)
    _outcome(page, run)
    _participation(page, run)
    _staleness(page, run)
    _queues(page, run)
    _energy(page, run)
    fairness(page, run)
    timeline(page, run)
    page.data("manifest", run.manifest)
    page.data("rounds", _columns(run.rounds))
    page.data("clients", _columns(run.clients.drop(columns="label_counts").head(MOST_CLIENTS)))
    return page.save(path)


def _report_so_far(page: Page, run: LoadedRun, unfinished: str, path: Path) -> Path:
    """The page of a run whose versions alone are known."""
    page.heading("Not ended")
    page.text(unfinished)
    page.text(
        "Who took part, energy by machine, fairness and the timeline are known when the run ends.",
        "note",
    )
    _warnings(page, run)
    page.heading("What ran")
    page.table(("", ""), _parts(run.scenario))
    page.source("scenario, with every default", (run.path / "scenario.yaml").read_text("utf-8"))
    _outcome(page, run)
    page.data("manifest", run.manifest)
    page.data("rounds", _columns(run.rounds))
    return page.save(path)


def _warnings(page: Page, run: LoadedRun) -> None:
    if not run.warnings:
        return
    page.heading("Warnings")
    page.table(
        ("kind", "what", "how often", "first at (s)", "what to do"),
        [
            (
                one.kind.replace("_", " "),
                one.message,
                str(one.count),
                shown(one.first_s),
                one.advice,
            )
            for one in run.warnings
        ],
    )


def _what_ran(page: Page, run: LoadedRun) -> None:
    page.heading("What ran")
    page.table(("", ""), what_ran(run))
    for sentence in reliability_sentences(run):
        page.text(sentence)
    if rows := run.manifest.get("trained_by"):
        page.text("How local training was computed:")
        page.table(("what", "form", "why"), [tuple(row.values()) for row in rows])
    if workers := run.manifest.get("workers"):
        page.text("How much each worker trained, in seconds of wall time:")
        page.table(("worker", "jobs", "training (s)"), [tuple(row.values()) for row in workers])
    page.source("scenario, with every default", (run.path / "scenario.yaml").read_text("utf-8"))


def what_ran(run: LoadedRun) -> list[tuple[str, str]]:
    """How the run ended, its parts, and what interrupted it."""
    manifest, scenario = run.manifest, run.scenario
    scored = run.rounds.dropna(subset="accuracy")
    tiers = "edge_server" in run.hardware
    rows: list[tuple[str, str]] = [
        ("ended", f"{manifest['status']}: {manifest['reason']}"),
        *_parts(scenario),
        ("clients, edge servers", f"{len(run.clients)}, {len(edge_servers(run)) if tiers else 0}"),
        ("global versions", str(manifest["counts"]["versions"])),
        ("simulated time", f"{manifest['horizon_s']:.4g} s"),
        ("energy of all machines", f"{manifest['energy_j']:.4g} J"),
        (
            "energy of clients",
            f"{manifest['client_energy_j']:.4g} J,"
            f" {manifest['client_active_j']:.4g} J of it above idle power",
        ),
        (
            "energy of servers, the network",
            f"{manifest['server_energy_j']:.4g} J, {manifest['network_energy_j']:.4g} J",
        ),
        *footprint(manifest),
        *batteries(manifest),
        *wasted(manifest),
        ("bytes over all links", f"{manifest['bytes']:.4g} B{in_vain(manifest)}"),
        *over_the_backhaul(manifest),
        ("wall time", f"{manifest['wall_s']:.3g} s"),
        ("simfl, torch", ", ".join(manifest["versions"].values())),
    ]
    if len(scored):
        what = f"last test {run.accuracy_name}"
        rows.insert(5, (what, f"{scored['accuracy'].iloc[-1]:.4f}"))
    interruptions = run.events["kind"].value_counts()
    rows += [
        (what, str(interruptions[kind]))
        for kind, what in INTERRUPTIONS.items()
        if interruptions.get(kind, 0)
    ]
    departures = run.details("departure")
    if len(departures):
        rows += [("departs from its paper", str(why)) for why in departures["reason"]]
    return rows


def _parts(scenario: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a run was made of, in two rows."""
    return [
        ("algorithm, protocol", f"{_name(scenario['algorithm'])}, {_name(scenario['protocol'])}"),
        ("data, model", f"{_name(scenario['data'])}, {_name(scenario['model'])}"),
    ]


def _outcome(page: Page, run: LoadedRun) -> None:
    page.heading("Outcome")
    accuracy, rounds = run.accuracy_name, run.rounds
    figures = {"accuracy": f"test {accuracy}", "loss": "test loss"}
    units = {"accuracy": f"test {with_unit(accuracy)}", "loss": "test loss (1)"}
    figures = {name: label for name, label in figures.items() if rounds[name].notna().any()}
    for name, label in (figures or {"version": "global version"}).items():
        scored, unit = rounds.dropna(subset=name), units.get(name, "version (count)")
        page.charts(
            *(
                (
                    f"{label} against {what}",
                    charts.lines({label: (_list(scored[column]), _list(scored[name]))}, axis, unit),
                )
                for column, what, axis in (
                    ("time_s", "time", "simulated time (s)"),
                    ("client_energy_j", "the energy of clients", "energy of clients (J)"),
                    ("energy_j", "the energy of all machines", "energy of all machines (J)"),
                )
            )
        )


def clients_by_rounds(finished: pd.Series[float]) -> tuple[list[str], list[int]]:
    """How many clients finished how many rounds: numbers of rounds or ranges, without a gap."""
    low, high = int(finished.min()), int(finished.max())
    width = -(-(high - low + 1) // MOST_BARS)
    starts = range(low, high + 1, width)
    counts = [int(finished.between(start, start + width - 1).sum()) for start in starts]
    names = [str(start) if width == 1 else f"{start} to {start + width - 1}" for start in starts]
    return names, counts


def _participation(page: Page, run: LoadedRun) -> None:
    page.heading("Who participated")
    clients = run.clients
    by = "edge" if 1 < clients["edge"].nunique() <= MOST_NAMED_EDGES else "device"
    finished = {
        (f"edge {value}" if by == "edge" else str(value)): (
            _list(own["client"]),
            _list(own["participations"]),
        )
        for value, own in clients.groupby(by)
    }
    page.charts(
        (
            "rounds finished by each client",
            charts.bars(finished, "client (number)", "rounds (count)"),
        ),
        (
            "how many clients finished how many rounds",
            charts.bars(
                {"clients": clients_by_rounds(clients["participations"])},
                "rounds (count)",
                "clients (count)",
            ),
        ),
    )


def _staleness(page: Page, run: LoadedRun) -> None:
    page.heading("Staleness")
    rounds = run.rounds.dropna(subset="staleness")
    if rounds.empty:
        page.text("No version has a staleness.", "note")
        return
    over_time = {
        "mean": (_list(rounds["time_s"]), _list(rounds["staleness"])),
        "oldest": (_list(rounds["time_s"]), _list(rounds["staleness_max"])),
    }
    drawn = [
        (
            "over time",
            charts.lines(over_time, "simulated time (s)", "staleness (versions)", steps=True),
        )
    ]
    updates = staleness_distribution(run).updates
    if updates.sum():
        counts = {"updates": (_texts(np.arange(updates.size)), _list(updates))}
        title = "versions missed by the updates that were merged"
        drawn.insert(0, (title, charts.bars(counts, "staleness (versions)", "updates (count)")))
    page.charts(*drawn)


def _queues(page: Page, run: LoadedRun) -> None:
    page.heading("Queues")
    schedule = run.details("schedule")
    if "queues" not in schedule or schedule["queues"].isna().all():
        page.text("The scheduling rule of this run keeps no queues.", "note")
        return
    logged = schedule.dropna(subset="queues")
    lengths = pd.DataFrame(logged["queues"].tolist(), index=logged["time_s"])
    series = {
        f"edge {edge}": (_list(lengths.index.to_series()), _list(lengths[edge]))
        for edge in lengths.columns[:MOST_NAMED_EDGES]
    }
    if len(lengths.columns) > MOST_NAMED_EDGES:
        page.text(
            f"The first {MOST_NAMED_EDGES} of {len(lengths.columns)} edge servers; `details` of a"
            " loaded run has all.",
            "note",
        )
    label = "queue (dispatches owed)"
    page.charts(
        (
            "virtual queues of the edge servers",
            charts.lines(series, "simulated time (s)", label, steps=True),
        ),
        wide=True,
    )


def _energy(page: Page, run: LoadedRun) -> None:
    page.heading("Energy")
    clients, events = run.clients, run.events
    means = clients.groupby("device")[[f"{state}_j" for state in STATE_COLOURS]].mean()
    per_client = {
        state: (_list(means.index), _list(means[f"{state}_j"])) for state in STATE_COLOURS
    }
    drawn = [
        (
            "a client, by device and state",
            charts.bars(
                per_client,
                "mean energy per client (J)",
                "",
                colours=charts.KIND_COLOURS,
                sideways=True,
            ),
        )
    ]
    if len(events):
        joined = events.merge(clients[["client", "device"]], on="client", how="left")
        tier = joined["actor"].str.replace(r"-\d+$", "", regex=True)
        joined["machine"] = joined["device"].fillna(tier)
        joules = joined.pivot_table(
            index="machine", columns="kind", values="energy_j", aggfunc="sum", fill_value=0.0
        )
        everything = {
            kind: (_list(joules.index), _list(joules[kind]))
            for kind in charts.KIND_COLOURS
            if kind in joules
        }
        drawn.append(
            (
                "all machines, by state",
                charts.bars(
                    everything,
                    "energy of all of them (J)",
                    "",
                    colours=charts.KIND_COLOURS,
                    sideways=True,
                ),
            )
        )
    if tails := radio_tails(run):
        page.text(f"{tails} Its joules are drawn pale.", "note")
    page.charts(*drawn)


def _name(part: Any) -> str:
    return str(part["name"]) if isinstance(part, dict) else str(part)


def _texts(numbers: Any) -> list[str]:
    """Whole numbers as names, so that an axis shows no values between them."""
    return [str(int(number)) for number in numbers]


def _list(column: Any) -> list[Any]:
    return list(column.tolist())


def _columns(table: pd.DataFrame) -> dict[str, list[Any]]:
    return {
        str(name): _list(table[name].astype(object).where(table[name].notna(), None))
        for name in table
    }
