"""FedAvg that limits how far one client can move the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import torch

from simfl.plugins import Algorithm, Evaluator, Parameters, ServerState, Update, add, weighted_mean


@dataclass(frozen=True)
class ClippedAverage(Algorithm):
    """Each client's change is scaled down to L2 norm `clip` before the changes are averaged."""

    clip: Annotated[float, "> 0", "largest L2 norm of a client's change"] = 1.0

    def aggregate(
        self, state: ServerState, updates: Sequence[Update], evaluator: Evaluator
    ) -> ServerState:
        """The weights plus the mean of the clipped changes, weighted by data size."""
        sizes = [update.num_examples for update in updates]
        steps = [self._clipped(update.delta) for update in updates]
        return replace(state, weights=add(state.weights, weighted_mean(steps, sizes)))

    def _clipped(self, delta: Parameters) -> Parameters:
        real = {name: step for name, step in delta.items() if step.is_floating_point()}
        norm = torch.sqrt(torch.stack([step.square().sum() for step in real.values()]).sum())
        scale = (self.clip / norm).clamp(max=1.0)
        return {name: scale * step for name, step in real.items()}
