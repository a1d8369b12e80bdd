"""Secure aggregation: what is learned is FedAvg's, and the price is its paper's."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from simfl.algorithms.secure_aggregation import SecureAggregation
from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.runs.warning_rules import foreseen
from simfl.scenario.yaml_source.error import ScenarioError
from tests.algorithms.loops import paid, scenario
from tests.small import final_weights, largest_difference, simulated, small


@pytest.mark.parametrize(("clients", "values", "expansion"), [(10, 20, 1.73), (14, 24, 1.98)])
def test_messages_are_as_large_as_published(clients: int, values: int, expansion: float) -> None:
    """For 16-bit vectors, relative to plain messages: the figures in the paper's abstract."""
    network = SimpleNamespace(size_bytes=4 * 2**values)
    part = SecureAggregation(value_bits=16).among(2**clients)

    price = part.price(network, 0, 0)  # type: ignore[arg-type]

    sent = price.up_bytes + price.down_bytes - network.size_bytes
    assert sent / (2 * 2**values) == pytest.approx(expansion, abs=0.005)


def test_it_learns_what_fedavg_does_and_pays_for_the_masks(tmp_path: Path) -> None:
    """Three of four clients: ceil(log2(3 2^32)) = 34 bits a value; three masks each."""
    _, plain = simulated(scenario({"name": "fedavg"}), tmp_path / "plain")
    simulation, run = simulated(
        scenario({"name": "secure_aggregation", "participants": 3}), tmp_path / "secure"
    )

    assert largest_difference(final_weights(plain), final_weights(run)) == 0.0
    before, after = paid(tmp_path / "plain"), paid(tmp_path / "secure")
    network = simulation.network
    values, rounds = network.size_bytes // 4, 3 * 4
    up = math.ceil((2 * 256 + 4 * 256 + 34 * values + 3 * 256) / 8)
    assert after["upload"] == rounds * up
    assert after["download"] == before["download"] + rounds * math.ceil((8 * 256 + 3) / 8)
    masked = 100.0 * 3 * values / (3 * network.forward_flops)
    world, expected = simulation.world, 0.0
    for client, size in enumerate(simulation.partitioned.num_examples.tolist()):
        of_one = world.cycles([client], 3 * size + masked, network.work, 3)
        expected += float(of_one[0]) * int(run.observations.participations[client])
    assert after["cycles"] == pytest.approx(expected, rel=1e-9)
    assert after["cycles"] > before["cycles"]


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ({"decisions": {"selection": {"name": "random", "count": 3}}}, 3),
        ({"protocol": "hierarchical", "population": {"clients": 5, "edges": 2}}, 3),
        ({}, 4),
    ],
)
def test_prices_for_more_clients_than_a_round_has_are_warned_of(
    changes: dict[str, Any], most: int
) -> None:
    """By default prices are for the whole population, however many clients are selected."""
    plain = {"population": {"clients": 4}, "decisions": {}, **changes}
    whole = plain["population"]["clients"]
    for stated in (None, most):
        part = {"name": "secure_aggregation", "participants": stated}
        simulation = assemble(small(algorithm=part, **plain), Options(device="cpu"))
        found = [one for one in foreseen(simulation) if one.kind == "priced_for_more"]
        assert [one.count for one in found] == (
            [whole - most] if stated is None and most < whole else []
        )
        assert all(f"for {whole} clients; " in one.message for one in found)
        assert all(one.message.endswith(f"at most {most}") for one in found)


def test_fewer_neighbours_cost_less() -> None:
    """A sparse graph; the server's own work stays the same."""
    network = SimpleNamespace(size_bytes=4000)
    dense, sparse = (SecureAggregation(neighbours=k).among(100) for k in (None, 9))
    prices = [one.price(network, 0, 0) for one in (dense, sparse)]  # type: ignore[arg-type]

    assert prices[0].operations / prices[1].operations == 10.0
    assert prices[0].up_bytes - prices[1].up_bytes == 3 * 90 * 32
    assert prices[0].down_bytes - prices[1].down_bytes == 4 * 90 * 32


def test_what_does_not_fit_is_refused() -> None:
    """Updates of other rounds, more participants than clients, more neighbours than others."""
    for part, changes, said in (
        ({}, {"protocol": "buffered"}, "masks cancel only among the clients of a single round"),
        ({"participants": 9}, {}, "at most the 4 clients"),
        ({"participants": 3, "neighbours": 3}, {}, "fewer than the 3 participants"),
    ):
        with pytest.raises(ScenarioError, match=said):
            assemble(scenario({"name": "secure_aggregation", **part}, **changes))
