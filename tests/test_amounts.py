"""Numbers of parts: everyday types pass, impossible values are told with the part's name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from simfl.common.amounts import amounts, distinct_of, number, one_or_each, whole_amounts
from simfl.common.contract import PartMisbehaves


class Mine:
    """A part of a user's own."""


@pytest.mark.parametrize(
    "given",
    [[1, 2], (1.0, 2.0), np.array([1, 2], dtype=np.uint8), np.float32([1, 2]), torch.ones(2)],
)
def test_everyday_types_are_amounts(given: Any) -> None:
    """Lists, numpy's arrays of any number type, torch's tensors."""
    found = amounts(given, (2,), Mine(), "give")

    assert found.dtype == np.float64
    assert found.shape == (2,)


@pytest.mark.parametrize(
    "given", [None, "12", [1, None], [[1], [1, 2]], [-1, 2], [np.nan, 1], [np.inf, 1], [1j, 2], [1]]
)
def test_what_is_no_amount_is_refused_by_name(given: Any) -> None:
    """Wrong types, shapes and values alike, in one line."""
    with pytest.raises(PartMisbehaves, match=r"Mine\.give gave .*, accepted: numbers of shape"):
        amounts(given, (2,), Mine(), "give")


def test_whole_amounts_may_be_floats_without_a_fraction() -> None:
    """What is no whole number, or too large to be an exact one, is refused."""
    assert whole_amounts([2.0, 3.0], (2,), Mine(), "give").tolist() == [2, 3]
    for wrong in ([0.5, 1.0], [1e300, 1.0], [-1, 2]):
        with pytest.raises(PartMisbehaves, match="whole, >= 0 and < 2"):
            whole_amounts(wrong, (2,), Mine(), "give")


def test_one_holds_for_all_only_without_a_shape() -> None:
    """A single number is everybody's; an array has an entry each."""
    assert one_or_each(2.0, (3,), Mine(), "give").tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(PartMisbehaves):
        one_or_each([2.0], (3,), Mine(), "give")


def test_a_number_may_be_unknown_or_infinite() -> None:
    """As figures of measures are; integers beyond numpy's are none."""
    assert np.isnan(number(np.float32("nan"), Mine(), "give"))
    with pytest.raises(PartMisbehaves):
        number(10**400, Mine(), "give")


def test_distinct_numbers_of_clients() -> None:
    """Nobody is a choice; strangers, fractions and repetitions are none."""
    clients = np.array([3, 5, 7])

    assert distinct_of(clients, [5, 3]).tolist() == [5, 3]  # type: ignore[union-attr]
    assert distinct_of(clients, []).size == 0  # type: ignore[union-attr]
    for wrong in ([4], [3.0], [3, 3], [True], [[3]], None, "all"):
        assert distinct_of(clients, wrong) is None
