"""No data, only their sizes, for runs that study time and energy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch

from simfl.learning.datasets.base import Data, Dataset, Examples


@dataclass(frozen=True)
class Sizes(Dataset):
    """Examples without contents, for timing-only runs.

    Every client has `examples_per_client` of them; with a list, one number per client, client i
    has the i-th. `input_shape` and `outputs` describe a model's input and output, so that its size
    and operations can be counted.
    """

    examples_per_client: Annotated[
        int | tuple[int, ...], ">= 1", "training examples of each client"
    ] = 100
    input_shape: Annotated[tuple[int, ...], "shape of one example"] = (1, 28, 28)
    outputs: Annotated[int, ">= 1", "number of classes"] = 10

    def __post_init__(self) -> None:
        if not self.input_shape or any(length < 1 for length in self.input_shape):
            raise ValueError(
                f"input_shape: found {list(self.input_shape)}, accepted: positive lengths"
            )

    def sizes(self, client_count: int) -> np.ndarray | None:
        """`examples_per_client`; raises ValueError for a list with another number of clients."""
        given = self.examples_per_client
        if not isinstance(given, int) and len(given) != client_count:
            raise ValueError(
                f"examples_per_client: found {len(given)} numbers for {client_count} clients;"
                " accepted: one number, or one per client"
            )
        return np.broadcast_to(np.array(given, dtype=np.int64), client_count).copy()

    def load(self, root: Path | None, seed: int) -> Data:
        """Data without a row, of the right shapes."""
        empty = Examples(torch.empty(0, *self.input_shape), torch.empty(0, dtype=torch.int64))
        return Data(empty, empty, "classification", self.outputs)
