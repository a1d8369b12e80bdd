"""The gated recurrent unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from simfl.learning.models.recurrent import Recurrent


@dataclass(frozen=True)
class Gru(Recurrent):
    """GRU layers over a sequence, and a linear layer on the last position's output.

    Like `lstm`, with three quarters of its weights per layer. Source: Cho et al., "Learning Phrase
    Representations using RNN Encoder-Decoder for Statistical Machine Translation", 2014.
    """

    name: ClassVar[str] = "gru"

    @staticmethod
    def layer() -> type[nn.GRU]:
        """Torch's own."""
        return nn.GRU
