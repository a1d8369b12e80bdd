"""The layers of `stacked.py`: each one's computation for the rows of many jobs at once.

Activations are folded, (jobs * rows, ...); `stacked.py` says what a layer must not do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from simfl.learning.kernels.stacked_product import stacked_linear
from simfl.learning.kernels.streams import Streams
from simfl.learning.parameters import Parameters

VECTOR = 64
"""Elementwise kernels compute at least this many elements at once; a shorter rest is computed by
scalar code, whose exp or tanh may differ in the last bit.
"""


@dataclass
class Pass:
    """One forward pass: stacked tensors (jobs, ...), and 1 for each valid row, else 0.

    In `training`, batches are normalised by their own statistics, running statistics are updated,
    and dropout draws from `streams`.
    """

    tensors: Parameters
    valid: Tensor
    training: bool = True
    streams: Streams | None = None
    moved: Parameters = field(default_factory=dict)

    @property
    def jobs(self) -> int:
        """The number of models."""
        return len(self.valid)

    def by_job(self, folded: Tensor) -> Tensor:
        """(jobs * rows, ...) as (jobs, rows, ...)."""
        return folded.view(self.jobs, -1, *folded.shape[1:])

    def dropped(self, values: Tensor, share: float, axis: int = 0, features: int = 0) -> Tensor:
        """Dropout of values (jobs, ...): 0 with probability `share`, otherwise scaled up.

        `axis` is that of the rows, not counting the jobs' axis. If `features` is not 0, only the
        first `features` axes after the rows are drawn, and the other axes are dropped together.
        """
        if not self.training or share == 0.0:
            return values
        assert self.streams is not None
        shape = list(values.shape[1:])
        if features:
            shape[1 + features :] = [1] * len(shape[1 + features :])
        noise = self.streams.kept(values, shape, axis, 1.0 - share)
        return values * noise.div_(1.0 - share)


Layer = Callable[..., Any]
"""layer(pass, activation, ...) -> activation, both folded."""


def plain(function: Callable[..., Any]) -> Layer:
    """A function that runs as it does in the module."""

    def run(_: Pass, *arguments: Any, inplace: bool = False, **settings: Any) -> Any:
        return function(*arguments, **settings)

    return run


def curved(function: Callable[..., Tensor]) -> Layer:
    """An elementwise function; each job's elements are padded to whole vectors."""

    def run(current: Pass, activation: Tensor, *arguments: Any, **settings: Any) -> Tensor:
        settings.pop("inplace", None)
        rows = activation.reshape(current.jobs, -1)
        missing = -rows.shape[1] % VECTOR
        padded = F.pad(rows, (0, missing)) if missing else rows
        values = function(padded, *arguments, **settings)
        return values[:, : rows.shape[1]].reshape(activation.shape)

    return run


def linear(prefix: str, module: nn.Linear) -> Layer:
    """Each job's rows times its own matrix."""

    def run(current: Pass, activation: Tensor) -> Tensor:
        rows = activation.reshape(current.jobs, -1, module.in_features)
        outputs = stacked_linear(
            rows, current.tensors[f"{prefix}.weight"], current.tensors.get(f"{prefix}.bias")
        )
        return outputs.reshape(*activation.shape[:-1], module.out_features)

    return run


def embedding(prefix: str, module: nn.Embedding) -> Layer:
    """Each job's rows, looked up in its own table."""

    def run(current: Pass, indices: Tensor) -> Tensor:
        table = current.tensors[f"{prefix}.weight"]
        of_rows = indices.reshape(current.jobs, -1)
        if bool((of_rows >= module.num_embeddings).any()) or bool((of_rows < 0).any()):
            raise IndexError(f"{prefix}: a token is none of 0 to {module.num_embeddings - 1}")
        first = torch.arange(current.jobs, device=indices.device) * module.num_embeddings
        missing = module.padding_idx
        found = F.embedding(of_rows + first.unsqueeze(1), table.flatten(0, 1))
        if missing is not None:  # its entry gets no gradient
            found = torch.where((of_rows == missing).unsqueeze(2), found.detach(), found)
        return found.view(*indices.shape, module.embedding_dim)

    return run


def layer_norm(prefix: str, module: nn.LayerNorm) -> Layer:
    """Normalisation of each row's last axes, with each job's own scale and shift."""
    shape = module.normalized_shape

    def run(current: Pass, activation: Tensor) -> Tensor:
        outputs = F.layer_norm(activation, shape, None, None, module.eps)
        if not module.elementwise_affine:
            return outputs
        rows = outputs.reshape(current.jobs, -1, *shape)
        rows = rows * current.tensors[f"{prefix}.weight"].unsqueeze(1)
        if (bias := current.tensors.get(f"{prefix}.bias")) is not None:
            rows = rows + bias.unsqueeze(1)
        return rows.reshape(activation.shape)

    return run


def group_norm(prefix: str, module: nn.GroupNorm) -> Layer:
    """Normalisation of each row's groups of channels, with each job's own scale and shift."""

    def run(current: Pass, activation: Tensor) -> Tensor:
        outputs = F.group_norm(activation, module.num_groups, None, None, module.eps)
        if not module.affine:
            return outputs
        places = [1] * (activation.dim() - 2)
        rows = current.by_job(outputs)
        weight, bias = (current.tensors[f"{prefix}.{name}"] for name in ("weight", "bias"))
        rows = rows * weight.view(current.jobs, 1, -1, *places)
        return (rows + bias.view(current.jobs, 1, -1, *places)).flatten(0, 1)

    return run


def dropout(share: float, features: int = 0) -> Layer:
    """Dropout of each job's rows, drawn from the job's own stream."""

    def run(current: Pass, activation: Tensor, *_: Any, **__: Any) -> Tensor:
        rows = current.by_job(activation)
        return current.dropped(rows, share, features=features).flatten(0, 1)

    return run


def batch_norm(prefix: str, module: _BatchNorm) -> Layer:
    """Normalisation over each job's valid rows, with the job's own running statistics.

    As in torch, the batch is normalised by the biased variance, and the running variance uses the
    unbiased one. In evaluation, running statistics are used if there are any.
    """

    def run(current: Pass, activation: Tensor) -> Tensor:
        # (jobs, rows, channels, positions); a fully connected layer has one position
        values = activation.reshape(*current.valid.shape, module.num_features, -1)
        valid = current.valid[:, :, None, None]
        by_batch = current.training or not module.track_running_stats
        count = (current.valid.sum(1) * values.shape[3]).view(-1, 1, 1, 1)
        if by_batch:
            mean = (values * valid).sum((1, 3), keepdim=True) / count.clamp(min=1)
        else:
            mean = current.tensors[f"{prefix}.running_mean"][:, None, :, None]
        centred = values - mean
        if by_batch:
            variance = (centred * centred * valid).sum((1, 3), keepdim=True) / count.clamp(min=1)
        else:
            variance = current.tensors[f"{prefix}.running_var"][:, None, :, None]
        outputs = centred / (variance + module.eps).sqrt()
        if module.affine:
            weight = current.tensors[f"{prefix}.weight"][:, None, :, None]
            outputs = outputs * weight + current.tensors[f"{prefix}.bias"][:, None, :, None]
        if current.training and module.track_running_stats:
            unbiased = variance * (count / (count - 1).clamp(min=1))
            _move_statistics(
                current, prefix, module.momentum, mean[:, 0, :, 0], unbiased[:, 0, :, 0]
            )
        return outputs.reshape(activation.shape)

    return run


def _move_statistics(
    current: Pass, prefix: str, momentum: float | None, mean: Tensor, variance: Tensor
) -> None:
    """Running statistics after one more batch (momentum None: their plain average so far)."""
    held = {**current.tensors, **current.moved}
    batches = held[f"{prefix}.num_batches_tracked"] + 1
    share: Any = momentum if momentum is not None else 1.0 / batches.to(mean.dtype).unsqueeze(1)
    for name, value in (("running_mean", mean), ("running_var", variance)):
        before = held[f"{prefix}.{name}"]
        current.moved[f"{prefix}.{name}"] = (1 - share) * before + share * value.detach()
    current.moved[f"{prefix}.num_batches_tracked"] = batches
