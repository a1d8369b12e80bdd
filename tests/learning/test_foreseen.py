"""The sum that workers are asked for before anybody wants it is that of a mean by examples."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from simfl.learning.parameters import Parameters
from simfl.learning.sums import PartialSum, shares, weighted_mean
from simfl.learning.workers.foreseen import Foreseen


def tasks(*clients: Sequence[int]) -> list[list[Any]]:
    """Cohorts of these clients, who have as many examples as their number says."""
    return [[SimpleNamespace(client=one, examples=range(one)) for one in each] for each in clients]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_parts_make_the_mean_in_whatever_order_they_come(order: Sequence[int]) -> None:
    """Members stand by client, wherever they are trained."""
    cohorts = ((4, 7), (9, 1, 3), (2,))
    foreseen = Foreseen(tasks(*cohorts), wanted=True)
    models: dict[int, Parameters] = {one: {"w": torch.randn(5)} for one in (1, 2, 3, 4, 7, 9)}

    assert foreseen.places == [[3, 4], [5, 0, 2], [1]]
    for number in order:
        wanted = foreseen.of(number)
        assert wanted is not None
        part = PartialSum(wanted[0])
        held = zip(wanted[1], cohorts[number], strict=True)
        part.add({place: models[client] for place, client in held})
        foreseen.take(part)
    whole = foreseen.taken()

    assert whole is not None and foreseen.taken() is None
    expected = weighted_mean(list(models.values()), list(models))
    assert torch.equal(whole.total()["w"], expected["w"])


def test_only_the_very_sum_is_taken_for_it() -> None:
    """Other weights, a missing member and another order are other sums."""
    foreseen = Foreseen(tasks((1, 2), (3,)), wanted=False)
    weights = shares([1, 2, 3])

    assert foreseen.is_the(weights, {0: 0, 1: 1, 2: 2})
    assert not foreseen.is_the(shares([1, 1, 1]), {0: 0, 1: 1, 2: 2})
    assert not foreseen.is_the(weights, {0: 1, 1: 0, 2: 2})
    assert not foreseen.is_the(weights, {0: 0, 1: 1})
    assert foreseen.of(0) is None and foreseen.taken() is None


def test_clients_without_examples_have_no_mean() -> None:
    """Nobody is asked for one: who trains them says what is wrong."""
    foreseen = Foreseen(tasks((0,)), wanted=True)

    assert foreseen.of(0) is None and not foreseen.is_the([1.0], {0: 0})
