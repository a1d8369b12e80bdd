"""Warnings of figures of models that clients have of their own (docs/warnings.md)."""

from __future__ import annotations

from collections.abc import Iterator

from simfl.assembly.simulation import Simulation
from simfl.common.notices import Notice, notice
from simfl.protocols.run import Run


def tested_where_trained(simulation: Simulation) -> list[Notice]:
    """Clients' own models, of which a client's figures are those of its training examples."""
    partitioned = simulation.partitioned
    if not simulation.own_models or partitioned.client_tests:
        return []
    message = (
        "clients are served models of their own: served_accuracy, worst_client_accuracy and"
        " measures at clients are of the examples that these were trained with, and `accuracy` is"
        " the mean of all their models on the whole test set"
    )
    return [notice("tested_where_trained", message, len(partitioned.clients))]


def untrained_models(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """Clients that never trained, whose own models count in figures over clients."""
    rounds = one.observations.participations
    never = int((rounds == 0).sum())
    if simulation.own_models and never and one.publications.latest is not None:
        message = (
            f"{never} of {rounds.size} clients never trained: their own models (or their own parts"
            " of one) are the initial ones, and `accuracy` and means, minima and indices over"
            " clients count them"
        )
        yield notice("untrained_models", message, never)
