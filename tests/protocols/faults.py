"""Scenarios in which things break, and what every run keeps of its promises all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.protocols.clock import Stalled
from simfl.protocols.deliveries import Delivered
from simfl.protocols.run import Run
from simfl.provenance.journal import Journal
from simfl.runs.execution import simulate
from simfl.scenario.scenario import Scenario
from tests.small import small

TIMING = {"name": "none", "local": {"epochs": 1, "batch_size": 16, "learning_rate": 0.1}}
PROTOCOLS = {
    "synchronous": {"name": "synchronous"},
    "hierarchical": {"name": "hierarchical", "edge_rounds": 2},
    "semi_asynchronous": {"name": "semi_asynchronous", "edge_rounds": 2, "concurrency": 1},
    "asynchronous": {"name": "asynchronous", "concurrency": 4},
    "buffered": {"name": "buffered", "buffer": 3, "concurrency": 5},
}


def outages(works_s: float, broken_s: float) -> dict[str, Any]:
    """Exponential failures and repairs with these means."""
    return {"works": {"mean_s": works_s}, "broken": {"mean_s": broken_s}}


def faulty(
    protocol: str | Mapping[str, Any], *, versions: int = 12, seed: int = 3, **population: Any
) -> Scenario:
    """Timing-only rounds on the small population, with these keys of it changed; 3 s at most."""
    chosen = PROTOCOLS[protocol] if isinstance(protocol, str) else protocol
    return small(
        protocol=chosen,
        algorithm=TIMING,
        population=population,
        stop={"versions": versions, "time_s": 3.0},
        seed=seed,
    )


class Watched:
    """A run in which each use of an update is counted, by client and version, and how it ended."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        simulation = assemble(scenario, Options(device="cpu"))
        self.run: Run = simulation.make_run(folder, Journal())
        self.used: Counter[tuple[int, int]] = Counter()
        self.stalled = ""
        self._folder = folder
        values: Any = self.run.values
        aggregate = values.aggregate

        def counted(ref: Any, delivered: Delivered, shares: Any = None) -> Any:
            used = zip(delivered.clients.tolist(), delivered.versions.tolist(), strict=True)
            self.used.update(used)
            return aggregate(ref, delivered, shares)

        values.aggregate = counted
        try:
            simulate(simulation, self.run)
        except Stalled as stalled:
            self.stalled = str(stalled)
        self.run.close()

    @property
    def events(self) -> pd.DataFrame:
        """The rows of the log."""
        return pd.read_parquet(self._folder / "events.parquet")


def tails_after(rounds: pd.DataFrame, events: pd.DataFrame, run: Run) -> float:
    """Joules above idle power of radios' tails after the last rows of these client rounds."""
    joules = 0.0
    for tail in events[(events["kind"] == "tail") & events["client"].notna()].itertuples():
        own = events[(events["client"] == tail.client) & (events["time_s"] <= tail.start_s)]
        last = own[own["kind"].isin(["download", "compute", "upload"])].iloc[-1]
        if (rounds == last[["client", "round"]]).all(axis=1).any():
            idle_w = run.accounts.power_idle_w[int(tail.client)]
            joules += tail.energy_j - idle_w * tail.duration_s
    return joules


def check_promises(watched: Watched) -> None:
    """The books balance; no update is used that did not arrive, and none twice."""
    run, accounts = watched.run, watched.run.accounts
    assert all(run.laws.values()), accounts.violations
    assert np.isfinite(accounts.joules).all()
    wasted = run.wasted
    rounds = run.aggregation.merged_updates + wasted["wasted_rounds"]
    assert rounds <= wasted["client_rounds"]
    assert 0.0 <= wasted["wasted_active_j"] <= accounts.active_j.sum() * (1.0 + 1e-9)
    arrived = watched.events.query("kind == 'upload' and client >= 0 and bytes > 0")
    uploads = Counter(zip(arrived["client"].astype(int), arrived["version"], strict=True))
    for update, count in watched.used.items():
        assert count <= uploads[update], f"{update}: {count} used of {uploads[update]}"
