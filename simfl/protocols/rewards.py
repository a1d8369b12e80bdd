"""What each client is rewarded with when training has ended, scored on the test set.

An algorithm that says what it serves (each client a model of its own, or all an ensemble) is
scored on that. Where all are served the server's model, each client first trains it for one more
local epoch on its own data, as CFFL, CGSV and FedSAC do to compare such algorithms; it is a
measurement, and takes no simulated time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from simfl.algorithms.base import Algorithm
from simfl.learning.job import Brief, LocalJob, Memory, Price, Recipe
from simfl.learning.trainer import Future
from simfl.protocols.state_ref import StateRef
from simfl.protocols.values import Values
from simfl.provenance.journal import make_key
from simfl.streams import Streams

NO_PRICE = Price(down_bytes=0, up_bytes=0)


def reward_scores(
    values: Values, streams: Streams, ref: StateRef, num_clients: int, now_s: float
) -> list[list[float]]:
    """[loss, accuracy] on the test set of what each client is rewarded with at `now_s`."""
    clients = range(num_clients)
    if type(values.algorithm).served is Algorithm.served:
        key = ("one more epoch", ref.key)
        return list(values.know(key, partial(_trained_on, values, streams, ref, num_clients)))
    jobs = {client: values.last_job(client, now_s) for client in clients}
    lineage = tuple((client, job.key if job else None) for client, job in jobs.items())
    return list(values.know(("rewards", ref.key, lineage), partial(_served, values, ref, jobs)))


def _served(values: Values, ref: StateRef, jobs: Mapping[int, Future | None]) -> Any:
    asked = values.asked
    state = asked.concluded(ref.value(), values.evaluator)
    found = values.evaluator.metrics_of_each(
        asked.served(state, client, job.memory() if job else Memory())
        for client, job in jobs.items()
    )
    return [[metrics.loss, metrics.accuracy] for metrics in found]


def _trained_on(values: Values, streams: Streams, ref: StateRef, num_clients: int) -> Any:
    local = replace(values.algorithm.local.at(ref.version), epochs=1, steps=None, share=None)
    brief = Brief(ref.value().weights, Recipe(local), NO_PRICE)
    seeds = streams.seeds("reward", np.arange(num_clients), np.full(num_clients, ref.version))
    futures = [
        values.trainer.submit(
            LocalJob(
                key=make_key("one more epoch", ref.key, client),
                client=client,
                seed=seed,
                version=ref.version,
                make_brief=lambda: brief,
            )
        )
        for client, seed in enumerate(seeds)
    ]
    found = values.evaluator.metrics_of_each(
        [{**brief.start, **future.result().payload}] for future in futures
    )
    return [[metrics.loss, metrics.accuracy] for metrics in found]
