"""What a server computes when it aggregates."""

from __future__ import annotations

from dataclasses import replace

from simfl.algorithms.asked import Asked
from simfl.algorithms.base import Work
from simfl.common.arrays import IntArray
from simfl.learning.evaluate import Evaluator
from simfl.learning.network import Network


def aggregation_work(
    asked: Asked,
    network: Network,
    evaluator: Evaluator,
    version: int,
    up_bytes: IntArray,
) -> Work:
    """Aggregating updates of these sizes, and what the algorithm tries out on validation data."""
    work, passes = asked.work(version, up_bytes)
    if not passes:
        return work
    examples = passes * evaluator.num_examples("validation")
    return replace(work, flops=work.flops + examples * network.forward_flops)
