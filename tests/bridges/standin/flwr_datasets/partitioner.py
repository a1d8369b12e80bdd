"""The partitioners of the stand-in."""

from __future__ import annotations


class IidPartitioner:
    """Equal partitions."""

    def __init__(self, num_partitions: int) -> None:
        self.num_partitions = num_partitions
