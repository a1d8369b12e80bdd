"""Edge servers that are broken: whom the cloud waits for, and what the log says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.runs.unused_clients import edge_servers_left_out
from simfl.scenario.scenario import Scenario
from simfl.system.failures import Failures
from tests.protocols.faults import Watched, check_promises, faulty, outages

TIERS = {"name": "hierarchical", "edge_rounds": 1}
EDGES = np.arange(4)


def scenario(faults: dict[str, Any] | None, **population: Any) -> Scenario:
    """Rounds of four edge servers, with failures of these."""
    given = {} if faults is None else {"faults": {"edge_servers": faults}}
    return faulty(TIERS, versions=40, edges=EDGES.size, **given, **population)


@pytest.mark.parametrize("noticed_after_s", [0.0, 0.02])
@pytest.mark.parametrize(("works_s", "broken_s"), [(2.0, 2.0), (0.2, 0.2), (0.2, 0.02)])
def test_a_round_has_the_edge_servers_that_work(
    works_s: float, broken_s: float, noticed_after_s: float, tmp_path: Path
) -> None:
    """It begins at once with those that work, or at the first repair if none does."""
    asked = scenario(outages(works_s, broken_s), noticed_after_s=noticed_after_s)
    one = Watched(asked, tmp_path)
    simulation = assemble(asked, Options(device="cpu"))
    faults = simulation.parts[("population",)].faults.edge_servers
    failures = Failures(faults, simulation.streams, "faults.edge_server")

    check_promises(one)
    of_edges = one.events.query("kind == 'download' and client != client")
    assert of_edges["round"].nunique() > 2
    ended_s = {row["round"]: row["time_s"] for row in one.run.publications.rounds}
    for number, dispatched in of_edges.groupby("round"):
        begins_s = dispatched["start_s"].min()
        works = EDGES[failures.at(EDGES, begins_s)[0]]
        assert sorted(dispatched["edge"].astype(int)) == works.tolist()
        before_s = 0.0 if number == 0 else ended_s.get(number)
        if before_s is not None and begins_s > before_s:
            assert not failures.at(EDGES, before_s)[0].any()
    # The cloud merges the models that came up in this round, and no others.
    came_up = one.events.query("kind == 'upload' and client != client and bytes > 0")
    merged = one.events.query("kind == 'cloud_aggregate'").set_index("round")["detail"]
    for number, details in merged.items():
        assert json.loads(details)["updates"] == (came_up["round"] == number).sum()
    # An outage has one row, however many rounds go by.
    crashes = one.events.query("kind == 'crash'")
    assert {json.loads(text)["what"] for text in crashes["detail"]} == {"edge_server"}
    repaired_s = (crashes["time_s"] + crashes["value"]).round(6)
    assert not crashes.assign(repaired_s=repaired_s).duplicated(["edge", "repaired_s"]).any()


def test_a_crash_in_a_round_is_noticed_after_the_time_out(tmp_path: Path) -> None:
    """The round with the crash lasts that much longer, and has the other models."""
    ended_s, crashed_s = [], []
    for after_s in (0.0, 0.5):
        asked = scenario(outages(3.0, 3.0), noticed_after_s=after_s)
        one = Watched(asked, tmp_path / str(after_s))
        times_s = np.array([row["time_s"] for row in one.run.publications.rounds])
        # Those at the time of a version were there before the round.
        crashes = one.events.query("kind == 'crash' and time_s > 0")
        in_round = crashes[~crashes["time_s"].isin(times_s)].iloc[0]
        assert in_round["value"] > 0.5
        crashed_s.append(in_round["time_s"])
        ended_s.append(times_s[times_s >= crashed_s[-1]].min())

    assert crashed_s[0] == crashed_s[1]
    assert ended_s[0] < crashed_s[0] + 0.3
    assert crashed_s[0] + 0.5 <= ended_s[1] < crashed_s[0] + 0.5 + 0.3


@pytest.mark.parametrize(("broken_s", "told"), [(2.0, True), (0.01, False)])
def test_edge_servers_that_are_mostly_missing_are_told(
    broken_s: float, told: bool, tmp_path: Path
) -> None:
    """By the rounds of which their model was a part."""
    asked = scenario(outages(2.0 if told else 100.0, broken_s))
    one = Watched(asked, tmp_path)

    found = [one.message for one in edge_servers_left_out(assemble(asked), one.run)]

    merged = one.events.query("kind == 'upload' and client != client and bytes > 0")
    in_rounds = merged.groupby("edge").size().reindex(EDGES, fill_value=0)
    rounds = len(one.run.publications.rounds)
    rare = int((in_rounds < 0.5 * rounds).sum())
    assert (rare > 0) == told == bool(found)
    for message in found:
        assert message.startswith(f"{rare} of 4 edge servers brought a model in fewer than half")
        assert f"of the {rounds} rounds, one of them in {in_rounds.min()}," in message


def test_a_cloud_that_knows_at_once_is_told(tmp_path: Path) -> None:
    """Failures shorten its rounds; not so with a time-out."""
    kinds = []
    for after_s in (0.0, 0.05):
        one = Watched(scenario(outages(0.3, 0.3), noticed_after_s=after_s), tmp_path / str(after_s))
        kinds.append({notice.kind for notice in one.run.warnings})

    assert "noticed_at_once" in kinds[0] and "noticed_at_once" not in kinds[1]
