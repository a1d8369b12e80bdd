"""Losses that clients report with their uploads, for selections that ask for them."""

from __future__ import annotations

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.learning.evaluate import client_set
from simfl.learning.job import Memory
from simfl.protocols.state_ref import StateRef
from simfl.protocols.values import Values


def reported_losses(values: Values, ref: StateRef, clients: IntArray, now_s: float) -> FloatArray:
    """Mean loss on each client's own data of the model of `ref` that it is served.

    A learned number that decides something: it passes the journalled door.
    """
    return np.array([_reported(values, ref, client, now_s) for client in clients.tolist()])


def _reported(values: Values, ref: StateRef, client: int, now_s: float) -> float:
    job = values.last_job(client, now_s) if values.algorithm.personal else None
    lineage = job.key if job else None

    def make() -> float:
        memory = job.memory() if job else Memory()
        models = values.asked.served(ref.value(), client, memory)
        return values.evaluator.loss(models, on=client_set(client))

    return float(values.know(("reported loss", ref.key, client, lineage), make))
