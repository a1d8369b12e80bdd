"""Generated data with a known, linear best model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
from torch import Tensor

from simfl.learning.datasets.base import Data, Dataset, Examples


@dataclass(frozen=True)
class Synthetic(Dataset):
    """Standard normal inputs x and a hidden linear map W x + b with standard normal entries.

    regression: y = W x + b + noise * e, e standard normal; (W, b) minimises the expected loss,
    which is then `outputs * noise^2`. classification: the class is argmax(W x + b + noise * g), g
    standard Gumbel, so that softmax regression with (W, b) / noise is the true model; noise 0 makes
    the classes separable. With `owners` each one has its own map, (W, b) + spread * standard normal
    entries, and rows are assigned to them in turn (partition "natural"): the expected loss of owner
    i's regression is then |(W, b) - (W_i, b_i)|^2 + outputs * noise^2, with a known optimum for any
    mixture.
    """

    task: Literal["classification", "regression"] = "classification"
    examples: Annotated[int, ">= 1", "training rows"] = 1000
    test_examples: Annotated[int, ">= 1", "test rows"] = 500
    features: Annotated[int, ">= 1", "length of an input"] = 20
    outputs: Annotated[int, ">= 1", "classes, or values of a regression"] = 2
    noise: Annotated[float, ">= 0", "scale of the noise on the outputs"] = 0.1
    owners: Annotated[int | None, ">= 1", "number of owners with different maps; null: none"] = None
    spread: Annotated[
        float, ">= 0", "scale of the differences between owners' maps and the common one"
    ] = 1.0

    def __post_init__(self) -> None:
        if self.task == "classification" and self.outputs < 2:
            raise ValueError(f"outputs: found {self.outputs}, accepted: two or more classes")

    def truth(self, seed: int) -> tuple[Tensor, Tensor]:
        """The hidden W (outputs, features) and b (outputs,) of this seed's data, float32."""
        return self._truth(torch.Generator().manual_seed(seed))

    def truths(self, seed: int) -> tuple[Tensor, Tensor]:
        """The owners' maps: W_i (owners, outputs, features) and b_i (owners, outputs), float32.

        Without owners only the common map.
        """
        weight, bias = self.truth(seed)
        if self.owners is None:
            return weight[None], bias[None]
        generator = torch.Generator().manual_seed(seed + 1)
        shape = (self.owners, self.outputs, self.features + 1)
        own = self.spread * torch.randn(shape, generator=generator)
        return weight + own[..., :-1], bias + own[..., -1]

    def load(self, root: Path | None, seed: int) -> Data:
        """Generates training and test rows from the seed."""
        generator = torch.Generator().manual_seed(seed)
        self._truth(generator)  # the rows are drawn after it
        weights, biases = self.truths(seed)
        parts, owners = [], []
        for rows in (self.examples, self.test_examples):
            inputs = torch.randn(rows, self.features, generator=generator)
            owner = torch.arange(rows) % len(weights)
            clean = inputs.new_empty(rows, self.outputs)
            for one, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
                own = slice(one, None, len(weights))  # dealt in turn
                clean[own] = inputs[own] @ weight.T + bias
            parts.append(Examples(inputs, self._targets(clean, generator)))
            owners.append(owner.numpy())
        natural = None if self.owners is None else owners[0]
        return Data(parts[0], parts[1], self.task, self.outputs, natural)

    def _truth(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        weight = torch.randn(self.outputs, self.features, generator=generator)
        return weight, torch.randn(self.outputs, generator=generator)

    def _targets(self, clean: Tensor, generator: torch.Generator) -> Tensor:
        if self.task == "regression":
            return clean + self.noise * torch.randn(clean.shape, generator=generator)
        uniform = torch.rand(clean.shape, generator=generator).clamp(min=1e-12, max=1 - 1e-7)
        return (clean - self.noise * (-uniform.log()).log()).argmax(-1)
