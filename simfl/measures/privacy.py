"""The privacy loss (epsilon) of a run of `dp_fedavg`, computed by Google's accountants.

Renyi differential privacy (Mironov, 2017) of Gaussian releases, composed and converted to (epsilon,
delta) by the package dp-accounting; privacy losses if draws are secret (`hidden_draws.py`). A
release is a version; its noise is z times one client's maximum influence on the sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Any, ClassVar

from simfl.measures.base import Measure
from simfl.runs.runfolder import LoadedRun


@dataclass(frozen=True)
class Privacy(Measure):
    """Client-level (epsilon, delta) of an algorithm with a `noise_multiplier` (`dp_fedavg`).

    `epsilon`: a client's changes against zeros in their place, composed over the releases of the
    client that is in most of them; the random draw of clients does not help. `epsilon_sampled`: a
    client against another one, in rounds of a fixed number of clients drawn from all by `random`
    (not each independently, as in the paper), if the draw is secret; NaN if clients are not always
    available, not all waited for, or fail. Both are upper bounds, the first by Renyi differential
    privacy (about 4 % above the least), the second by privacy losses (up to 5 %), for the updates
    only: losses that clients report to `oort`, `tifl` and `power_of_choice` have no noise and are
    not included, nor are figures of clients that the run evaluates. Needs the package dp-accounting
    (`pip install 'simfl[privacy]'`). Empty for other algorithms.
    """

    learned: ClassVar[bool] = False

    delta: Annotated[float, "> 0", "< 1", "delta; should be below 1 / clients"] = 1e-5

    def __post_init__(self) -> None:
        """Raises ValueError without the package: before the run, not after it."""
        if find_spec("dp_accounting") is None:
            raise ValueError(
                "epsilon is not computed, because the package dp-accounting is not installed: pip"
                " install 'simfl[privacy]'"
            )

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """epsilon, epsilon_sampled, delta, and releases: the versions."""
        multiplier = run.scenario["algorithm"].get("noise_multiplier")
        if multiplier is None:
            return {}
        z, clients = float(multiplier), len(run.clients)
        participants = run.rounds.loc[run.rounds["version"] > 0, "participants"].tolist()
        most = _most_releases(run)
        sampled = math.nan
        if _drawn_evenly(run.scenario):
            drawn = _drawn(run.scenario["decisions"]["selection"], clients)
            # If anybody fails, the others take part more often than they are drawn.
            if set(participants) == {drawn}:
                sampled = self.sampled(z, clients, drawn, len(participants))
        return {
            "epsilon": self.released(z, most),
            "epsilon_sampled": sampled,
            "delta": self.delta,
            "releases": float(len(participants)),
        }

    def released(self, noise_multiplier: float, releases: int) -> float:
        """epsilon of a client that is part of this many releases; 0 for none."""
        if releases == 0:
            return 0.0
        if noise_multiplier == 0.0:
            return math.inf
        import dp_accounting

        accountant = dp_accounting.rdp.RdpAccountant()
        accountant.compose(dp_accounting.GaussianDpEvent(noise_multiplier), releases)
        return float(accountant.get_epsilon(self.delta))

    def sampled(
        self, noise_multiplier: float, clients: int, participants: int, releases: int
    ) -> float:
        """epsilon of releases over this many participants each, drawn from all clients.

        Replacing a client by another one moves the sum by up to 2 S, so the noise counts half. The
        epsilon of releases with known participants holds as well.
        """
        if noise_multiplier == 0.0:
            return math.inf
        shift, share = 2.0 / noise_multiplier, participants / clients
        # Imports scipy, so it is loaded only if needed.
        from simfl.measures.hidden_draws import epsilon_of_hidden_draws

        hidden = epsilon_of_hidden_draws(shift, share, releases, self.delta)
        return min(hidden, self.released(noise_multiplier / 2, releases))


def _most_releases(run: LoadedRun) -> int:
    """The most releases of one client: its updates that arrived in time in rounds that made a
    version.

    Answers to a selection's queries are not updates. If the log has no events, the rounds that the
    client finished, late or not.
    """
    events = run.events
    if events.empty:
        return int(run.clients["participations"].max())
    sent = run.details("upload")
    if "query" in sent:
        sent = sent[sent["query"].isna()]
    made = events[(events["kind"] == "cloud_aggregate") & events["cut_by"].isna()]["round"]
    arrived = sent[sent["cut_by"].isna() & (sent["bytes"] > 0)]
    late = events[events["kind"] == "late"]
    merged, left_out = (
        one.loc[one["round"].isin(made), "client"].value_counts() for one in (arrived, late)
    )
    merged = merged.sub(left_out, fill_value=0)
    return 0 if merged.empty else int(merged.max())


def _drawn_evenly(scenario: Mapping[str, Any]) -> bool:
    """Whether each round's clients are drawn from all, with equal probability."""
    population, selection = scenario["population"], scenario["decisions"]["selection"]
    if selection["name"] != "random" or population["availability"]["name"] != "always":
        return False
    # Late clients are left out, so fast clients are merged more often than others.
    patience = scenario["protocol"].get("patience") or {}
    if patience.get("over_selection", 1.0) > 1.0 or patience.get("deadline_s") is not None:
        return False
    groups = population.get("groups") or []
    away = any(one.get("availability") or one.get("batteries") for one in groups)
    return not (away or population.get("batteries") or population["faults"]["clients"])


def _drawn(selection: Mapping[str, Any], clients: int) -> int:
    """How many clients `random` draws for a round."""
    count, share = selection["count"], selection["share"]
    return min(clients, count or max(1, round((share or 0.0) * clients)))
