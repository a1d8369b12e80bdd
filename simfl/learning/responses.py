"""Players' best responses, and their ensemble's predictions, after a game."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from simfl.common.arrays import FloatArray
from simfl.learning.datasets.base import Examples
from simfl.learning.evaluate import outputs_of
from simfl.learning.network import Network
from simfl.learning.parameters import Parameters
from simfl.learning.players import action_of, model_of, models_of, players_of

Slope = Callable[[FloatArray], tuple[float, FloatArray]]
"""The loss and its gradient at a point, both as flat vectors."""


@dataclass(frozen=True)
class Response:
    """A search for a player's best response: full-batch Adam from the player's current action.

    Adam takes short steps; `descend` continues from there, within the `bound`, with steps of any
    length.
    """

    steps: int
    learning_rate: float
    bound: float | None
    descend: Callable[[Slope, FloatArray], object]

    def gain(self, network: Network, weights: Parameters, player: int, own: Examples) -> float:
        """The player's loss in the ensemble minus the smallest one found; never negative.

        `own` are the player's examples; other players and common tensors are fixed.
        """
        examples = own.cast(network.dtype, network.device)
        players, model = players_of(weights), model_of(weights, player)
        others = _summed(network, weights, [one for one in players if one != player], examples)
        action = {
            name: tensor.clone().requires_grad_()
            for name, tensor in action_of(weights, player).items()
        }

        def loss() -> Tensor:
            outputs = network.call({**model, **action}, examples.inputs, training=False)[0]
            ensemble = (outputs + others) / len(players)
            return network.objective.per_example(ensemble, examples.targets).mean()

        optimizer, losses = torch.optim.Adam(action.values(), lr=self.learning_rate), []
        for _ in range(self.steps):
            optimizer.zero_grad()
            value = loss()
            losses.append(float(value.detach()))
            torch.autograd.backward(value)
            optimizer.step()
            if self.bound is not None:
                with torch.no_grad():
                    for tensor in action.values():
                        tensor.clamp_(-self.bound, self.bound)

        def at(place: FloatArray) -> tuple[float, FloatArray]:
            vector = torch.as_tensor(place, dtype=network.dtype, device=network.device)
            vector_to_parameters(vector, action.values())
            value = loss()
            slope = torch.autograd.grad(value, list(action.values()))
            losses.append(float(value.detach()))
            return losses[-1], parameters_to_vector(slope).double().cpu().numpy()

        end = parameters_to_vector(action.values()).detach().double().cpu().numpy()
        self.descend(at, end)
        return losses[0] - min(losses)


def _summed(
    network: Network, weights: Parameters, players: list[int], examples: Examples
) -> Tensor:
    """The sum of these players' outputs (rows, outputs); 0 for no players."""
    total = torch.zeros((), dtype=network.dtype, device=network.device)
    for one in players:
        total = total + outputs_of(network, model_of(weights, one), examples.inputs)
    return total


def class_probabilities(network: Network, weights: Parameters, inputs: FloatArray) -> FloatArray:
    """Softmax (rows, classes) of the players' mean outputs, or of a common model's outputs."""
    members, rows = models_of(weights), torch.as_tensor(inputs).to(network.device, network.dtype)
    total = outputs_of(network, members[0], rows)
    for member in members[1:]:
        total = total + outputs_of(network, member, rows)
    probabilities = torch.softmax(total.double() / len(members), dim=1)
    found: FloatArray = probabilities.cpu().numpy()
    return found
