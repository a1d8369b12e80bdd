"""Sojourns of clients that come and go are computed once, however they are asked about."""

from __future__ import annotations

import numpy as np
import pytest

from simfl.streams import Streams
from simfl.system.availability.sojourn import Sojourn
from simfl.system.availability.sojourn_cache import SojournCache

CLIENTS = np.arange(5)


def new_cache() -> SojournCache:
    """Sojourns of a second on average."""
    return SojournCache(Streams(1), Sojourn(1.0), Sojourn(1.0), None, None)


def test_a_look_ahead_changes_no_answer() -> None:
    """Asked about now and then in turn, or about now alone, the answers are the same."""
    plain, looking = new_cache(), new_cache()

    for now_s in np.arange(0.0, 40.0, 3.7):
        looking.at(CLIENTS[1:3], now_s + 25.0)
        there, until_s = looking.at(CLIENTS, now_s)

        expected = plain.at(CLIENTS, now_s)
        assert there.tolist() == expected[0].tolist()
        assert until_s.tolist() == expected[1].tolist()


def test_looks_ahead_cost_what_lies_ahead_and_not_the_whole_past(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twice as many questions take twice as many steps: none begins at time 0 again."""
    advance, steps = SojournCache._advance, []

    def counted(self: SojournCache, rows: np.ndarray) -> None:
        steps.append(rows.size)
        advance(self, rows)

    monkeypatch.setattr(SojournCache, "_advance", counted)
    totals = []
    for questions in (40, 80):
        one = new_cache()
        steps.clear()
        for now_s in np.arange(questions) * 5.0:
            one.at(CLIENTS, now_s + 50.0)
            one.at(CLIENTS, now_s)
        totals.append(sum(steps))

    assert totals[1] < 2.2 * totals[0]
