"""A job that takes a fixed time instead of training: what `cluster.py` hands to workers."""

from __future__ import annotations

import time

from torch import Tensor

from simfl.learning.minibatch import Minibatch, plain_loss
from simfl.learning.parameters import Parameters

JOB_S = 0.05


def waiting_loss(parameters: Parameters, batch: Minibatch) -> Tensor:
    """Waits for every job of the stack, one after the other."""
    time.sleep(JOB_S * len(batch.inputs))
    return plain_loss(parameters, batch)
