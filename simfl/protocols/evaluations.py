"""How good a server's model is: measurements that the researcher takes, at no simulated cost.

What is served may depend on what clients have trained so far, so their last jobs are in the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from simfl.learning.evaluate import mean_scores, scores_at_clients
from simfl.learning.job import Memory
from simfl.learning.parameters import Parameters
from simfl.learning.trainer import Future
from simfl.protocols.state_ref import StateRef
from simfl.protocols.values import Values


def evaluation_of(values: Values, ref: StateRef, now_s: float) -> dict[str, Any]:
    """Loss and accuracy on the test set of what clients are served at `now_s`.

    Keys: loss, accuracy (means over clients if the algorithm serves each its own model) and,
    then, `served`: [loss, accuracy] per client. `flipped`: [loss, accuracy] on the data set's
    test examples with a flipped feature, where it has them.
    """
    personal = values.algorithm.personal
    jobs, chain = _last_jobs(values, now_s) if personal else ({0: None}, ())

    def make() -> dict[str, Any]:
        of_each = "served" if personal else None
        return mean_scores(values.evaluator, list(_served(values, ref, jobs).values()), of_each)

    return dict(values.know(("evaluate", ref.key, *([chain] if personal else [])), make))


def loss_at_start(values: Values, clients: Sequence[int]) -> float:
    """Loss on the test set of what the first of `clients` would be served before any training."""
    ref = values.begin(clients, "cloud")
    (served,) = _served(values, ref, {clients[0]: None}).values()
    return values.evaluator.loss(served, "test")


def served_at_clients(values: Values, ref: StateRef, now_s: float) -> list[list[float]]:
    """[loss, accuracy] of what each client is served at `now_s`, on that client's own data."""
    jobs, chain = _last_jobs(values, now_s)
    if not values.algorithm.personal:
        jobs, chain = dict.fromkeys(jobs), ()
    key = ("at clients", ref.key, chain)
    return _at_clients(values, key, lambda: _served(values, ref, jobs))


def global_at_clients(values: Values, ref: StateRef) -> list[list[float]]:
    """[loss, accuracy] of the server's model on each client's own data."""
    if not values.algorithm.personal:  # it is what everybody is served, at any time
        return served_at_clients(values, ref, np.inf)
    key = ("global at clients", ref.key)
    return _at_clients(values, key, lambda: {n: [ref.value().weights] for n in values.clients})


def _at_clients(
    values: Values,
    key: tuple[object, ...],
    models: Callable[[], Mapping[int, list[Parameters]]],
) -> list[list[float]]:
    scores: list[list[float]] = values.know(
        key, lambda: scores_at_clients(values.evaluator, models())
    )
    return scores


def _last_jobs(values: Values, now_s: float) -> tuple[dict[int, Future | None], tuple[object, ...]]:
    """Each client's last finished job, and what names them all in a key."""
    jobs = {client: values.last_job(client, now_s) for client in sorted(values.clients)}
    return jobs, tuple((client, job.key if job else None) for client, job in jobs.items())


def _served(
    values: Values, ref: StateRef, jobs: Mapping[int, Future | None]
) -> dict[int, list[Parameters]]:
    """What clients are served after these jobs of theirs."""
    return {
        client: values.asked.served(ref.value(), client, job.memory() if job else Memory())
        for client, job in jobs.items()
    }
