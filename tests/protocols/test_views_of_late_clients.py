"""What a decision sees of clients whose rounds closed without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simfl
from simfl.decisions.selection.random import Random
from simfl.decisions.views import ClientView
from tests.protocols.test_wait_for import TIMING, WAYS
from tests.small import small


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wait_for", [None, {"clients": 8}])
@pytest.mark.parametrize("protocol", ["synchronous", "hierarchical"])
def test_a_late_upload_is_seen_from_its_arrival_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    protocol: str,
    wait_for: dict[str, int] | None,
    way: dict[str, Any],
) -> None:
    """A selection knows of every upload that has arrived by then, in time or late."""
    views: list[ClientView] = []
    decide = Random.decide

    def spied(self: Random, memory: Any, view: ClientView, rng: np.random.Generator) -> Any:
        assert view.participations.size == view.last_seen_s.size  # columns are made when read
        views.append(view)
        return decide(self, memory, view, rng)

    monkeypatch.setattr(Random, "decide", spied)
    patience = {"over_selection": 2.0}
    scenario = small(
        **TIMING,
        protocol={"name": protocol, "patience": patience, "wait_for": wait_for},
        decisions={"selection": {"name": "random", "count": 6}},
        population={"edges": 1, **way},
        stop={"versions": 4},
    )

    run = simfl.run(scenario, tmp_path / "run")

    uploads = run.events[run.events["kind"] == "upload"]
    late = run.events[run.events["kind"] == "late"]
    assert (late["time_s"] < views[-1].time_s).any()
    for view in views:
        arrived = uploads[uploads["time_s"] <= view.time_s].groupby("client")["time_s"]
        seen = arrived.agg(["count", "max"]).reindex(view.clients)
        np.testing.assert_array_equal(view.participations, seen["count"].fillna(0))
        np.testing.assert_array_equal(view.last_seen_s, seen["max"])
