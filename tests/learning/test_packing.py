"""What is packed comes out again, sharing what it shared and no more."""

from __future__ import annotations

import torch

from simfl.learning.workers.packing import ALIGNMENT, pack, unpack, write


def test_objects_come_back_and_shared_tensors_stay_one() -> None:
    """Two objects that share a tensor; dtypes, shapes and everything else are unchanged."""
    common = torch.arange(6.0).view(2, 3)
    values = [
        {"common": common, "own": torch.tensor([1, 2], dtype=torch.int64), "name": "a"},
        {"common": common, "own": torch.ones(2, 3, dtype=torch.float64).t(), "name": "b"},
    ]
    header, layout, tensors, size = pack(values)
    flat = torch.empty(size, dtype=torch.uint8)
    write(flat, layout, tensors)

    first, second = unpack(header, layout, flat)

    assert first["common"] is second["common"] and torch.equal(first["common"], common)
    for found, value in ((first, values[0]), (second, values[1])):
        assert found["name"] == value["name"]
        assert torch.equal(found["own"], value["own"]) and found["own"].dtype == value["own"].dtype


def test_every_shape_and_type_comes_back_as_it_was() -> None:
    """Side by side in one run, whatever the widths of their values; by chance none is equal."""
    sent = [
        torch.rand(3, 1, 5),
        torch.tensor(7),
        torch.empty(2, 0, 3),
        torch.tensor([True, False, True]),
        torch.rand(4, dtype=torch.float64),
        torch.rand(2, 3).to(torch.bfloat16),
        torch.rand(5, 4)[:, 1:3],
        torch.rand(2, requires_grad=True),
    ]
    header, layout, tensors, size = pack([sent])
    flat = torch.empty(size + 3, dtype=torch.uint8)
    write(flat, layout, tensors)

    for share in (False, True):
        (found,) = unpack(header, layout, flat, share=share)
        for one, other in zip(found, sent, strict=True):
            assert torch.equal(one, other) and one.dtype == other.dtype
            assert one.is_contiguous() and not one.requires_grad
            assert one.stride() == other.contiguous().stride()


def test_an_object_keeps_no_other_alive() -> None:
    """An object's tensors are one piece of memory, of its own."""
    values = [[torch.zeros(1000), torch.ones(10)], [torch.zeros(1000)], "no tensor"]
    header, layout, tensors, size = pack(values)
    flat = torch.empty(size, dtype=torch.uint8)
    write(flat, layout, tensors)

    (large, small), (other,), text = unpack(header, layout, flat)
    flat.fill_(255)

    assert large.untyped_storage().data_ptr() == small.untyped_storage().data_ptr()
    assert 4000 <= other.untyped_storage().nbytes() < 4000 + ALIGNMENT
    assert small.eq(1).all() and large.eq(0).all() and text == "no tensor"


def test_shared_tensors_are_views() -> None:
    """With `share` nothing is copied."""
    header, layout, tensors, size = pack([torch.zeros(4)])
    flat = torch.zeros(size, dtype=torch.uint8)
    write(flat, layout, tensors)

    (found,) = unpack(header, layout, flat, share=True)
    found.fill_(1.0)

    assert flat.any()
