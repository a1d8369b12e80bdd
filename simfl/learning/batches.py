"""The rows of a client's data in each training step: a pure function of the job."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from simfl.learning.job import LocalTraining, RecipeKind


def plan_order(
    seed: int,
    num_examples: int,
    local: LocalTraining,
    kind: RecipeKind = "train",
    smallest: int = 1,
    generator: torch.Generator | None = None,
) -> tuple[list[Tensor], list[int]]:
    """Row indices (int64, on the CPU) of a job with this seed, pass after pass, and the step sizes.

    Training goes through the shard in passes; a pass is a fresh permutation cut into batches, of
    which the last may be short. `local.epochs` counts passes, `local.steps` batches (over as many
    passes as needed); `local.share` stands for share * examples / `batch_size` batches, rounded, at
    least one and at most one pass. `batch_size` None makes one batch of the whole shard, in its own
    order. A gradient job goes through the shard once, in order, in pieces of `batch_size` rows;
    with `local.steps` or `local.share`, it uses the batches that training would use.

    Batches of fewer than `smallest` rows are left out (BatchNorm has no variance of one row). The
    generator is seeded here, so that jobs planned together can share one. The sizes are shared with
    other jobs, and must not be changed. Raises ValueError if no batch is left.
    """
    passes = _passes(num_examples, local, kind, smallest)
    generator = (generator or torch.Generator()).manual_seed(seed)
    if passes.shuffled:
        orders = [torch.randperm(num_examples, generator=generator) for _ in range(passes.count)]
    else:
        orders = [torch.arange(num_examples)] * passes.count
    if passes.rows < num_examples:
        orders = [one[: passes.rows] for one in orders]
    if passes.rows_of_last < passes.rows:
        orders[-1] = orders[-1][: passes.rows_of_last]
    return orders, passes.steps


@dataclass(frozen=True)
class _Passes:
    """The passes of a job through its data; `steps` are the sizes of its batches."""

    count: int
    rows: int
    rows_of_last: int
    steps: list[int]
    shuffled: bool


@lru_cache(maxsize=1024)
def _passes(num_examples: int, local: LocalTraining, kind: RecipeKind, smallest: int) -> _Passes:
    """What all jobs of one recipe and number of examples have in common."""
    rows = local.batch_size or max(num_examples, 1)
    if min(rows, num_examples) < smallest:
        raise ValueError(
            f"batch_size: {num_examples} examples in batches of {rows} give no batch of at least "
            f"{smallest} (one for any model, two for one with BatchNorm)"
        )
    full, rest = divmod(num_examples, rows)
    sizes = [rows] * full + ([rest] if rest >= max(smallest, 1) else [])
    steps = local.steps
    if local.share is not None:
        steps = min(max(1, round(local.share * num_examples / rows)), len(sizes))
    if steps is not None:
        count = -(-steps // len(sizes))
    else:
        count = 1 if kind == "gradient" else local.epochs or 1
    taken, used = (sizes * count)[:steps], sum(sizes)
    return _Passes(
        count,
        used,
        sum(taken) - (count - 1) * used,
        taken,
        shuffled=local.batch_size is not None and (kind == "train" or local.counts_steps()),
    )


def padded_rows(num_examples: int, batch_size: int | None) -> int:
    """The number of rows in a job's stacked batches, padding included.

    It depends on the job alone, because padding can change the last bit of a sum. Full batches are
    not padded; smaller shards are rounded up to multiples of an eighth of the next power of two (at
    least 8 rows), so that clients of similar size can be trained together.
    """
    step = max(8, (1 << (num_examples - 1).bit_length()) // 8)
    rounded = -(-num_examples // step) * step
    return rounded if batch_size is None else min(batch_size, rounded)


def step_seed(seed: int, step: int) -> int:
    """A 63-bit seed for the random draws of one step (augmentation, dropout)."""
    digest = hashlib.blake2b(f"{seed}/{step}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
