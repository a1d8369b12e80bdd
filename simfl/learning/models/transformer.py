"""A small transformer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from simfl.learning.models.base import Model
from simfl.learning.models.sequences import SequenceInputs


class Encoded(nn.Module):
    """Encoder layers over a sequence with learned positions, and a linear layer."""

    def __init__(
        self,
        inputs: SequenceInputs,
        encoder: nn.TransformerEncoder,
        width: int,
        outputs: int,
        read: str,
    ) -> None:
        super().__init__()
        self.inputs = inputs
        self.widen = nn.Identity() if inputs.table else nn.Linear(inputs.features, width)
        self.places = nn.Parameter(0.02 * torch.randn(inputs.length, width))
        self.encoder = encoder
        self.head = nn.Linear(width, outputs)
        self.read = read

    def forward(self, inputs: Tensor) -> Tensor:
        """Sequences (rows, length, ...) to (rows, outputs)."""
        values = self.encoder(self.widen(self.inputs(inputs)) + self.places)
        found: Tensor = self.head(values.mean(1) if self.read == "mean" else values[:, -1])
        return found


@dataclass(frozen=True)
class Transformer(Model):
    """Pre-norm encoder layers over a sequence with learned positions, and a linear layer.

    It classifies sequences of tokens (whole numbers) or of numbers; if the classes are tokens it
    predicts the next one, and the measure `perplexity` shows how well. Source: Vaswani et al.,
    "Attention Is All You Need", 2017; the order of normalisation is that of Xiong et al., "On Layer
    Normalization in the Transformer Architecture", 2020.
    """

    name: ClassVar[str] = "transformer"

    tokens: Annotated[
        int | None, ">= 1", "number of different tokens, from 0 on; null if inputs are numbers"
    ] = None
    width: Annotated[int, ">= 1", "features per position"] = 32
    heads: Annotated[int, ">= 1", "attention heads, equal parts of the width"] = 4
    layers: Annotated[int, ">= 1", "encoder layers"] = 2
    feed_forward: Annotated[
        int, ">= 1", "units between the two linear layers of an encoder layer"
    ] = 64
    dropout: Annotated[
        float, ">= 0", "< 1", "dropout, as a share, in the same places as torch's layers"
    ] = 0.0
    read: Annotated[
        Literal["mean", "last"],
        "input of the last layer: the mean of all positions, or the last position",
    ] = "mean"

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(
                f"heads: found {self.heads}, accepted: a divisor of the width {self.width}"
            )

    def build(self, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Raises ValueError if the input is not a sequence."""
        inputs = SequenceInputs(input_shape, self.tokens, self.width, self.name)
        settings: dict[str, Any] = {"batch_first": True, "norm_first": True}
        layer = nn.TransformerEncoderLayer(
            self.width, self.heads, self.feed_forward, self.dropout, **settings
        )
        encoder = nn.TransformerEncoder(
            layer, self.layers, nn.LayerNorm(self.width), enable_nested_tensor=False
        )
        return Encoded(inputs, encoder, self.width, outputs, self.read)
