"""Random draws of jobs that are trained together, each from its own generator.

The draws are those that the module itself would make for the job's rows alone, in the same order,
so they depend neither on the other jobs nor on padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Streams:
    """A generator per job, each seeded for this step, and how many of its `rows` are valid."""

    generators: Sequence[torch.Generator]
    counts: Sequence[int]
    rows: int

    def kept(self, like: Tensor, shape: Sequence[int], axis: int, share: float) -> Tensor:
        """1 with probability `share`, else 0, per job: (jobs, *shape), of `like`'s type.

        `axis` is that of a job's rows in `shape`; padding gets 0 and takes no draw.
        """
        found = like.new_zeros(len(self.generators), *shape)
        for own, generator, count in zip(found, self.generators, self.counts, strict=True):
            if count == self.rows:
                own.bernoulli_(share, generator=generator)
            else:
                valid = own.narrow(axis, 0, count)
                drawn = valid.new_empty(valid.shape).bernoulli_(share, generator=generator)
                valid.copy_(drawn)
        return found
