"""What every availability model must keep, whatever its law."""

from __future__ import annotations

import numpy as np
import pytest

from simfl.streams import Streams
from simfl.system.availability.absence import Absence
from simfl.system.availability.always import Always
from simfl.system.availability.base import Availability
from simfl.system.availability.daily_absence import DailyAbsence
from simfl.system.availability.diurnal import Diurnal
from simfl.system.availability.partly_absent import PartlyAbsent
from simfl.system.availability.periodic import Periodic
from simfl.system.availability.renewal import Renewal
from simfl.system.availability.sojourn import Sojourn

CLIENTS = np.arange(200)
MODELS = {
    "always": Always,
    "periodic": lambda: Periodic(period_s=5000.0, share=0.3),
    "daily_absence": lambda: DailyAbsence(from_s=1000.0, to_s=4000.0, period_s=9000.0),
    "absence": lambda: Absence(from_s=1000.0, to_s=9000.0),
    "exponential": lambda: Renewal(Sojourn(500.0), Sojourn(800.0)),
    "weibull": Renewal,
    "lognormal": lambda: Renewal(Sojourn(500.0, "lognormal", 1.5), Sojourn(800.0, "lognormal")),
    "beta": lambda: Renewal(share_beta=(0.5, 4.75)),
    "diurnal": lambda: Renewal(diurnal=Diurnal(swing=0.9)),
}


@pytest.fixture(params=sorted(MODELS))
def model(request: pytest.FixtureRequest) -> Availability:
    """One of each kind of model."""
    return MODELS[request.param]()


def test_answers_depend_on_client_and_time_alone(model: Availability) -> None:
    """They depend neither on other clients, nor on order, nor on earlier queries."""
    streams = Streams(3)
    times = [0.0, 10.0, 7000.0, 7000.0, 123.0, 90_000.0, 3.0]

    course = [model.available(CLIENTS, time_s, streams) for time_s in times]

    for time_s, there in zip(times, course, strict=True):
        fresh = type(model)(
            **{  # the same model with nothing remembered
                name: value for name, value in vars(model).items() if not name.startswith("_")
            }
        )
        alone = np.array([fresh.available(CLIENTS[i : i + 1], time_s, streams)[0] for i in (7, 3)])
        np.testing.assert_array_equal(alone, there[[7, 3]])
        backwards = fresh.available(CLIENTS[::-1], time_s, streams)[::-1]
        np.testing.assert_array_equal(backwards, there)


def test_next_and_until_are_the_ends_of_a_state(model: Availability) -> None:
    """A client is away before `next_s` and there at it; there before `until_s`, away at it.

    A model may round by the last bits at the boundary itself, so the questions are asked beside it.
    """
    streams, now_s = Streams(4), 4321.0
    there = model.available(CLIENTS, now_s, streams)
    next_s = model.next_s(CLIENTS[~there], now_s, streams)
    until_s = model.until_s(CLIENTS[there], now_s, streams)

    for clients, ends_s, state in (
        (CLIENTS[~there], next_s, False),
        (CLIENTS[there], until_s, True),
    ):
        for client, end_s in list(zip(clients, ends_s, strict=True))[:40]:
            one = np.array([client])
            if end_s == np.inf:
                assert model.available(one, 1e7, streams)[0] == state
                continue
            assert end_s > now_s
            just_before = max(now_s, end_s - 1e-3)
            between = (now_s + end_s) / 2
            assert model.available(one, just_before, streams)[0] == state
            assert model.available(one, between, streams)[0] == state
            assert model.available(one, end_s + 1e-6, streams)[0] != state


def test_another_seed_is_another_course(model: Availability) -> None:
    """One model object under two seeds gives the answers of each, whichever is asked first."""
    first, second = Streams(1), Streams(2)

    before = model.available(CLIENTS, 500.0, first)
    other = model.available(CLIENTS, 500.0, second)

    np.testing.assert_array_equal(model.available(CLIENTS, 500.0, first), before)
    if not isinstance(model, Always | PartlyAbsent):
        assert (other != before).any()


def test_nobody_asked_nobody_answered(model: Availability) -> None:
    """No clients, no answers."""
    none = np.empty(0, dtype=np.int64)

    assert model.available(none, 1.0, Streams(0)).size == 0
    assert model.next_s(none, 1.0, Streams(0)).size == 0
    assert model.until_s(none, 1.0, Streams(0)).size == 0
