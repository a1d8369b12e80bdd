"""Figures of links as columns, for many messages; and the radio's states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.system.link import Link


@dataclass(frozen=True, eq=False)
class LinkColumns:
    """Figures of some links, one entry each.

    A radio goes idle -> promotion -> active -> tail -> idle: a message that finds it asleep waits
    for the promotion; after a message the radio stays awake for its tail. A message in the tail
    needs no promotion, and restarts the tail. Watts are those beyond idle power, never below 0.
    """

    jitter_sigma: FloatArray
    loss_probability: FloatArray
    promotion_s: FloatArray
    promotion_w: FloatArray
    tail_s: FloatArray
    tail_w: FloatArray

    @classmethod
    def of(cls, links: Sequence[Link]) -> LinkColumns:
        """The columns of `links`, in their order."""
        rows = [
            (
                link.jitter_sigma,
                link.loss_probability,
                link.promotion_s,
                max((link.power_promotion_w or 0.0) - link.power_idle_w, 0.0),
                link.tail_s,
                max((link.power_tail_w or 0.0) - link.power_idle_w, 0.0),
            )
            for link in links
        ]
        return cls(*np.array(rows, dtype=float).T)

    def take(self, index: IntArray | int) -> LinkColumns:
        """One entry per element of `index`, which refers to these columns."""
        columns = (getattr(self, field.name) for field in fields(self))
        return LinkColumns(*(column.take(index) for column in columns))

    def where(self, there: BoolArray) -> LinkColumns:
        """The same, with all figures 0 where `there` is false (no link)."""
        columns = (getattr(self, field.name) for field in fields(self))
        return LinkColumns(*(column * there for column in columns))

    def wake(self, since_s: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Seconds and joules of the promotion before a message, `since_s` after the last one.

        inf stands for no earlier message.
        """
        asleep = np.asarray(since_s, dtype=float) > self.tail_s
        duration_s: FloatArray = np.where(asleep, self.promotion_s, 0.0)
        return duration_s, duration_s * self.promotion_w

    def tail_j(self, gap_s: ArrayLike) -> FloatArray:
        """Joules of the tail within the `gap_s` seconds after a message."""
        joules: FloatArray = np.minimum(np.asarray(gap_s, float), self.tail_s) * self.tail_w
        return joules
