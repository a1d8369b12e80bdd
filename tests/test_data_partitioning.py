"""The data of a scenario, as its clients and its server hold them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from simfl.assembly.assemble import assemble
from simfl.assembly.data_partitioning import shares_of_test_set
from simfl.scenario.yaml_source.error import ScenarioError
from tests.small import small

TRAINING_ROWS = 1797 - 359  # digits, a fifth of which is the test set


def test_validation_share_stays_with_the_server() -> None:
    """The server keeps the share asked for, the clients have the rest, and no row is in both."""
    scenario = small(data={"name": "digits", "validation_share": 0.25, "partition": "iid"})

    partitioned = assemble(scenario).partitioned

    assert partitioned.validation is not None
    assert len(partitioned.validation) == pytest.approx(0.25 * TRAINING_ROWS, abs=1)
    assert sum(len(one) for one in partitioned.clients) == TRAINING_ROWS - len(
        partitioned.validation
    )


def test_label_counts_are_those_of_the_shards() -> None:
    """A client's label counts and size describe the examples that it holds."""
    partitioned = assemble(small()).partitioned

    for client, examples in enumerate(partitioned.clients):
        assert partitioned.num_examples[client] == len(examples)
        assert (
            partitioned.label_counts[client].tolist()
            == examples.targets.bincount(minlength=10).tolist()
        )


def test_noise_has_each_clients_variance_and_touches_nothing_else() -> None:
    """Inputs differ by N(0, variance) per value; client 0, the rows and the targets stay."""
    three = {"clients": 3, "edges": 1}
    plain = assemble(small(population=three)).partitioned
    noisy = assemble(
        small(population=three, data={"noise_variance": [0.0, 0.5, 1.0]}, dtype="float32")
    ).partitioned

    for client, variance in enumerate((0.0, 0.5, 1.0)):
        before, after = plain.clients[client], noisy.clients[client]
        noise = after.inputs.double() - before.inputs.double()
        assert torch.equal(before.targets, after.targets)
        assert float(noise.mean()) == pytest.approx(0.0, abs=0.02)
        assert float(noise.var()) == pytest.approx(variance, rel=0.03, abs=1e-12)


def test_noise_is_needed_for_every_client_or_none() -> None:
    """Two variances for eight clients are refused at their key."""
    with pytest.raises(ScenarioError, match=r"noise_variance.*found 2 values for 8 clients"):
        assemble(small(data={"noise_variance": [0.0, 1.0]}))


def test_noise_may_grow_with_the_clients_number() -> None:
    """Client i of N, counted from 1, has the variance largest i / N."""
    four = {"clients": 4, "edges": 1}
    plain = assemble(small(population=four, dtype="float32")).partitioned
    noise = {"noise_variance": {"largest": 2.0}}
    noisy = assemble(small(population=four, data=noise, dtype="float32")).partitioned

    assert list(noisy.noise_variance) == [0.5, 1.0, 1.5, 2.0]
    added = [
        (after.inputs.double() - before.inputs.double()).var().item()
        for before, after in zip(plain.clients, noisy.clients, strict=True)
    ]
    assert added == pytest.approx([0.5, 1.0, 1.5, 2.0], rel=0.03)


def test_test_shares_have_the_clients_labels_and_noise() -> None:
    """Each label is shared as in training, whole rows apart; every test row lies with somebody."""
    scenario = small(data={"noise_variance": [0.0] * 7 + [4.0]})
    simulation = assemble(scenario)
    partitioned = simulation.partitioned

    shares = shares_of_test_set(partitioned, simulation.streams)

    held = np.array([one.targets.bincount(minlength=10).numpy() for one in shares])
    expected = partitioned.label_counts / partitioned.label_counts.sum(axis=0) * held.sum(axis=0)
    assert held.sum() == len(partitioned.data.test)
    assert np.abs(held - expected).max() <= 1.0
    clean = {tuple(row) for row in partitioned.data.test.inputs.flatten(1).tolist()}
    rows = [[tuple(row) in clean for row in one.inputs.flatten(1).tolist()] for one in shares]
    assert all(map(all, rows[:7]))
    assert not any(rows[7])


def test_a_regression_has_no_labels_to_share_its_test_set_by() -> None:
    """It is refused, and says so."""
    data = {"name": "synthetic", "task": "regression", "partition": "iid"}
    simulation = assemble(small(data=data, model="linear"))

    with pytest.raises(ValueError, match="no labels"):
        shares_of_test_set(simulation.partitioned, simulation.streams)
