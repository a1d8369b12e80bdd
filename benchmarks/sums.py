"""What does a mean of models cost whose bits do not depend on how the models are grouped?

    python benchmarks/sums.py [--members 20] [--repeats 30]

simfl's weighted mean against two plain sums, one member after the other: by torch, in place, each
times its share in one step, and as numpy writes it (`total += share * member`). One thread, the
alternatives alternating; the medians of the ratios are what counts, and times are CPU seconds.
Goal: at most 1.3 of the plain sum by torch from 100,000 values on.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from simfl.learning.allocation import keep_freed_memory
from simfl.learning.sums import shares, weighted_mean

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)


def by_torch(members: list[Tensor], weights: list[float]) -> Tensor:
    """The plain sum in place."""
    total = members[0] * weights[0]
    for one, weight in zip(members[1:], weights[1:], strict=True):
        total.add_(one, alpha=weight)
    return total


def by_numpy(members: list[Tensor], weights: list[float]) -> np.ndarray:
    """The plain sum as an expression of arrays."""
    total = members[0].numpy() * np.float32(weights[0])
    for one, weight in zip(members[1:], weights[1:], strict=True):
        total += one.numpy() * np.float32(weight)
    return total


def seconds(call: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    began = time.process_time()
    call()
    return time.process_time() - began


def main() -> None:
    """Print a table: a row per number of values."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=30)
    given = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    print(f"{given.members} members   ns per value   of torch's   of numpy's")
    for size in SIZES:
        members = [torch.randn(size) for _ in range(given.members)]
        sizes = [100 + 7 * place for place in range(given.members)]
        weights, models = shares(sizes), [{"weight": one} for one in members]
        calls = (
            partial(weighted_mean, models, sizes),
            partial(by_torch, members, weights),
            partial(by_numpy, members, weights),
        )
        repeats = max(3, min(given.repeats, 10**7 * given.repeats // (20 * size)))
        rows = [[seconds(call) for call in calls] for _ in range(repeats)]
        ours = statistics.median(own for own, _, _ in rows) / size / given.members * 1e9
        torchs = statistics.median(own / other for own, other, _ in rows)
        numpys = statistics.median(own / other for own, _, other in rows)
        print(f"{size:10,d} {ours:14.2f} {torchs:12.2f} {numpys:12.2f}", flush=True)


if __name__ == "__main__":
    main()
