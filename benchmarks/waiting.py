"""A job that takes a fixed time instead of training: what `cluster.py` hands to workers."""

from __future__ import annotations

import time

from torch import Tensor

from simfl.learning.minibatch import Minibatch
from simfl.learning.parameters import Parameters

JOB_S = 0.05


def waiting_loss(parameters: Parameters, batch: Minibatch) -> Tensor:
    """Waits for every job of the stack, one after the other, and looks at no example.

    It has to have a gradient: that of the model's smallest tensor.
    """
    time.sleep(JOB_S * len(batch.inputs))
    smallest = min(parameters.values(), key=Tensor.numel)
    return smallest.flatten(1).sum(1)
