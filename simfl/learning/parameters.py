"""Named tensors: a model's weights, a gradient, an optimizer's buffers.

A `Parameters` is a plain dict from tensor name to tensor. In a *stacked* one every tensor has a
leading job axis, one slice per client job that is trained together with the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

Parameters = dict[str, Tensor]

BYTES_PER_VALUE = 4
"""What one value costs on the wire (float32), whatever precision the simulation computes in."""


def size_bytes(values: Mapping[str, Tensor]) -> int:
    """Bytes of `values` as float32 on the wire, before any codec."""
    return BYTES_PER_VALUE * sum(tensor.numel() for tensor in values.values())


def add(base: Mapping[str, Tensor], delta: Mapping[str, Tensor], scale: float = 1.0) -> Parameters:
    """`base + scale * delta` for the tensors that `delta` names; the others unchanged."""
    return {**base, **{name: base[name] + scale * step for name, step in delta.items()}}


def weighted_sum(members: Sequence[Mapping[str, Tensor]], weights: Iterable[float]) -> Parameters:
    """`sum_i weights_i * members_i`, tensor by tensor, in the order given.

    Integer tensors (BatchNorm's step counter) have no mean: the first member's is taken.
    """
    shares = list(weights)
    result: Parameters = {}
    for name, first in members[0].items():
        if first.is_floating_point():
            share = torch.tensor(shares, dtype=first.dtype, device=first.device)
            stacked = torch.stack([member[name] for member in members])
            result[name] = (stacked * share.view(-1, *[1] * first.dim())).sum(0)
        else:
            result[name] = first
    return result


def squared_distance(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> Tensor:
    """`||left - right||^2` per job of two stacked parameters, over `left`'s names: (jobs,)."""
    return torch.stack(
        [((tensor - right[name]) ** 2).flatten(1).sum(1) for name, tensor in left.items()]
    ).sum(0)


def all_finite(values: Mapping[str, Tensor]) -> bool:
    """Whether no tensor holds a NaN or an infinity."""
    return all(bool(torch.isfinite(tensor).all()) for tensor in values.values())


def per_job_view(per_job: Tensor, tensor: Tensor) -> Tensor:
    """One value per job, shaped to broadcast over a stacked tensor."""
    return per_job.view(-1, *[1] * (tensor.dim() - 1))
