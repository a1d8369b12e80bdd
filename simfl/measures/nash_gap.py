"""The gap of a game to a Nash equilibrium: players' gains by better responses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy.optimize import minimize

from simfl.common.arrays import FloatArray
from simfl.learning.federation import Federation
from simfl.learning.players import players_of
from simfl.learning.responses import Response, Slope
from simfl.measures.base import ModelMeasure
from simfl.runs.runfolder import LoadedRun


@dataclass(frozen=True)
class NashGap(ModelMeasure):
    """A player's gain: its loss in the ensemble minus the least loss found by changing its model.

    R^k(w_av) - min R^k((1/N)(w'_k + sum_{q != k} w^q)) of FL Games (arXiv 2211.00184, Eq. 1), with
    the others and the representation fixed. The response is searched over all of the player's
    `examples` at once, by `steps` steps of Adam, which stay near, and as many of L-BFGS-B (Byrd,
    Lu, Nocedal, Zhu, SIAM J. Sci. Comput. 16:1190, 1995), so the gap is a lower bound, 0 at an
    equilibrium.
    """

    steps: Annotated[int, ">= 1", "steps of the search for a response, by each method"] = 50
    learning_rate: Annotated[float, "> 0", "of Adam"] = 1e-3
    examples: Annotated[
        int | None, ">= 1", "examples of each player for its losses, a random choice; null: all"
    ] = 2000
    bound: Annotated[float | None, "> 0", "the game's own bound on predictors' weights"] = None

    def assess(
        self, run: LoadedRun, federation: Federation, rng: np.random.Generator
    ) -> dict[str, float]:
        """nash_gap (the largest gain) and nash_gap_mean; empty without players.

        Both are lower bounds, by what the search finds.
        """
        gains = self.gains(federation, rng)
        if not gains:
            return {}
        return {"nash_gap": max(gains), "nash_gap_mean": sum(gains) / len(gains)}

    def gains(self, federation: Federation, rng: np.random.Generator) -> list[float]:
        """Each player's gain, in the order of the players."""
        response = Response(self.steps, self.learning_rate, self.bound, self._descend)
        found = []
        for player in players_of(federation.weights):
            own = federation.agents[player]
            if self.examples is not None and self.examples < len(own):
                own = own.take(np.sort(rng.choice(len(own), self.examples, replace=False)))
            found.append(response.gain(federation.network, federation.weights, player, own))
        return found

    def _descend(self, slope: Slope, start: FloatArray) -> None:
        bounds = None if self.bound is None else [(-self.bound, self.bound)] * start.size
        options = {"maxiter": self.steps}
        minimize(slope, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
