"""The equilibrium criterion that ends FL Games and IRM Games."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from simfl.algorithms.base import Standing
from simfl.learning.evaluate import Evaluator, client_set
from simfl.learning.parameters import Parameters


@dataclass(frozen=True)
class Equilibrium:
    """The game is over when, after a warm start, training accuracy first falls below a threshold.

    FL Games (arXiv 2211.00184), section D.2; the accuracy is that of the ensemble, on all clients'
    data.
    """

    threshold: Annotated[
        float | None, ">= 0", "<= 1", "training accuracy below which the game is over; null: never"
    ] = None
    warm_start: Annotated[
        int | None,
        ">= 0",
        "rounds before the criterion applies; null: one per player, or one epoch with a"
        " representation",
    ] = None
    examples: Annotated[
        int | None,
        ">= 1",
        "examples of each client to measure on, a fixed random choice; null: all",
    ] = 5000

    def standing(
        self,
        models: Sequence[Parameters],
        sizes: Mapping[int, int],
        evaluator: Evaluator,
        *,
        warm: bool,
    ) -> Standing:
        """Loss and accuracy of the models' mean outputs on all clients' data; a reason to end.

        `sizes`: examples per client; the game cannot end unless `warm`.
        """
        clients = sorted(sizes)
        of_each = [
            evaluator.metrics(models, client_set(client), at_most=self.examples)
            for client in clients
        ]
        shares = np.array([sizes[client] for client in clients]) / sum(sizes.values())
        loss = float(shares @ np.array([one.loss for one in of_each]))
        accuracy = float(shares @ np.array([one.accuracy for one in of_each]))
        if not warm or self.threshold is None or accuracy >= self.threshold:
            return Standing(loss, accuracy)
        return Standing(
            loss,
            accuracy,
            f"equilibrium: training accuracy {accuracy:.4f} below {self.threshold:g}",
        )
