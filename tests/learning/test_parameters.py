"""Sums and stacks of named tensors."""

from __future__ import annotations

import pytest
import torch

from simfl.learning import parameters
from simfl.learning.parameters import all_finite, stack, unstack, weighted_sum


def members(count: int) -> list[dict[str, torch.Tensor]]:
    """Models of one matrix, seen column by column, and one counter."""
    generator = torch.Generator().manual_seed(0)
    return [
        {
            "matrix": torch.randn(7, 30, generator=generator, dtype=torch.float64).t(),
            "batches": torch.tensor(3 + place),
        }
        for place in range(count)
    ]


@pytest.mark.parametrize("few_values", [0, 1000])
def test_weighted_sums(few_values: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares times members, added up, by either way; counters are the first one's."""
    monkeypatch.setattr(parameters, "FEW_VALUES", few_values)
    models, shares = members(3), [0.5, 0.2, 0.3]
    before = [model["matrix"].clone() for model in models]

    found = weighted_sum(models, iter(shares))

    expected = 0.5 * before[0] + 0.2 * before[1] + 0.3 * before[2]
    torch.testing.assert_close(found["matrix"], expected, rtol=0, atol=1e-15)
    assert found["batches"] == 3
    assert all(torch.equal(m["matrix"], b) for m, b in zip(models, before, strict=True))


@pytest.mark.parametrize("few_values", [0, 1000])
def test_how_a_member_lies_in_memory_changes_no_bit(
    few_values: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model read from a file has other strides than the one that was written."""
    monkeypatch.setattr(parameters, "FEW_VALUES", few_values)
    models = [{"matrix": one["matrix"].float()} for one in members(4)]
    copies = [{"matrix": one["matrix"].contiguous()} for one in models]
    assert models[0]["matrix"].stride() != copies[0]["matrix"].stride()

    found, again = (weighted_sum(some, [0.1, 0.2, 0.3, 0.4]) for some in (models, copies))

    assert torch.equal(found["matrix"], again["matrix"])


def test_unstacking_gives_back_what_was_stacked() -> None:
    """Tensors of their own, whether the stacked ones were the same or not."""
    models = members(2)
    models[1]["batches"] = models[0]["batches"]

    rows = unstack(stack(models))

    for row, model in zip(rows, models, strict=True):
        assert all(torch.equal(row[name], model[name]) for name in model)
    assert rows[0]["batches"].data_ptr() != rows[1]["batches"].data_ptr()


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), float("-inf")])
def test_one_value_that_is_not_finite_is_found(wrong: float) -> None:
    """Wherever it stands; sums that overflow, counters and empty tensors are no such value."""
    sound = {
        "large": torch.full((3, 40), 3e38),
        "batches": torch.tensor(2**62),
        "none": torch.empty(0),
    }
    spoilt = sound["large"].clone()
    spoilt[1, 7] = wrong

    assert all_finite(sound)
    assert not all_finite({**sound, "large": spoilt})
