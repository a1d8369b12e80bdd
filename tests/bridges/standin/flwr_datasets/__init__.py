"""A stand-in for flwr-datasets: small made-up data of the same columns, and nothing to download."""

from __future__ import annotations

from typing import Any

from datasets import MadeUp, made_up


class FederatedDataset:
    """A data set in equal partitions."""

    def __init__(self, *, dataset: str, partitioners: dict[str, Any]) -> None:
        self._dataset = dataset
        self._partitions = partitioners["train"].num_partitions

    def load_partition(self, partition_id: int, split: str = "train") -> MadeUp:
        """One partition."""
        return made_up(self._dataset, partition_id)
