"""Capped CPU frequencies, to save energy or for what-if questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.decisions.base import Allocation
from simfl.decisions.views import ClientView


@dataclass(frozen=True)
class Capped(Allocation):
    """The highest frequency of each device up to a cap: in Hz, or as a share of its maximum.

    `{name: capped, share: 0.6}` slows a Raspberry Pi and a Jetson down by the same factor.
    """

    looks_at: ClassVar[frozenset[str] | None] = frozenset({"frequency_max_hz"})
    at_most: ClassVar[bool] = True

    frequency_hz: Annotated[
        float | None,
        "> 0",
        "the cap: no client computes faster, unless its lowest frequency is above it",
    ] = None
    share: Annotated[
        float | None,
        "> 0",
        "<= 1",
        "the cap as a share of each client's highest frequency, instead of frequency_hz",
    ] = None

    def __post_init__(self) -> None:
        if (self.frequency_hz is None) == (self.share is None):
            raise ValueError("frequency_hz: give one cap, frequency_hz or share")

    def decide(self, view: ClientView, rng: np.random.Generator) -> FloatArray:
        """Per client the lower of its maximum and the cap."""
        cap_hz = self.frequency_hz
        if cap_hz is None:
            assert self.share is not None, "checked on construction"
            return view.frequency_max_hz * self.share
        return np.minimum(view.frequency_max_hz, cap_hz)
