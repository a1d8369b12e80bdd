"""Output of a run in the terminal: live progress and a summary."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from simfl.common.quantity import quantity
from simfl.console.live import LiveDisplay
from simfl.console.printable import printable
from simfl.console.terminal import Terminal
from simfl.console.warned import print_warnings
from simfl.runs.figure_notes import figure_notes
from simfl.runs.runfolder import LoadedRun
from simfl.runs.summary import main_figures, who_trained
from simfl.scenario.scenario import Scenario
from simfl.study.reliability import reliability_sentences


class Watcher(LiveDisplay):
    """A live line during a run: simulated time, version, accuracy, joules, time left.

    If the output is not a terminal, a plain line every ten seconds.
    """

    PLAIN_SECONDS = 10.0

    def __init__(self, scenario: Scenario, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet, transient=True)
        self._limit = scenario.stop.versions
        self._name = scenario.name
        self._shown = f"{self._name}: loading"
        self._began = time.monotonic()
        self._printed = self._began

    def update(self, progress: Any) -> None:
        """Called with the `Progress` at every new version."""
        now = time.monotonic()
        self._shown = self._state(progress, now - self._began)
        self._redraw()
        if now - self._printed >= self.PLAIN_SECONDS:
            self._printed = now
            self._print(self._shown)

    def _content(self) -> Text:
        return Text(printable(self._shown))

    def _line(self) -> str:
        return self._shown

    def _state(self, progress: Any, elapsed_s: float) -> str:
        of = f"/{self._limit}" if self._limit else ""
        parts = [
            f"{self._name}: {quantity(progress.time_s, 's')} simulated",
            f"version {progress.version}{of}",
        ]
        if progress.accuracy is not None and not math.isnan(progress.accuracy):
            parts.append(f"{progress.accuracy_name} {progress.accuracy:.3f}")
        parts.append(quantity(progress.energy_j, "J"))
        if progress.jobs and elapsed_s > 0:
            parts.append(f"{quantity(progress.jobs / elapsed_s, 'jobs/s')}")
        if progress.wall_s and elapsed_s > 0:
            phase, seconds = max(progress.wall_s.items(), key=lambda item: item[1])
            parts.append(f"{seconds / elapsed_s:.0%} {phase}")
        if self._limit and progress.version:
            rest_s = elapsed_s / progress.version * (self._limit - progress.version)
            parts.append(f"about {rest_s:.0f} s left")
        return "  ".join(parts)


def print_summary(run: LoadedRun, figure: Path) -> None:
    """The table at the end of a run."""
    manifest = run.manifest
    console = Terminal()
    console.print(f"{manifest['name']} (seed {manifest['seed']}): {manifest['reason']}")
    table = Table()
    table.add_column("figure")
    table.add_column("value", justify="right")
    for label, figure_shown in main_figures(manifest, run.last_scores):
        table.add_row(label, figure_shown)
    table.add_row("energy by state", "")
    for state, joules in manifest["energy_by_state_j"].items():
        table.add_row(f"  {state.replace('_', ' ')}", quantity(joules, "J"))
    stale = run.mean_staleness
    table.add_row("mean staleness", "-" if math.isnan(stale) else f"{stale:.2f} versions")
    table.add_row("events", str(manifest["counts"]["events"]))
    table.add_row("wall time", quantity(manifest["wall_s"], "s"))
    console.print(table)
    for sentence in reliability_sentences(run):
        console.print(sentence, highlight=False)
    console.print(_edges(run))
    if manifest.get("measures"):
        console.print(_measures(manifest["measures"]))
        names = [f"{one}.{name}" for one, own in manifest["measures"].items() for name in own]
        for sentence in figure_notes(names):
            console.print(sentence, highlight=False)
    if workers := manifest.get("workers"):
        console.print(who_trained(workers), highlight=False)
    print_warnings(console, run.warnings)
    console.print(f"run folder: {run.path}", highlight=False, soft_wrap=True)
    console.print(f"figure:     {figure}", highlight=False, soft_wrap=True)


def _measures(measures: Mapping[str, Mapping[str, float]]) -> Table:
    """A measure's figures below one another, under its name."""
    table = Table(title="measures")
    table.add_column("measure")
    table.add_column("figure")
    table.add_column("value", justify="right")
    for measure, figures in measures.items():
        shown = {name.replace("_", " "): _short(value) for name, value in figures.items()}
        for index, (name, value) in enumerate((shown or {"nothing to measure": ""}).items()):
            table.add_row("" if index else measure.replace("_", " "), name, value)
        table.add_section()
    return table


def _short(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4g}"


def _edges(run: LoadedRun) -> Table:
    several = len(run.hardware["access_points_m"]) > 1
    place = "edge server" if "edge_server" in run.hardware else "access point" if several else ""
    table = Table(title=f"participation per {place}" if place else "participation")
    columns = (place, "clients", "rounds finished", "dropped", "versions", "device energy", "busy")
    for column in columns:
        table.add_column(column, justify="right")
    merged_by, horizon_s = run.column("rounds", "edge"), max(run.manifest["horizon_s"], 1e-12)
    edges, participations, merged, energy_j, idle_s, tail_s = (
        run.column("clients", "edge"),
        run.column("clients", "participations"),
        run.merged_updates,
        *(run.column("clients", name) for name in ("energy_j", "idle_s", "tail_s")),
    )
    merges = not np.isnan(merged_by).all()
    for edge in sorted(set(edges)):
        own = edges == edge
        waited_s = float((idle_s[own] + tail_s[own]).mean())
        table.add_row(
            f"{edge:.0f}" if place else "all",
            str(np.count_nonzero(own)),
            f"{participations[own].sum():.0f}",
            f"{(participations - merged)[own].sum():.0f}",
            str(np.count_nonzero(merged_by == edge)) if merges else "-",
            quantity(float(energy_j[own].sum()), "J"),
            f"{1.0 - waited_s / horizon_s:.0%}",
        )
    return table
