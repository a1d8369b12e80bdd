"""A transformer that is small enough for a phone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from simfl.learning.models.base import Model
from simfl.learning.models.sequences import SequenceInputs


class Encoded(nn.Module):
    """Encoder layers over a sequence with learned places, and a linear layer."""

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
    """Encoder layers (self-attention and two linear layers, normalised before each) over a sequence
    whose places have learned vectors, and a linear layer.

    It classifies sequences, of tokens (whole numbers) or of numbers; where the classes are tokens
    it says the one that comes next, and the measure `perplexity` says how well. Source: Vaswani et
    al., "Attention Is All You Need", 2017; the order of normalisation is that of Xiong et al., "On
    Layer Normalization in the Transformer Architecture", 2020.
    """

    name: ClassVar[str] = "transformer"

    tokens: Annotated[
        int | None, ">= 1", "different tokens, from 0 on; null where inputs are numbers"
    ] = None
    width: Annotated[int, ">= 1", "features of every place"] = 32
    heads: Annotated[int, ">= 1", "of every attention, equal parts of the width"] = 4
    layers: Annotated[int, ">= 1", "encoder layers"] = 2
    feed_forward: Annotated[int, ">= 1", "units between a layer's two linear ones"] = 64
    dropout: Annotated[float, ">= 0", "< 1", "share left out, as in torch's layers"] = 0.0
    read: Annotated[
        Literal["mean", "last"], "what the output is made of: the mean of all places, or the last"
    ] = "mean"

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(
                f"heads: found {self.heads}, accepted: what divides the width {self.width}"
            )

    def build(self, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Raises ValueError where the input is no sequence."""
        inputs = SequenceInputs(input_shape, self.tokens, self.width, self.name)
        settings: dict[str, Any] = {"batch_first": True, "norm_first": True}
        layer = nn.TransformerEncoderLayer(
            self.width, self.heads, self.feed_forward, self.dropout, **settings
        )
        encoder = nn.TransformerEncoder(
            layer, self.layers, nn.LayerNorm(self.width), enable_nested_tensor=False
        )
        return Encoded(inputs, encoder, self.width, outputs, self.read)
