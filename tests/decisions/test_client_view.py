"""Views of clients whose columns are made when they are read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simfl.decisions.views import ClientView
from simfl.protocols.observations import ClientReports
from simfl.system.server_id import CLOUD
from tests.small import simulated, small


def test_a_column_is_made_once_and_only_if_it_is_read() -> None:
    """What nobody reads costs nothing."""
    made = []

    def column(name: str) -> np.ndarray:
        made.append(name)
        return np.zeros(2)

    columns = {name: lambda name=name: column(name) for name in ("cycles", "kappa")}
    view = ClientView.deferred(1.5, 3, np.arange(2), columns)

    assert (view.time_s, view.round, view.clients.tolist()) == (1.5, 3, [0, 1])
    assert view.kappa is view.kappa
    assert made == ["kappa"]
    other = view.instead("cycles", lambda: np.ones(2))
    assert other.cycles.tolist() == [1.0, 1.0]
    assert view.cycles.tolist() == [0.0, 0.0]
    with pytest.raises(AttributeError, match="no battery"):
        _ = view.battery  # type: ignore[attr-defined]


def test_every_column_of_a_run_is_there_and_of_its_clients() -> None:
    """All fields have one entry per client, and a view can be copied with changes."""
    run = simulated(small(stop={"versions": 2}))[1]
    clients = np.array([5, 2])

    view = run.observations.clients(clients, 9.0, 1, CLOUD)
    copy = replace(view, cycles=view.cycles * 2)

    scalars = {"time_s", "round"}
    for name in ClientView.__dataclass_fields__.keys() - scalars:
        assert len(getattr(view, name)) == 2, name
        if name != "cycles":
            np.testing.assert_array_equal(getattr(copy, name), getattr(view, name))
    np.testing.assert_array_equal(view.participations, [2, 2])


def test_a_view_is_of_its_moment() -> None:
    """Once something was observed, columns not read before are refused, not newer than the view."""
    run = simulated(small(stop={"versions": 1}))[1]
    one = np.array([3])
    view = run.observations.clients(one, 9.0, 1, CLOUD)
    seen = view.participations

    run.observations.finished(ClientReports(one, *np.array([[9.5], [0.5], [1.0], [0.4]])))

    assert view.participations is seen
    with pytest.raises(RuntimeError, match="read during the decision"):
        _ = view.last_duration_s
    assert run.observations.clients(one, 9.6, 1, CLOUD).participations.tolist() == [2]
