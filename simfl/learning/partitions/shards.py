"""Shards of label-sorted data (McMahan et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from simfl.learning.partitions.base import Partition, class_labels, sorted_rows


@dataclass(frozen=True)
class Shards(Partition):
    """Label-sorted rows in `clients * shards_per_client` equal shards, assigned at random.

    Source: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized
    Data", AISTATS 2017, section 3 (2 shards per client).
    """

    looks_at_edges: ClassVar[bool] = False

    shards_per_client: Annotated[int, ">= 1", "shards per client"] = 2

    def split(
        self,
        targets: np.ndarray,
        home_edge: np.ndarray,
        natural: np.ndarray | None,
        rng: np.random.Generator,
    ) -> list[np.ndarray]:
        """All rows; raises ValueError if there are fewer rows than shards."""
        labels = class_labels(targets, "shards")
        clients = len(home_edge)
        count = clients * self.shards_per_client
        if not 0 < count <= len(labels):
            raise ValueError(
                f"shards_per_client: {len(labels)} training examples cannot be cut into {count} "
                f"shards ({self.shards_per_client} for each of {clients} clients)"
            )
        # rows of a label in random order, so that no shard follows the order of the file
        shuffled = rng.permutation(len(labels))
        by_label = shuffled[np.argsort(labels[shuffled], kind="stable")]
        shards = np.array_split(by_label, count)
        dealt = rng.permutation(count).reshape(clients, self.shards_per_client)
        parts = [np.concatenate([shards[shard] for shard in mine]) for mine in dealt]
        return sorted_rows(parts, "too few examples")
