"""FedAvg's server rule: by hand, with a server learning rate, and under every kind of protocol."""

from __future__ import annotations

from typing import Any

import pytest

from simfl.algorithms.fedavg import FedAvg
from simfl.scenario.yaml_source.error import ScenarioError
from tests.algorithms.made import aggregated, state_at, update_of
from tests.small import final_weights, largest_difference, simulated, small

START = state_at([1.0])
TWO = (
    update_of(START, 0, [1.0], loss=1.0, examples=30, statistic=4.0),
    update_of(START, 1, [-2.0], loss=1.0, examples=10, statistic=2.0),
)


@pytest.mark.parametrize(
    ("weights", "rate", "expected"),
    [("examples", 1, 1.25), ("uniform", 1, 0.5), ("examples", 2, 1.5), ("uniform", 0.5, 0.75)],
)
def test_the_server_moves_its_rate_times_the_mean_change(
    weights: Any, rate: float, expected: float
) -> None:
    """1 + rate * (3 - 2) / 4 by data size, 1 + rate * (1 - 2) / 2 otherwise."""
    assert aggregated(FedAvg(weights=weights, server_learning_rate=rate), START, *TWO) == [expected]


def test_running_statistics_are_averaged_whatever_the_rate() -> None:
    """Four times their change could make a variance negative."""
    after = FedAvg(server_learning_rate=4.0).aggregate(START, TWO, None)

    assert after.weights["running_var"].tolist() == [3.5]
    assert after.weights["steps"].item() == 7


def fedavg(rate: float, weights: str = "examples") -> dict[str, Any]:
    """The algorithm section of the small scenario."""
    local = {"epochs": 1, "batch_size": 16, "learning_rate": 0.1}
    return {
        "name": "fedavg",
        "weights": weights,
        "server_learning_rate": rate,
        "local": local,
    }


def same_end(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The largest difference between the final weights of two runs of the small scenario."""
    ends = [final_weights(simulated(small(model="linear", **each))[1]) for each in (one, other)]
    return largest_difference(*ends)


def test_one_edge_round_by_data_size_is_the_flat_servers_step() -> None:
    """Each edge server steps over its members, the cloud averages by data size."""
    flat = {"algorithm": fedavg(1.5)}
    tiers = {**flat, "protocol": {"name": "hierarchical", "edge_rounds": 1}}

    assert same_end(flat, tiers) < 1e-12
    assert same_end(flat, {"algorithm": fedavg(1.0)}) > 1e-3


def test_a_buffered_servers_own_rate_multiplies_it() -> None:
    """0.5 of the one or of the other are the same steps, on stale updates too."""
    buffered = {"name": "buffered", "buffer": 3}
    half = {**buffered, "server_learning_rate": 0.5}
    own = {"algorithm": fedavg(0.5, "uniform"), "protocol": buffered}
    protocols = {"algorithm": fedavg(1.0, "uniform"), "protocol": half}

    assert same_end(own, protocols) < 1e-12


@pytest.mark.parametrize("mixing", ["model", "delta"])
def test_the_share_of_an_asynchronous_update_multiplies_it(mixing: str) -> None:
    """alpha 0.8 of half a step is alpha 0.4 of a whole one."""

    def settings(alpha: float, rate: float) -> dict[str, Any]:
        staleness = {"name": "constant", "value": alpha}
        return {
            "algorithm": fedavg(rate),
            "protocol": {"name": "asynchronous", "mixing": mixing},
            "decisions": {"staleness": staleness},
        }

    assert same_end(settings(0.8, 0.5), settings(0.4, 1.0)) < 1e-12


def test_a_rate_of_nothing_is_refused() -> None:
    """The server would never move."""
    with pytest.raises(ScenarioError, match=r"server_learning_rate"):
        simulated(small(algorithm=fedavg(0.0)))
