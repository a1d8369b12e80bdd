"""Stacks of named tensors, and whether they are finite."""

from __future__ import annotations

import pytest
import torch

from simfl.learning import parameters
from simfl.learning.parameters import all_finite, stack, unstack


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


def test_unstacking_gives_back_what_was_stacked() -> None:
    """Tensors of their own, whether the stacked ones were the same or not."""
    models = members(2)
    models[1]["batches"] = models[0]["batches"]

    rows = unstack(stack(models))

    for row, model in zip(rows, models, strict=True):
        assert all(torch.equal(row[name], model[name]) for name in model)
    assert rows[0]["batches"].data_ptr() != rows[1]["batches"].data_ptr()


def test_an_accelerators_way_to_unstack_gives_the_same() -> None:
    """In the same order; contiguous, from a place on that its kernels can begin at."""
    stacked = stack(members(3))

    rows = parameters._each_in_one(stacked, ())

    for row, expected in zip(rows, unstack(stacked), strict=True):
        assert list(row) == list(expected)
        for name, tensor in row.items():
            assert torch.equal(tensor, expected[name])
            assert tensor.is_contiguous()
            assert tensor.storage_offset() * tensor.itemsize % parameters.PLACE_BYTES == 0
            assert tensor.untyped_storage().data_ptr() != stacked[name].untyped_storage().data_ptr()
    assert rows[0]["matrix"].untyped_storage().data_ptr() != (
        rows[1]["matrix"].untyped_storage().data_ptr()
    )


def test_what_stays_keeps_nothing_else_alive() -> None:
    """On an accelerator: a client's private layer is not a part of its whole model's memory."""
    generator = torch.Generator().manual_seed(1)
    shapes = {"body": (40, 30), "head": (10, 30), "bias": (10,)}
    model = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}

    (row,) = parameters._each_in_one(stack([model]), {"head", "bias"})

    where = {name: tensor.untyped_storage().data_ptr() for name, tensor in row.items()}
    assert where["head"] == where["bias"] != where["body"]
    assert all(torch.equal(row[name], model[name]) for name in shapes)


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
