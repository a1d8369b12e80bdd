"""The common base of LSTM and GRU: recurrent layers over a sequence, and a linear one."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch import Tensor, nn

from simfl.learning.models.base import Model
from simfl.learning.models.sequences import SequenceInputs


class LastOutput(nn.Module):
    """Recurrent layers, and a linear layer on their outputs at the last position."""

    def __init__(self, inputs: SequenceInputs, layers: nn.LSTM | nn.GRU, outputs: int) -> None:
        super().__init__()
        self.inputs = inputs
        self.recurrent = layers
        self.head = nn.Linear(layers.hidden_size, outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        """Sequences (rows, length, ...) to (rows, outputs)."""
        every, _ = self.recurrent(self.inputs(inputs))
        found: Tensor = self.head(every[:, -1])
        return found


@dataclass(frozen=True)
class Recurrent(Model):
    """Recurrent layers over a sequence; a subclass chooses their type."""

    name: ClassVar[str]

    tokens: Annotated[
        int | None, ">= 1", "number of different tokens, from 0 on; null if inputs are numbers"
    ] = None
    embedding: Annotated[int, ">= 1", "size of a token's embedding"] = 8
    hidden: Annotated[int, ">= 1", "units per layer"] = 64
    layers: Annotated[int, ">= 1", "recurrent layers"] = 1
    dropout: Annotated[float, ">= 0", "< 1", "dropout between two layers, as a share"] = 0.0

    def __post_init__(self) -> None:
        if self.dropout and self.layers == 1:
            raise ValueError("dropout: with one layer there is no place for it")

    @staticmethod
    @abstractmethod
    def layer() -> type[nn.LSTM | nn.GRU]:
        """Torch's class of these layers."""

    def build(self, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Raises ValueError if the input is not a sequence."""
        inputs = SequenceInputs(input_shape, self.tokens, self.embedding, self.name)
        layers = self.layer()(
            inputs.features, self.hidden, self.layers, batch_first=True, dropout=self.dropout
        )
        return LastOutput(inputs, layers, outputs)
