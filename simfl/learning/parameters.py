"""Named tensors: a model's weights, a gradient, an optimizer's buffers.

A `Parameters` is a plain dict from tensor name to tensor. In a *stacked* one every tensor has a
leading job axis, one slice per client job that is trained together with the others.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

Parameters = dict[str, Tensor]

BYTES_PER_VALUE = 4
"""The size of a value on the wire (float32), whatever precision the simulation computes in."""


def size_bytes(values: Mapping[str, Tensor]) -> int:
    """Bytes of `values` as float32 on the wire, before any codec."""
    return BYTES_PER_VALUE * sum(tensor.numel() for tensor in values.values())


def add(base: Mapping[str, Tensor], delta: Mapping[str, Tensor], scale: float = 1.0) -> Parameters:
    """`base + scale * delta` for the tensors that `delta` names; the others unchanged."""
    return {**base, **{name: base[name] + scale * step for name, step in delta.items()}}


def squared_distance(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> Tensor:
    """`||left - right||^2` per job of two stacked parameters, over `left`'s names: (jobs,)."""
    pairs = [one for name, tensor in left.items() for one in (tensor, right[name])]
    distance: Tensor = _SquaredDistance.apply(*pairs)  # type: ignore[no-untyped-call]
    return distance


class _SquaredDistance(torch.autograd.Function):
    """Squared distance of pairs of tensors, in half the passes that autograd needs."""

    @staticmethod
    def forward(ctx: Any, *pairs: Tensor) -> Tensor:
        ctx.save_for_backward(*pairs)
        ctx.moved = [left - right for left, right in zip(pairs[::2], pairs[1::2], strict=True)]
        each = [torch.linalg.vector_norm(one.flatten(1), dim=1) for one in ctx.moved]
        return torch.stack(each).square_().sum(0)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        pairs, moved = ctx.saved_tensors, ctx.moved
        if torch.is_grad_enabled():  # a second derivative needs the graph of these differences
            moved = [left - right for left, right in zip(pairs[::2], pairs[1::2], strict=True)]
        found: list[Tensor | None] = []
        needs = zip(ctx.needs_input_grad[::2], ctx.needs_input_grad[1::2], strict=True)
        for one, (left, right) in zip(moved, needs, strict=True):
            step = per_job_view(2 * slope, one) * one if left or right else None
            found += [step if left else None, -step if right and step is not None else None]
        return tuple(found)


class Source(Protocol):
    """Holds tensors that another process has computed."""

    def fetched(self, one: Elsewhere) -> Parameters:
        """The tensors."""

    def has(self, one: Elsewhere) -> bool:
        """Whether the tensors are still available."""

    def partial_sums(
        self, weights: Sequence[float], members: Mapping[int, Elsewhere]
    ) -> Sequence[Any]:
        """Parts of a sum with these weights (`sums.PartialSum`) that contain these members."""


class Elsewhere(dict[str, Tensor]):
    """Named tensors that are fetched from elsewhere when one of them is used.

    `at` is their location in the `source`; `finite` tells whether they are free of NaN and
    infinity.
    """

    def __init__(self, source: Source, at: Any, *, finite: bool) -> None:
        super().__init__()
        self.source = source
        self.at = at
        self.finite = finite
        self.here = False

    def _fill(self) -> Elsewhere:
        if not self.here:
            found = self.source.fetched(self)
            self.here, self.at = True, None
            super().update(found)
        return self

    def __getitem__(self, name: str) -> Tensor:
        return dict.__getitem__(self._fill(), name)

    def __iter__(self) -> Iterator[str]:
        return dict.__iter__(self._fill())

    def __len__(self) -> int:
        return dict.__len__(self._fill())

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self._fill(), name)

    def __or__(self, other: Any) -> Any:
        return dict(self._fill()) | other

    def __ror__(self, other: Any) -> Any:
        return other | dict(self._fill())

    def __reduce__(self) -> Any:
        return dict, (dict(self._fill()),)

    def get(self, name: str, default: Any = None) -> Any:
        """As of a dict."""
        return dict.get(self._fill(), name, default)

    def keys(self) -> Any:
        """As of a dict."""
        return dict.keys(self._fill())

    def values(self) -> Any:
        """As of a dict."""
        return dict.values(self._fill())

    def items(self) -> Any:
        """As of a dict."""
        return dict.items(self._fill())

    def copy(self) -> Parameters:
        """As of a dict."""
        return dict(self._fill())


def all_finite(values: Mapping[str, Tensor]) -> bool:
    """Whether no tensor contains a NaN or an infinity."""
    if isinstance(values, Elsewhere):
        return values.finite
    return all(map(_finite, values.values()))


def _finite(tensor: Tensor) -> bool:
    """Whether all values are finite, usually found in one pass.

    A sum that is not finite may be an overflow. Then 0 times the values is summed, which is NaN
    only for NaN and infinity."""
    return cmath.isfinite(tensor.sum().item()) or not bool((0 * tensor).sum().isnan())


def per_job_view(per_job: Tensor, tensor: Tensor) -> Tensor:
    """One value per job, shaped to broadcast over a stacked tensor."""
    return per_job.view(-1, *[1] * (tensor.dim() - 1))


def stack(
    members: Sequence[Parameters], names: Sequence[str] | None = None, *, share: bool = False
) -> Parameters:
    """Stacks jobs' tensors by name; with `share`, a view where all jobs have the same tensor."""
    stacked: Parameters = {}
    for name in members[0] if names is None else names:
        column = [member[name] for member in members]
        if all(tensor is column[0] for tensor in column):
            same = column[0].expand(len(column), *column[0].shape)
            stacked[name] = same if share else same.clone(memory_format=torch.contiguous_format)
        else:
            stacked[name] = torch.stack(column)
    return stacked


def unstack(
    stacked: Parameters, *, share: bool = False, stays: Collection[str] = ()
) -> list[Parameters]:
    """Each job's slices as tensors of its own; with `share`, views, which keep the stack alive.

    Tensors named in `stays` share no memory with the job's other tensors, and so do not keep them
    alive, or in files.
    """
    tensors = {name: tensor.detach() for name, tensor in stacked.items()}
    if not share and any(one.device.type != "cpu" for one in tensors.values()):
        return _each_in_one(tensors, stays)
    taken: Callable[[Tensor], Any] = torch.unbind if share else torch.unbind_copy
    columns = [taken(tensor) for tensor in tensors.values()]
    return [dict(zip(stacked, row, strict=True)) for row in zip(*columns, strict=True)]


PLACE_BYTES = 512
"""An accelerator's allocator aligns tensors to multiples of this."""


def _each_in_one(stacked: Parameters, stays: Collection[str]) -> list[Parameters]:
    """Each job's slices, as parts of one tensor per data type (two with `stays`).

    On an accelerator, launching a copy takes longer than the copy: copying a job's whole model
    takes as long as copying one bias.
    """
    apart: Callable[[Tensor], Any] = torch.unbind_copy
    jobs: list[Parameters] = [{} for _ in next(iter(stacked.values()), ())]
    kinds: dict[tuple[torch.dtype, bool], list[str]] = {}
    for name, tensor in stacked.items():
        kinds.setdefault((tensor.dtype, name in stays), []).append(name)
    for (dtype, _), names in kinds.items():
        flat = [stacked[name].reshape(len(jobs), -1) for name in names]
        step = PLACE_BYTES // dtype.itemsize
        sizes = [-(-one.shape[1] // step) * step for one in flat]
        padded = [
            F.pad(one, (0, size - one.shape[1])) for one, size in zip(flat, sizes, strict=True)
        ]
        for own, whole in zip(jobs, apart(torch.cat(padded, 1)), strict=True):
            for name, part in zip(names, whole.split(sizes), strict=True):
                shape = stacked[name].shape[1:]
                own[name] = part[: shape.numel()].view(shape)
    return [{name: own[name] for name in stacked} for own in jobs]
