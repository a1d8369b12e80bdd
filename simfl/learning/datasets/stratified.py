"""Stratified draws: every class keeps its share."""

from __future__ import annotations

import torch
from torch import Tensor

from simfl.learning.datasets.base import Examples


def stratified_rows(targets: Tensor, count: int, seed: int) -> Tensor:
    """`count` random rows in ascending order, every class in proportion to its size.

    `targets`: class indices (rows,), or values (rows, outputs), which are drawn as one class.
    Places left over by rounding down go to the classes with the largest remainders. Raises
    ValueError if `count` is not in 0..rows.
    """
    rows = len(targets)
    if not 0 <= count <= rows:
        raise ValueError(f"cannot draw {count} of {rows} examples")
    if targets.is_floating_point():
        targets = torch.zeros(rows, dtype=torch.int64)
    sizes = torch.bincount(targets)
    quotas = sizes * count
    taken = quotas // max(rows, 1)
    remainders = quotas - taken * rows
    left = count - int(taken.sum())
    taken[torch.argsort(remainders, descending=True, stable=True)[:left]] += 1

    generator = torch.Generator().manual_seed(seed)
    shuffled = torch.randperm(rows, generator=generator)
    labels = targets[shuffled]
    chosen = [shuffled[labels == label][:number] for label, number in enumerate(taken.tolist())]
    return torch.cat(chosen).sort().values if chosen else shuffled


def stratified_split(examples: Examples, share: float, seed: int) -> tuple[Examples, Examples]:
    """(the rest, a stratified `share`) of `examples`; `share` in [0, 1], rounded to whole rows."""
    held = stratified_rows(examples.targets, round(share * len(examples)), seed)
    rest = torch.ones(len(examples), dtype=torch.bool)
    rest[held] = False
    return examples.take(rest.nonzero().squeeze(1)), examples.take(held)
