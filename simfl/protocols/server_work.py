"""What a server computes when it aggregates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simfl.algorithms.base import Algorithm, Work
from simfl.learning.evaluate import Evaluator
from simfl.learning.network import Network


def aggregation_work(
    algorithm: Algorithm,
    network: Network,
    evaluator: Evaluator,
    version: int,
    up_bytes: NDArray[np.int64],
) -> Work:
    """Aggregating updates of these sizes, and what the algorithm tries out on validation data."""
    work = algorithm.server_work(network, version, up_bytes)
    passes = algorithm.validation_passes(network, version, len(up_bytes))
    if not passes:
        return work
    examples = passes * evaluator.num_examples("validation")
    return replace(work, flops=work.flops + examples * network.forward_flops)
