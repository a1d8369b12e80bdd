"""Weighted sums have the same bits however their members are grouped, and in whatever order."""

from __future__ import annotations

import math
import pickle
import random
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from simfl.learning import sums
from simfl.learning.parameters import Parameters
from simfl.learning.sums import FEW_VALUES, PartialSum, shares, weighted_mean, weighted_sum

DTYPES = {32: torch.float32, 64: torch.float64}
ROWS = 5
LARGE = (17, FEW_VALUES // 17 + 2)  # more than FEW_VALUES, and no multiple of a vector


def member(values: Sequence[float], dtype: torch.dtype) -> Parameters:
    """A model of a small matrix, a bias of one value, a large matrix and a counter."""
    some = torch.tensor(values, dtype=dtype)
    count = LARGE[0] * LARGE[1]
    return {
        "small": some.repeat(ROWS).view(ROWS, -1),
        "large": some.repeat(-(-count // len(some)))[:count].view(LARGE),
        "batches": torch.tensor(len(values)),
        "bias": some[:1],
    }


def models(count: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> list[Parameters]:
    """Models of random numbers, small and large tensors."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(count, 97, generator=generator, dtype=torch.float64)
    return [member(row.tolist(), dtype) for row in drawn]


def grouped(
    members: Sequence[Parameters], weights: Sequence[float], groups: int, chance: random.Random
) -> Parameters:
    """The sum by way of so many groups of any members, merged in any order."""
    places = list(range(len(members)))
    chance.shuffle(places)
    parts = []
    for number in range(groups):
        part = PartialSum(weights)
        mine = places[number::groups]
        cut = chance.randint(0, len(mine))
        part.add({place: members[place] for place in mine[:cut]})
        part.add({place: members[place] for place in mine[cut:]})
        parts.append(pickle.loads(pickle.dumps(part)))  # as between processes
    while len(parts) > 1:
        one, other = chance.sample(range(len(parts)), 2)
        parts[one].merge(parts[other])
        del parts[other]
    return parts[0].total()


def same_bits(left: Parameters, right: Parameters) -> bool:
    """Whether all values are the same, down to the signs of zeros; any NaN is like any other."""
    return left.keys() == right.keys() and all(
        _bits(one) == _bits(right[name]) for name, one in left.items()
    )


def _bits(tensor: Tensor) -> bytes:
    plain = (
        tensor.nan_to_num(math.nan, math.inf, -math.inf) if tensor.is_floating_point() else tensor
    )
    return plain.contiguous().numpy().tobytes()


@st.composite
def any_sum(draw: st.DrawFn) -> tuple[list[Parameters], list[float], int, random.Random]:
    """Members of any finite values, denormals and negative zeros too, with any weights."""
    width = draw(st.sampled_from([32, 64]))
    count = draw(st.integers(1, 23))
    values = st.floats(width=width, allow_nan=False, allow_infinity=False) | st.sampled_from(
        [0.0, -0.0, 1.0, -1.0, 2.0**-24, 2.0**-149, 1e-38, 3e38, -3e38, 1 / 3]
    )
    width_of_row = draw(st.integers(1, 9))
    rows = draw(
        st.lists(
            st.lists(values, min_size=width_of_row, max_size=width_of_row),
            min_size=count,
            max_size=count,
        )
    )
    weight = st.integers(0, 600).map(float) | st.floats(-1e30, 1e30) | st.sampled_from([0.0, 1e-30])
    weights = draw(st.lists(weight, min_size=count, max_size=count))
    chance = random.Random(draw(st.integers(0, 2**32)))
    members = [
        member(torch.tensor(row, dtype=DTYPES[width]).tolist(), DTYPES[width]) for row in rows
    ]
    return members, weights, draw(st.integers(1, 7)), chance


@settings(max_examples=50, deadline=None)
@given(any_sum())
def test_groups_change_no_bit(
    one: tuple[list[Parameters], list[float], int, random.Random],
) -> None:
    """Whatever the values, the weights and the groups are, and in whatever order they come."""
    members, weights, groups, chance = one

    found = grouped(members, weights, groups, chance)

    assert same_bits(found, weighted_sum(members, weights))


@pytest.mark.parametrize("groups", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [1, 2, 4, 7, 20, 66])
@pytest.mark.parametrize("dtype", DTYPES.values())
def test_one_two_three_seven_groups(count: int, groups: int, dtype: torch.dtype) -> None:
    """So many random members, in shuffled order, weighted by data size."""
    members, chance = models(count, dtype), random.Random(count)
    weights = shares(chance.randint(20, 600) for _ in members)

    found = [grouped(members, weights, groups, chance) for _ in range(2)]

    assert all(same_bits(one, weighted_sum(members, weights)) for one in found)


def test_adding_up_group_by_group_would_change_bits() -> None:
    """What the tests above are about: plain sums of groups do not agree."""
    members = [one["large"] for one in models(20)]
    weights = shares(range(1, 21))
    terms = [weight * one for weight, one in zip(weights, members, strict=True)]

    halves = sum(terms[:10], torch.zeros(LARGE)) + sum(terms[10:], torch.zeros(LARGE))

    assert not torch.equal(halves, sum(terms, torch.zeros(LARGE)))


@pytest.mark.parametrize(("setting", "value"), [("PIECE_VALUES", 1000), ("MOST_AT_ONCE", 4)])
def test_what_is_done_at_a_time_changes_no_bit(
    setting: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces for the cache, and members for the memory."""
    members, weights = models(20), shares(range(1, 21))
    whole = weighted_sum(members, weights)

    monkeypatch.setattr(sums, setting, value)

    assert same_bits(weighted_sum(members, weights), whole)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-14)])
@pytest.mark.parametrize("few_values", [0, FEW_VALUES, 10**6])
def test_sums_are_those_of_plain_arithmetic(
    dtype: torch.dtype, tolerance: float, few_values: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against one member after the other, in float64; negative weights and a zero included."""
    monkeypatch.setattr(sums, "FEW_VALUES", few_values)
    members, weights = models(11, dtype), [0.5, -0.2, 0.0, 3.0, 1e-3, *[0.1] * 5, -700.0]

    found = weighted_sum(members, iter(weights))

    for name in ("small", "large", "bias"):
        expected = torch.zeros_like(members[0][name], dtype=torch.float64)
        for one, weight in zip(members, weights, strict=True):
            expected += weight * one[name].double()
        error = (found[name].double() - expected).abs().max()
        assert error < tolerance * expected.abs().max()
        assert found[name].dtype == dtype
        assert found[name].shape == members[0][name].shape
    assert found["batches"] == members[0]["batches"]


def test_a_mean_weighs_members_by_their_share() -> None:
    """Members of sizes 3 and 1 have three quarters and one quarter, in both kinds of tensors."""
    members = [member([4.0, 8.0], torch.float64), member([0.0, 16.0], torch.float64)]

    mean = weighted_mean(members, [3, 1])

    assert mean["small"][0].tolist() == [3.0, 10.0]
    assert mean["large"][0, :2].tolist() == [3.0, 10.0]


def test_the_mean_of_one_member_is_that_member() -> None:
    """Its very tensors; beside one that counts nothing its values."""
    one, other = models(2)

    alone = weighted_mean([one], [17])
    beside = weighted_sum([other, one], [0.0, 1.0])

    assert all(alone[name] is tensor for name, tensor in one.items())
    assert all(torch.equal(beside[name], one[name]) for name in ("small", "large", "bias"))


def test_members_stay_as_they_are_and_sums_are_ones_own() -> None:
    """A sum is written to by nobody else, and writes to nothing that it was given."""
    members = models(6)
    before = pickle.dumps([{n: t.clone() for n, t in one.items()} for one in members])
    whole = PartialSum([1.0] * 6)
    whole.add({0: members[0], 1: members[1]})
    rest = PartialSum([1.0] * 6)
    rest.add(dict(enumerate(members[2:], start=2)))
    whole.merge(rest)

    total = whole.total()
    for tensor in total.values():
        tensor.zero_()

    kept = pickle.loads(before)
    for one, was in zip(members[1:], kept[1:], strict=True):
        assert same_bits(one, was)
    assert all(torch.equal(members[0][n], kept[0][n]) for n in ("small", "large", "bias"))
    storages = [tensor.untyped_storage().data_ptr() for tensor in total.values()]
    assert len(set(storages)) == len(storages)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("weight", [0.1, 0.0])
def test_what_is_not_finite_stays_visible(wrong: float, weight: float) -> None:
    """A diverged member cannot hide, in a group of its own or not, not even without a weight."""
    members, weights = models(9), [0.1] * 9
    weights[4] = weight
    for name in ("small", "large"):
        members[4][name] = members[4][name].clone()
        members[4][name][1, 2] = wrong
        found = [grouped(members, weights, groups, random.Random(0))[name] for groups in (1, 9)]

        assert not any(bool(one[1, 2].isfinite()) for one in found)
        assert all(bool(one[0, 0].isfinite()) for one in found)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_weight_that_is_not_finite_spoils_the_sum(wrong: float) -> None:
    """In groups, too."""
    members, weights = models(9), [0.1] * 8 + [wrong]

    found = [grouped(members, weights, groups, random.Random(0)) for groups in (1, 3)]

    assert same_bits(*found)
    assert not any(bool(found[0][name].isfinite().any()) for name in ("small", "large"))


@pytest.mark.parametrize("piece_values", [1000, 10**6])
def test_how_a_member_lies_in_memory_changes_no_bit(
    piece_values: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model read from a file has other strides than the one that was written."""
    monkeypatch.setattr(sums, "PIECE_VALUES", piece_values)
    members = models(4)
    turned = [
        {name: one.t().contiguous().t() if one.dim() == 2 else one for name, one in model.items()}
        for model in members
    ]
    assert turned[0]["large"].stride() != members[0]["large"].stride()

    assert same_bits(
        weighted_sum(turned, [0.1, 0.2, 0.3, 0.4]), weighted_sum(members, [0.1, 0.2, 0.3, 0.4])
    )


def test_weights_of_nothing_sum_to_nothing() -> None:
    """Whatever the members' size: not infinity times 0."""
    huge = [member([3e38, -3e38], torch.float32)] * 5

    found = weighted_sum(huge, [0.0] * 5)

    assert not any(bool(found[name].any()) for name in ("small", "large"))


def test_values_that_numpy_does_not_know_are_added_up_by_torch() -> None:
    """As on an accelerator: the same bits in groups, and the mean to the values' precision."""
    members, weights = models(9, torch.bfloat16), [1 / 9] * 9

    whole, parts = (grouped(members, weights, groups, random.Random(0)) for groups in (1, 3))

    assert all(torch.equal(tensor, parts[name]) for name, tensor in whole.items())
    mean = torch.stack([one["small"] for one in members]).double().mean(0)
    assert (whole["small"].double() - mean).abs().max() < 0.02


def test_models_of_integers_or_nothing_have_a_sum() -> None:
    """The first one's integers; an empty tensor stays one."""
    counters = [{"batches": torch.tensor(3 + place), "none": torch.empty(0)} for place in range(3)]

    found = weighted_mean(counters, [1, 1, 1])

    assert found["batches"] == 3
    assert found["none"].numel() == 0
    assert weighted_mean([{}, {}], [1, 1]) == {}


def test_a_sum_says_what_is_wrong_with_it() -> None:
    """Members twice, missing or too many; parts of other sums; a mean of nothing."""
    one, other = models(2)
    part = PartialSum([1.0, 2.0])
    part.add({1: other})
    again = PartialSum([1.0, 2.0])
    again.add({1: other})

    with pytest.raises(ValueError, match=r"missing: \[0\]"):
        part.total()
    with pytest.raises(ValueError, match=r"there before: \[1\]"):
        part.add({1: other})
    with pytest.raises(ValueError, match=r"there before: \[1\]"):
        part.merge(again)
    with pytest.raises(ValueError, match=r"has no places \[2\]"):
        part.add({2: one})
    with pytest.raises(ValueError, match="different weights"):
        part.merge(PartialSum([2.0, 1.0]))
    with pytest.raises(ValueError, match="weights sum to 0"):
        weighted_mean([one, other], [1, -1])
    with pytest.raises(ValueError, match="of 0 members"):
        weighted_sum([], [])

    part.add({0: one})
    assert part.held == {0, 1}
    assert same_bits(part.total(), weighted_sum([one, other], [1.0, 2.0]))
    assert not part.held
