"""What every player of an ensemble game knows of the others: one context per state.

Each player's predictor is trained as a part of an ensemble whose other members stand still. The
members are held once, as they lie in the server's state, whatever number of jobs is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from simfl.learning.parameters import Parameters

Forward = Callable[[Parameters, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Member:
    """A predictor that is not trained, and how much its outputs count."""

    predictor: Parameters
    weight: float


@dataclass(frozen=True, eq=False)
class Ensemble:
    """All players' members, in the order of the players.

    `divisor` is what the sum of outputs is divided by; None: by the sum of the weights, the
    trained predictor's being 1.
    """

    members: Sequence[Sequence[Member]]
    divisor: float | None

    def against(self, player: int) -> list[Member]:
        """The other players' members, in their order."""
        return [
            member
            for other, members in enumerate(self.members)
            if other != player
            for member in members
        ]

    def respond(
        self, parameters: Parameters, inputs: Tensor, players: Sequence[int], forward: Forward
    ) -> Tensor:
        """The ensembles' outputs (jobs, rows, outputs), one job per entry of `players`.

        `parameters` are the jobs' own models, stacked; what a member does not bring (the
        representation) is theirs. One member per job is in memory at a time.
        """
        outputs = forward(parameters, inputs)
        total = torch.ones(len(players), dtype=outputs.dtype, device=outputs.device)
        for weights, stacked in self._rounds(players):
            share = torch.tensor(weights, dtype=outputs.dtype, device=outputs.device)
            others = forward({**parameters, **stacked}, inputs)
            outputs = outputs + share.view(-1, 1, 1) * others
            total = total + share
        if self.divisor is not None:
            return outputs / self.divisor
        return outputs / total.view(-1, 1, 1)

    def _rounds(self, players: Sequence[int]) -> Iterator[tuple[list[float], Parameters]]:
        """The first member of every job, then the second, and so on, stacked.

        Where jobs have unequal numbers of members, the short ones' first counts 0 afterwards.
        """
        held = [self.against(player) for player in players]
        for place in range(max(map(len, held), default=0)):
            row = [
                own[place] if place < len(own) else Member(own[0].predictor, 0.0) for own in held
            ]
            names = row[0].predictor
            yield (
                [member.weight for member in row],
                {name: torch.stack([member.predictor[name] for member in row]) for name in names},
            )
