"""TiFL: tiers of similarly fast clients; tiers with higher loss are drawn more often.

Source: Z. Chai et al., HPDC 2020 (arXiv 2001.09249), as in the public FLGo code.

Clients are sorted by estimated round duration into `tiers` tiers of equal size. A round takes its
clients from one tier, uniformly; the tier is drawn among those with credits left, with
probabilities by loss that are updated every `interval` rounds:

    P(tier) = (n - rank) / (n (n + 1) / 2)  over the n tiers with credits, rank 0 is the worst

Departures
1. Tiers rank by the mean loss of the models that their clients received last, the highest being the
   worst; the paper evaluates accuracy on test data held by the tiers. A tier without a known loss
   ranks as if it had the mean of the others, and equal losses share their ranks.
2. The paper sorts all clients before the start. Here a client is placed when it may first take
   part, by its estimated duration at that time, and the tiers are formed again from all clients
   placed so far. If that changes the number of tiers, credits and losses are reset, too.
3. A tier without a client that may take part is left out of the draw, like one without credits.
4. Credits are equal; `credits` null is no limit. When none are left, all tiers get new ones.
5. In the paper every tier has at least as many clients as a round. Here a smaller tier gives all
   its clients, and the run warns of smaller rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.decisions.sampling import CountedSelection
from simfl.decisions.views import ClientView


@dataclass(frozen=True)
class Tiers:
    """Seconds estimated of each client seen, and per tier: upper limit in s, draws, mean loss."""

    first_s: Mapping[int, float] = field(default_factory=dict)
    limits_s: tuple[float, ...] = ()
    draws: tuple[int, ...] = ()
    losses: tuple[float, ...] = ()
    rounds: int = 0


@dataclass(frozen=True)
class TiFL(CountedSelection):
    """A round's clients come from one tier of speed, more often from tiers with higher loss."""

    name: ClassVar[str] = "tifl"
    needs_losses: ClassVar[bool] = True
    looks_at: ClassVar[frozenset[str] | None] = frozenset({"estimated_duration_s", "last_loss"})

    tiers: Annotated[int, ">= 1", "number of tiers by speed"] = 5
    interval: Annotated[int, ">= 1", "rounds between two rankings of the tiers"] = 10
    credits: Annotated[int | None, ">= 1", "rounds that each tier may take; null: no limit"] = None

    def initial(self) -> Tiers:
        """No tiers yet."""
        return Tiers()

    def decide(
        self, memory: Tiers, view: ClientView, rng: np.random.Generator
    ) -> tuple[Tiers, IntArray]:
        """Draws a tier that has clients in the view, then clients of it."""
        duration_s = np.nan_to_num(view.estimated_duration_s, nan=0.0)
        numbers, limits_s = view.clients.tolist(), memory.limits_s
        first_s = {**dict(zip(numbers, duration_s.tolist(), strict=True)), **memory.first_s}
        if len(first_s) > len(memory.first_s):
            limits_s = _limits(np.array([*first_s.values()]), self.tiers)
        as_many = len(limits_s) == len(memory.limits_s)
        tier = np.searchsorted(limits_s[:-1], [first_s[number] for number in numbers])

        draws = np.array(memory.draws if as_many else (0,) * len(limits_s))
        open_to = np.isin(np.arange(draws.size), tier)
        if self.credits is not None:
            if not (open_to & (draws < self.credits)).any():
                draws = np.zeros_like(draws)
            open_to &= draws < self.credits
        losses = np.array(memory.losses)
        if memory.rounds % self.interval == 0 or not as_many:
            losses = _mean_losses(tier, view.last_loss, draws.size)
        share = np.zeros(draws.size)
        share[open_to] = _by_loss(losses[open_to])
        drawn = int(rng.choice(draws.size, p=share / share.sum()))

        members = view.clients[tier == drawn]
        count = min(self.wanted(view.clients.size), members.size)
        chosen = rng.choice(members, size=count, replace=False)
        draws[drawn] += 1
        after = Tiers(
            first_s, limits_s, tuple(draws.tolist()), tuple(losses.tolist()), memory.rounds + 1
        )
        return after, np.sort(chosen)


def _limits(duration_s: FloatArray, tiers: int) -> tuple[float, ...]:
    """The longest duration of each tier, in seconds, ascending; no two tiers have the same."""
    parts = [part for part in np.array_split(np.sort(duration_s), tiers) if part.size]
    return tuple(np.unique([part[-1] for part in parts]).tolist())


def _mean_losses(tier: IntArray, loss: FloatArray, tiers: int) -> FloatArray:
    """The mean loss of each tier's clients; if unknown, the mean of the other tiers."""
    known = ~np.isnan(loss)
    count = np.bincount(tier[known], minlength=tiers)
    total = np.bincount(tier[known], weights=loss[known], minlength=tiers)
    mean: FloatArray = total / np.maximum(count, 1)
    # Neither the worst nor the best, so it is drawn about as often as an average tier.
    mean[count == 0] = mean[count > 0].mean() if known.any() else 0.0
    return mean


def _by_loss(loss: FloatArray) -> FloatArray:
    """Probability of each of n tiers, rising with the mean loss; equal for equal losses."""
    n = loss.size
    above = (loss > loss[:, None]).sum(axis=1)
    rank = above + ((loss == loss[:, None]).sum(axis=1) - 1) / 2
    probability: FloatArray = (n - rank) / (n * (n + 1) / 2)
    return probability
