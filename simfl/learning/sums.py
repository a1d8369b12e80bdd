"""Weighted sums and means of models, bit-identical for any grouping of their members.

A sum is a tree over its members in canonical order: of four neighbours, the second is added to the
first, then the third, then the fourth; the sums of four such branches are added in the same way,
and so on upwards. A `PartialSum` holds some of the members, added as far as possible, and partial
sums can be merged in any order: an addition always has the same two operands, whoever held them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simfl.learning.parameters import Elsewhere, Parameters

SUMS = "tree of 4"
"""The method that determines the last bits of a sum, for the keys of stored results."""

FAN = 4
"""Branches per node. Fewer let sums of a few neighbours become complete branches sooner; but with
two, every other addition would need a buffer of its own, and sums take half as long again.
"""

FEW_VALUES = 1 << 12
"""Tensors up to this size are added together, as one row of a matrix per member."""

PIECE_VALUES = 1 << 17
"""The piece of larger tensors that is added at a time, so that sums stay in the cache."""

MOST_AT_ONCE = 64
"""The largest number of members added at a time; each has a row of the matrix."""

Branch = tuple[int, int]
"""Level and place in the tree: FAN^level members (or fewer) from place * FAN^level on."""


def weighted_sum(members: Sequence[Parameters], weights: Iterable[float]) -> Parameters:
    """`sum_i weights_i * members_i`, tensor by tensor, members in canonical order."""
    whole = PartialSum(weights)
    here: dict[int, Parameters] = {}
    elsewhere: dict[int, dict[int, Elsewhere]] = {}
    for place, one in enumerate(members):
        if isinstance(one, Elsewhere) and not one.here:
            elsewhere.setdefault(id(one.source), {})[place] = one
        else:
            here[place] = one
    for lying in elsewhere.values():  # only their sums are fetched
        for part in next(iter(lying.values())).source.partial_sums(whole.weights, lying):
            whole.merge(part)
    whole.add(here)
    return whole.total()


def weighted_mean(members: Sequence[Parameters], weights: Iterable[float]) -> Parameters:
    """`sum_i weights_i * members_i / sum_i weights_i`: `weighted_sum` with normalised weights.

    The mean of a single member is that member itself, with the same tensors.
    """
    return weighted_sum(members, shares(weights))


def shares(weights: Iterable[float]) -> list[float]:
    """Weights divided by their sum, for a mean; raises ValueError if the sum is 0."""
    each = [float(weight) for weight in weights]
    whole = math.fsum(each)
    if whole == 0.0:
        raise ValueError("there is no mean: the weights sum to 0")
    return [weight / whole for weight in each]


class PartialSum:
    """Some of the members of `sum_i weights_i * members_i`.

    `weights` are those of all members of the whole sum, in canonical order; `held` are the places
    of the members added so far, by `add` and `merge`. Integer tensors (BatchNorm's step counter)
    are not summed: the first member's are used.
    """

    def __init__(self, weights: Iterable[float]) -> None:
        self.weights = [float(weight) for weight in weights]
        self.held: set[int] = set()
        self._top = 0
        while FAN**self._top < len(self.weights):
            self._top += 1
        # Complete branches, and the others with the number of their branches added so far, from the
        # first on.
        self._whole: dict[Branch, _Node] = {}
        self._begun: dict[Branch, tuple[_Node, int]] = {}

    def add(self, members: Mapping[int, Parameters]) -> None:
        """Add members, given by their places; they are only read.

        Raises ValueError for a place that is already held or does not exist.
        """
        self._hold(members)
        for branch, places in self._complete((self._top, 0), sorted(members)):
            weights = self.weights[places.start : places.stop]
            self._put(branch, _Node.of([members[place] for place in places], weights))

    def merge(self, other: PartialSum) -> None:
        """Take over all members of another part of this sum, which is empty afterwards.

        Raises ValueError for parts of different sums, and for members that are in both.
        """
        if not np.array_equal(other.weights, self.weights, equal_nan=True):
            raise ValueError("parts of sums with different weights cannot be merged")
        self._hold(other.held)
        whole, begun = other._emptied()
        for branch, node in whole.items():
            self._put(branch, node)
        for branch, start in begun.items():
            self._begun[branch] = start
            self._join(branch)

    def total(self) -> Parameters:
        """The complete sum, which leaves this one empty; ValueError while members are missing.

        The tensors are new, except for a sum of one member with weight 1, which has the member's
        own.
        """
        missing = sorted(set(range(len(self.weights))) - self.held)
        if missing or not self.weights:
            raise ValueError(f"of {len(self.weights)} members of a sum are missing: {missing}")
        return self._emptied()[0][self._top, 0].total()

    def _emptied(self) -> tuple[dict[Branch, _Node], dict[Branch, tuple[_Node, int]]]:
        whole, begun = self._whole, self._begun
        self.held, self._whole, self._begun = set(), {}, {}
        return whole, begun

    def _hold(self, places: Iterable[int]) -> None:
        new = set(places)
        if strange := sorted(new - set(range(len(self.weights)))):
            raise ValueError(f"a sum of {len(self.weights)} members has no places {strange}")
        if twice := sorted(new & self.held):
            raise ValueError(f"members of a sum were there before: {twice}")
        self.held |= new

    def _members(self, branch: Branch) -> range:
        level, place = branch
        size = FAN**level
        return range(place * size, min((place + 1) * size, len(self.weights)))

    def _complete(self, branch: Branch, places: Sequence[int]) -> Iterator[tuple[Branch, range]]:
        """The largest branches, from this one down, with all members in `places` (sorted)."""
        members = self._members(branch)
        if len(places) == len(members) <= MOST_AT_ONCE and places:
            yield branch, members
        elif places:
            for under in self._under(branch):
                here = self._members(under)
                first, last = (bisect_left(places, end) for end in (here.start, here.stop))
                yield from self._complete(under, places[first:last])

    def _under(self, branch: Branch) -> list[Branch]:
        """The branches directly below a branch."""
        level, place = branch
        under = [(level - 1, FAN * place + number) for number in range(FAN)]
        return [one for one in under if self._members(one)]

    def _put(self, branch: Branch, node: _Node) -> None:
        """Add a complete branch, and join it with others as far as possible."""
        self._whole[branch] = node
        level, place = branch
        if level < self._top:
            self._join((level + 1, place // FAN))

    def _join(self, branch: Branch) -> None:
        """Join the branches below one in their order, up to the first incomplete one."""
        under = self._under(branch)
        node, done = self._begun.pop(branch, (None, 0))
        while done < len(under) and under[done] in self._whole:
            found = self._whole.pop(under[done])
            node, done = found if node is None else node.joined(found), done + 1
        if node is not None and done == len(under):
            self._put(branch, node)
        elif node is not None:
            self._begun[branch] = (node, done)


class _Node:
    """The sum of neighbouring members; the first of them gives names, shapes and integers.

    `rows` are the sums of its small tensors, concatenated, per dtype. `large` has the other tensors
    by name, still to be multiplied by `scale`. So a join takes one pass: one branch is added to the
    other, times the ratio of their scales. With both empty, the node is the first member alone,
    with weight `scale`. Nothing else refers to the tensors in `rows` and `large`.
    """

    def __init__(
        self,
        first: Parameters,
        scale: float,
        rows: Mapping[torch.dtype, Tensor],
        large: Mapping[str, Tensor],
    ) -> None:
        self.first = first
        self.scale = scale
        self.rows = rows
        self.large = large

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled without the first member's values if they are part of the sums."""
        if not self.rows and not self.large:
            return _Node, (self.first, self.scale, self.rows, self.large)
        kept = {
            name: (one.shape, one.dtype) if one.is_floating_point() else one
            for name, one in self.first.items()
        }
        return _sent, (kept, self.scale, self.rows, self.large)

    @staticmethod
    def of(members: Sequence[Parameters], weights: Sequence[float]) -> _Node:
        """The sum of the members of one branch."""
        first = members[0]
        if len(members) == 1:
            return _Node(first, weights[0], {}, {})
        small, large = _names(first)
        rows = {dtype: _added(_matrix(members, names), weights) for dtype, names in small.items()}
        if not large:
            return _Node(first, 1.0, rows, {})
        joins, scale = _joins(weights)
        sums = {name: _joined([_plain(one[name]) for one in members], joins) for name in large}
        return _Node(first, scale, rows, sums)

    def joined(self, other: _Node) -> _Node:
        """The sum of this node and the one that follows; both are used up."""
        small, large = _names(self.first)
        rows = {
            dtype: _added(torch.stack([one._row(dtype, names) for one in (self, other)]))
            for dtype, names in small.items()
        }
        joins, scale = _joins([self.scale, other.scale])
        sums = {}
        for name in large:
            own = self.large.get(name, other.large.get(name))
            sums[name] = _joined([one._large(name) for one in (self, other)], joins, own)
        return _Node(self.first, scale, rows, sums)

    def total(self) -> Parameters:
        """The node's sum."""
        result = dict(self.first)
        if not self.rows and not self.large:
            if self.scale != 1.0:
                numbers = {n: one for n, one in result.items() if one.is_floating_point()}
                result |= {name: one * self.scale for name, one in numbers.items()}
            return result
        for name, values in self.large.items():
            result[name] = values.mul_(self.scale)
        for dtype, names in _names(self.first)[0].items():
            if len(names) == 1:
                result[names[0]] = self.rows[dtype].view(self.first[names[0]].shape)
                continue
            sizes = [self.first[name].numel() for name in names]
            for name, values in zip(names, torch.split(self.rows[dtype], sizes), strict=True):
                result[name] = values.clone().view(self.first[name].shape)
        return result

    def _row(self, dtype: torch.dtype, names: Sequence[str]) -> Tensor:
        if dtype in self.rows:
            return self.rows[dtype]
        return _added(_matrix([self.first], names), [self.scale])

    def _large(self, name: str) -> Tensor:
        return self.large[name] if name in self.large else _plain(self.first[name])


def _sent(
    kept: Mapping[str, Any],
    scale: float,
    rows: Mapping[torch.dtype, Tensor],
    large: Mapping[str, Tensor],
) -> _Node:
    """A node that was sent: its first member is reduced to integers, shapes and types."""
    first = {
        name: one if isinstance(one, Tensor) else torch.empty(one[0], dtype=one[1], device="meta")
        for name, one in kept.items()
    }
    return _Node(first, scale, rows, large)


def _names(first: Parameters) -> tuple[dict[torch.dtype, list[str]], list[str]]:
    """Names of small tensors, by dtype, and of large ones."""
    small: dict[torch.dtype, list[str]] = {}
    large: list[str] = []
    for name, one in first.items():
        if one.is_floating_point():
            few = one.numel() <= FEW_VALUES
            (small.setdefault(one.dtype, []) if few else large).append(name)
    return small, large


def _matrix(members: Sequence[Parameters], names: Sequence[str]) -> Tensor:
    """The members' small tensors, copied to one row each: (members, values)."""
    columns = [torch.stack([member[name] for member in members]) for name in names]
    flat = [column.view(len(members), column[0].numel()) for column in columns]
    return (flat[0] if len(flat) == 1 else torch.cat(flat, 1)).detach()


def _added(matrix: Tensor, weights: Sequence[float] | None = None) -> Tensor:
    """The weighted sum of the rows of a matrix (branches, values): (values,).

    The matrix is overwritten. numpy has less overhead per call than torch, and rounds products and
    sums in the same way.
    """
    rows: Any = matrix
    if matrix.device.type == "cpu" and matrix.dtype in (torch.float32, torch.float64):
        rows = matrix.numpy()
    with np.errstate(all="ignore"):  # non-finite values are detected when the state is made
        if weights is not None and rows is matrix:
            rows *= matrix.new_tensor(weights).view(-1, 1)
        elif weights is not None:
            rows *= np.array(weights, dtype=rows.dtype)[:, None]
        while len(rows) > 1:
            for number in range(1, min(FAN, len(rows))):
                right = rows[number::FAN]
                left = rows[: FAN * len(right) : FAN]
                left += right
            rows = rows[::FAN]
    return matrix[0].clone()


def _plain(tensor: Tensor) -> Tensor:
    """The tensor in contiguous form: its memory layout must not affect how it is summed."""
    plain = tensor.detach() if tensor.requires_grad else tensor
    return plain if plain.is_contiguous() else plain.contiguous()


LARGEST_RATIO = 2.0**10
"""The largest ratio of a branch's scale to that of the branch to its left, with which it is added
to it.
"""

Join = tuple[int, int, int, float]
"""Left branch (by its first member; it becomes the result), the branch that is added to, the branch
that is added, and its factor.
"""


def _joins(weights: Sequence[float]) -> tuple[list[Join], float]:
    """The joins of neighbouring branches with these scales, and the scale of the result."""
    scales, joins = list(weights), []
    for left, right in _pairs(len(scales)):
        stays = LARGEST_RATIO * abs(scales[left]) >= abs(scales[right])
        one, other = (left, right) if stays else (right, left)
        # Both scales may be 0. A NaN compares as false, and so remains a NaN.
        factor = scales[other] / scales[one] if scales[one] else 0.0
        joins.append((left, one, other, factor))
        scales[left] = scales[one]
    return joins, scales[0]


@lru_cache(maxsize=64)
def _pairs(count: int) -> list[tuple[int, int]]:
    """The first members of both sides of every join in a branch, in the earliest order."""
    pairs: list[tuple[int, int]] = []

    def branch(start: int, size: int) -> None:
        for under in range(start, min(start + size, count), size // FAN) if size > 1 else ():
            branch(under, size // FAN)
            if under > start:
                pairs.append((start, under))

    size = 1
    while size < count:
        size *= FAN
    branch(0, size)
    return pairs


def _joined(column: Sequence[Tensor], joins: Sequence[Join], own: Tensor | None = None) -> Tensor:
    """Tensors joined piece by piece. `own` is one of them that may be overwritten."""
    result = torch.empty_like(column[0]) if own is None else own
    if result.numel() <= PIECE_VALUES:
        _join_piece(result, list(column), joins)
    else:
        flat = [torch.split(one.view(-1), PIECE_VALUES) for one in (result, *column)]
        for place, *values in zip(*flat, strict=True):
            _join_piece(place, values, joins)
    return result


def _join_piece(place: Tensor, values: list[Tensor], joins: Sequence[Join]) -> None:
    """Join pieces of the column, with the result in `place`."""
    spare: list[Tensor] = []
    made: set[int] = set()  # results of joins, which the next one may overwrite
    for left, one, other, factor in joins[:-1]:
        if one in made:
            into = values[one].add_(values[other], alpha=factor)
            if other in made:
                spare.append(values[other])
        else:
            here = values[other] if other in made else None
            into = here if here is not None else spare.pop() if spare else torch.empty_like(place)
            torch.add(values[one], values[other], alpha=factor, out=into)
        values[left] = into
        made.add(left)
    _, one, other, factor = joins[-1]
    torch.add(values[one], values[other], alpha=factor, out=place)
