"""The sums that workers are asked for before anybody wants them are those of means by examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from simfl.learning.parameters import Parameters
from simfl.learning.sums import PartialSum, shares, weighted_mean
from simfl.learning.workers.early_sums import Foreseen, ForeseenSums


def tasks(*clients: Sequence[int], states: Mapping[int, object]) -> list[list[Any]]:
    """Cohorts of these clients, who have as many examples as their number says."""
    return [
        [SimpleNamespace(client=one, examples=range(one), state=states.get(one)) for one in each]
        for each in clients
    ]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_parts_make_the_means_in_whatever_order_they_come(order: Sequence[int]) -> None:
    """Members stand by client, wherever they are trained, each with those of its state."""
    cohorts, state = ((4, 7), (9, 1, 3), (2,)), object()
    sums = ForeseenSums(tasks(*cohorts, states={1: state, 9: state}), wanted=True)
    models: dict[int, Parameters] = {one: {"w": torch.randn(5)} for one in (1, 2, 3, 4, 7, 9)}
    others, few = sums.places[0][0][0], sums.places[1][0][0]

    members = [[member for _, member in places] for places in sums.places]
    assert members == [[2, 3], [1, 0, 1], [0]]
    assert [len(sums.of(number)) for number in range(3)] == [1, 2, 1]
    for number in order:
        parts = []
        for weights, own in sums.of(number):
            parts.append(PartialSum(weights))
            parts[-1].add({place: models[cohorts[number][which]] for place, which in own.items()})
        sums.take(number, parts)

    for mean, clients in ((others, [2, 3, 4, 7]), (few, [1, 9])):
        whole = mean.taken()
        assert whole is not None and mean.taken() is None
        expected = weighted_mean([models[client] for client in clients], clients)
        assert torch.equal(whole.total()["w"], expected["w"])


def test_only_the_very_sum_is_taken_for_it() -> None:
    """Other weights, a missing member and another order are other sums."""
    foreseen = Foreseen([1, 2, 3], wanted=False)
    weights = shares([1, 2, 3])

    assert foreseen.is_the(weights, {0: 0, 1: 1, 2: 2})
    assert not foreseen.is_the(shares([1, 1, 1]), {0: 0, 1: 1, 2: 2})
    assert not foreseen.is_the(weights, {0: 1, 1: 0, 2: 2})
    assert not foreseen.is_the(weights, {0: 0, 1: 1})
    assert not foreseen.wanted and foreseen.taken() is None


def test_clients_without_examples_have_no_mean() -> None:
    """No mean is requested for them: the error comes from training."""
    sums = ForeseenSums(tasks((0,), states={}), wanted=True)

    assert not sums.of(0) and not sums.places[0][0][0].is_the([1.0], {0: 0})
