"""When a game of predictors counts as settled: the end that FL Games and IRM Games share."""

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
    """The game is settled when, after a warm start, training accuracy first is below a threshold.

    FL Games (arXiv 2211.00184), section D.2; the accuracy is that of the ensemble, on all clients'
    data.
    """

    threshold: Annotated[
        float | None, ">= 0", "<= 1", "training accuracy; null never ends the run"
    ] = None
    warm_start: Annotated[
        int | None, ">= 0", "rounds; null: one per player, or one epoch's with a representation"
    ] = None
    examples: Annotated[
        int | None, ">= 1", "of each client, a fixed random choice, to measure on; null is all"
    ] = 5000

    def standing(
        self,
        models: Sequence[Parameters],
        sizes: Mapping[int, int],
        evaluator: Evaluator,
        *,
        warm: bool,
    ) -> Standing:
        """Loss and accuracy of the models' mean outputs on all clients' data, and why it is over.

        `sizes`: examples by client; unless `warm`, nothing ends the game.
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
