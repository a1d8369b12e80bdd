"""The long short-term memory network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from simfl.learning.models.recurrent import Recurrent


@dataclass(frozen=True)
class Lstm(Recurrent):
    """LSTM layers over a sequence, and a linear layer on the last position's output.

    It classifies sequences of tokens (whole numbers) or of numbers; if the classes are tokens it
    predicts the next one, and the measure `perplexity` shows how well. With `tokens` 80, `hidden`
    256 and `layers` 2 it is LEAF's network for Shakespeare's plays (Caldas et al., 2018; McMahan et
    al., 2017), 819,920 parameters; Hochreiter, Schmidhuber, "Long Short-Term Memory", 1997.
    """

    name: ClassVar[str] = "lstm"

    @staticmethod
    def layer() -> type[nn.LSTM]:
        """Torch's own."""
        return nn.LSTM
