"""Who is dispatched next by asynchronous servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simfl
from simfl.measures.inequality import jain_index
from simfl.streams import Streams

CLIENTS = 100
TIMING: dict[str, Any] = {
    "data": {"name": "sizes", "examples_per_client": 20_000, "input_shape": [100]},
    "model": "linear",
    "algorithm": {"name": "none", "local": {"epochs": 1, "batch_size": 20}},
    "log": {"level": "rounds"},
}


def turns(
    folder: Path, selection: Any, protocol: dict[str, Any], updates: int, **population: Any
) -> np.ndarray:
    """The number of each client's rounds."""
    scenario = {
        **TIMING,
        "population": {
            "name": "catalogue",
            "clients": CLIENTS,
            "groups": [{"device": "rpi_4b", "link": "ethernet_1g"}],
            **population,
        },
        "decisions": {"selection": selection},
        "protocol": protocol,
        "stop": {"versions": updates},
    }
    return simfl.run(scenario, folder).clients["participations"].to_numpy(dtype=float)


@pytest.mark.parametrize(
    "selection", ["all", {"name": "random", "count": 10}, {"name": "random", "count": 1}], ids=str
)
@pytest.mark.parametrize("in_flight", [1, 5])
def test_a_free_slot_draws_uniformly_from_those_selected(
    tmp_path: Path, selection: Any, in_flight: int
) -> None:
    """However many the selection chooses; 600 draws from 100 clients have a Jain's index of 0.858.

    It is 1 / (1 + (n - 1) / draws) for n clients; one after another would give nearly 1.
    """
    protocol = {"name": "asynchronous", "concurrency": in_flight}

    rounds = turns(tmp_path, selection, protocol, 600)

    expected = 1 / (1 + (CLIENTS - 1) / 600)
    assert jain_index(rounds) == pytest.approx(expected, abs=0.05)
    assert rounds.min() <= 2 and rounds.max() >= 11


def test_fast_clients_take_part_as_often_as_renewal_theory_says(tmp_path: Path) -> None:
    """Half of the clients take four times as long; 25 of 100 train at any time.

    A free slot draws an idle client, so that in the long run a client that takes d seconds takes
    part once in d + w seconds, with the same wait w for all. Each class of n clients has n d / (d +
    w) in flight, 25 in all: with n = 50, d of 1 and 4, w = 6.77 and the ratio of turns is 1.386.
    """
    half = {"device": "rpi_4b", "link": "ethernet_1g", "count": CLIENTS // 2}
    groups = [half, {**half, "speed_factor": 0.25}]
    protocol = {"name": "buffered", "buffer": 10, "concurrency": 25}

    rounds = turns(tmp_path, {"name": "random", "count": 10}, protocol, 400, groups=groups)

    fast, slow = rounds[: CLIENTS // 2].sum(), rounds[CLIENTS // 2 :].sum()
    assert fast / slow == pytest.approx(1.386, abs=0.06)


def test_if_all_are_in_flight_nobody_waits_for_a_draw(tmp_path: Path) -> None:
    """A slot for every client: each is dispatched as soon as it is free, equally often."""
    rounds = turns(tmp_path, "all", {"name": "asynchronous"}, 6 * CLIENTS)

    assert rounds.max() - rounds.min() <= 1


def test_with_a_slot_for_every_client_nothing_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if rounds are lost, whose clients are idle a moment before their slots are free."""
    uniform, drawn = Streams.uniform, list[str]()

    def noted(self: Streams, component: str, *address: Any) -> Any:
        drawn.append(component)
        return uniform(self, component, *address)

    monkeypatch.setattr(Streams, "uniform", noted)
    lost = {"message_loss": {"probability": 0.3, "timeout_s": 0.01, "attempts_max": 1}}

    turns(tmp_path / "all", "all", {"name": "asynchronous"}, 300, **lost)
    assert drawn and "dispatch" not in drawn
    turns(tmp_path / "fewer", "all", {"name": "asynchronous", "concurrency": 99}, 5)
    assert "dispatch" in drawn


def test_if_all_are_in_flight_they_are_dispatched_in_order(tmp_path: Path) -> None:
    """The first round is the first client's, and so on: logs of such runs depend on no draw."""
    run = simfl.run(
        {
            **TIMING,
            "population": {
                "name": "catalogue",
                "clients": 20,
                "groups": [{"device": "rpi_4b", "link": "ethernet_1g"}],
            },
            "protocol": "asynchronous",
            "stop": {"versions": 3},
            "log": {"level": "full"},
        },
        tmp_path,
    )

    first = run.events[(run.events["kind"] == "download") & (run.events["start_s"] == 0)]
    of_rounds = dict(zip(first["round"], first["client"], strict=True))
    assert of_rounds == {number: number for number in range(20)}
