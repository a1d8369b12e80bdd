"""Clients that come and go, in whole runs; and what a change of hardware does not affect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.runs.execution import run
from tests.small import simulated, small

MARKOV = {
    "name": "renewal",
    "present": {"mean_s": 2.0, "law": "weibull", "shape": 0.5},
    "absent": {"mean_s": 6.0, "law": "exponential"},
}
TIMING = {
    "algorithm": {"name": "none", "local": {"epochs": 1, "batch_size": 16, "learning_rate": 0.1}},
    "data": {"name": "sizes", "examples_per_client": 50, "input_shape": [64]},
    "model": "linear",
}


@pytest.mark.parametrize("protocol", ["synchronous", "asynchronous", "hierarchical"])
def test_only_clients_that_are_there_are_selected(tmp_path, protocol: str) -> None:
    """Whoever is dispatched is there by the model's own answer, and some rounds miss some."""
    scenario = small(
        **TIMING, protocol=protocol, population={"availability": MARKOV}, stop={"versions": 30}
    )

    one = run(scenario, tmp_path / "run")

    simulation = assemble(scenario, Options(device="cpu"))
    model = simulation.parts[("population", "availability")]
    selects = one.details("select")
    assert one.manifest["status"] == "completed"
    assert all(one.manifest["invariants"].values())
    for row in selects.itertuples():
        assert model.available(np.array(row.selected), row.time_s, simulation.streams).all()
    assert selects["eligible"].min() < 8


IN_FLIGHT = [
    {"name": "asynchronous"},
    {"name": "asynchronous", "mixing": "delta", "concurrency": 8},
    {"name": "buffered", "buffer": 2},
]


@pytest.mark.parametrize("protocol", IN_FLIGHT, ids=str)
@pytest.mark.parametrize("medium", ["dedicated", {"name": "fifo", "channels": 9}], ids=str)
def test_a_slot_for_who_never_comes_goes_to_the_others(tmp_path, protocol, medium) -> None:
    """All eight are to be under way, and one is gone: the other seven go on, and keep going."""
    gone = {"name": "tests.protocols.availabilities:Gone", "clients": [3]}
    groups = [{"device": "rpi_4b", "link": "wifi5_ac", "share": 1.0}]
    population = {"availability": gone, "access_sharing": medium, "groups": groups}
    scenario = small(**TIMING, protocol=protocol, population=population, stop={"versions": 40})

    one = run(scenario, tmp_path / "run")

    assert one.manifest["status"] == "completed"
    assert all(one.manifest["invariants"].values())
    took_part = one.clients["participations"]
    assert took_part[3] == 0
    assert took_part.drop(3).min() > 2
    uploads = one.events.query("kind == 'upload'").groupby("client")["time_s"].max()
    assert uploads.min() > 0.5 * one.events["time_s"].max()
    # A slot that waited asks for the version that there is when it finds somebody.
    for row in one.details("select").itertuples():
        assert row.version >= (one.rounds["time_s"] < row.time_s).sum()


def test_more_clients_in_flight_give_no_fewer_versions() -> None:
    """Half of ten clients are there: with slots for eight of them as much comes as with three."""
    versions = {}
    for slots in (3, 8):
        scenario = small(
            **TIMING,
            protocol={"name": "buffered", "buffer": 3, "concurrency": slots},
            population={"clients": 10, "availability": MARKOV, "leaving": "abort"},
            stop={"versions": None, "time_s": 10.0},
        )
        versions[slots] = len(simulated(scenario)[1].publications.rounds)

    assert 0 < versions[3] <= versions[8]


def test_a_daily_absence_halves_the_cohorts(tmp_path) -> None:
    """From the 20th to the 50th millisecond of 100, half of the clients, give or take one, miss."""
    absence = {"name": "daily_absence", "from_s": 0.02, "to_s": 0.05, "period_s": 0.1}
    scenario = small(**TIMING, population={"availability": absence}, stop={"versions": 40})

    selects = run(scenario, tmp_path / "run").details("select")

    away = (selects["time_s"] % 0.1 >= 0.02) & (selects["time_s"] % 0.1 < 0.05)
    assert away.any() and not away.all()
    assert selects["eligible"][away].between(3, 5).all()
    assert (selects["eligible"][~away] == 8).all()


def test_another_cpu_leaves_every_other_draw_as_it_was() -> None:
    """Common random numbers: availability, places, link rates, transfers and noise factors stay."""
    noisy: dict[str, Any] = {
        "availability": {**MARKOV, "share_beta": [2.0, 2.0]},
        "compute_noise": 0.3,
        "transfer_noise": 0.2,
        "rate_spread": 0.4,
        "speed_spread": 0.5,
    }
    groups = [
        {"device": "rpi_5", "link": "wifi5_ac", "share": 0.5},
        {"device": "phone_high_sd865", "link": "lte_2021", "share": 0.5},
    ]
    before = assemble(small(**TIMING, population=noisy), Options(device="cpu"))
    after = assemble(small(**TIMING, population={**noisy, "groups": groups}), Options(device="cpu"))
    clients = np.arange(8)

    courses = [
        [
            one.parts[("population", "availability")].available(clients, at, one.streams)
            for at in np.linspace(0, 500, 300)
        ]
        for one in (before, after)
    ]
    plans = [
        one.world.plan_rounds(clients, 3, 100, 1e6, 10**6, 10**6, np.inf) for one in (before, after)
    ]
    quiet = [
        one.world.without_noise.plan_rounds(clients, 3, 100, 1e6, 10**6, 10**6, np.inf)
        for one in (before, after)
    ]

    np.testing.assert_array_equal(*courses)
    for column in ("download_s", "upload_s"):
        np.testing.assert_array_equal(*(getattr(plan, column) for plan in plans))
    np.testing.assert_array_equal(*(plan.upload.active_j for plan in plans))
    np.testing.assert_array_equal(before.world.position_m, after.world.position_m)
    changed = plans[0].compute_s != plans[1].compute_s
    assert (changed == (before.world.device_index == 0)).all()
    factors = [plan.compute_s / calm.compute_s for plan, calm in zip(plans, quiet, strict=True)]
    np.testing.assert_allclose(*factors)
