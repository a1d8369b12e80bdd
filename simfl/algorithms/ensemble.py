"""The other players' predictors in an ensemble game: one shared context per state.

Each player's predictor is trained as a part of an ensemble whose other members are fixed. The
members are held once, as in the server's state, however many jobs are trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from simfl.learning.parameters import Parameters, stack

Each = Callable[[Iterable[Parameters], Tensor], Iterator[Tensor]]


@dataclass(frozen=True, eq=False)
class Member:
    """A fixed predictor, and the weight of its outputs."""

    predictor: Parameters
    weight: float


@dataclass(frozen=True, eq=False)
class Ensemble:
    """All players' members, in the order of the players.

    `divisor` divides the sum of outputs; None: the sum of the weights, with 1 for the trained
    predictor.
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
        self, parameters: Parameters, inputs: Tensor, players: Sequence[int], each: Each
    ) -> Tensor:
        """The ensembles' outputs (jobs, rows, outputs), one job per entry of `players`.

        `parameters` are the jobs' own models, stacked; tensors that a member lacks (the
        representation) are taken from them and computed once. One member per job is in memory at a
        time.
        """
        rounds = list(self._rounds(players))
        models = chain([parameters], ({**parameters, **_stacked(row)} for row in rounds))
        passes = each(models, inputs)
        outputs = next(passes)
        total = torch.ones(len(players), dtype=outputs.dtype, device=outputs.device)
        for row, others in zip(rounds, passes, strict=True):
            weights = [member.weight for member in row]
            share = torch.tensor(weights, dtype=outputs.dtype, device=outputs.device)
            outputs = outputs + share.view(-1, 1, 1) * others
            total = total + share
        if self.divisor is not None:
            return outputs / self.divisor
        return outputs / total.view(-1, 1, 1)

    def _rounds(self, players: Sequence[int]) -> Iterator[list[Member]]:
        """The first member of every job, then the second, and so on.

        If jobs have unequal numbers of members, a shorter one is padded with its first member,
        weight 0.
        """
        held = [self.against(player) for player in players]
        for place in range(max(map(len, held), default=0)):
            yield [
                own[place] if place < len(own) else Member(own[0].predictor, 0.0) for own in held
            ]


def _stacked(row: Sequence[Member]) -> Parameters:
    """Their predictors with a leading job axis."""
    return stack([member.predictor for member in row])
