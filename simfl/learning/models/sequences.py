"""The input layer of sequence models: token embeddings, or unchanged numbers."""

from __future__ import annotations

from torch import Tensor, nn


class SequenceInputs(nn.Module):
    """Embeds tokens (rows, length) to (rows, length, features); numbers keep their values.

    `tokens` is the number of different tokens, None if the inputs are numbers: (rows, length), one
    feature each, or (rows, length, features). `model` is the name in errors. Raises ValueError if
    the shape of an example is not such a sequence.
    """

    def __init__(
        self, input_shape: tuple[int, ...], tokens: int | None, embedding: int, model: str
    ) -> None:
        super().__init__()
        kind = "tokens (length)" if tokens else "numbers (length) or (length, features)"
        if len(input_shape) not in ((1,) if tokens else (1, 2)):
            raise ValueError(
                f"model {model} takes sequences of {kind}, found examples of shape {input_shape}"
            )
        self.length = input_shape[0]
        self.table = nn.Embedding(tokens, embedding) if tokens else None
        own = 1 if len(input_shape) == 1 else input_shape[1]
        self.features = embedding if tokens else own

    def forward(self, inputs: Tensor) -> Tensor:
        """The features of every position: (rows, length, features)."""
        if self.table is None:
            return inputs.view(-1, self.length, self.features)
        found: Tensor = self.table(inputs.long())
        return found
