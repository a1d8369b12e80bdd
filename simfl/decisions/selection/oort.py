"""Oort: guided selection by statistical and system utility.

Source: F. Lai et al., OSDI 2021 (arXiv 2010.06081), known from its published form.

Symbols
    U_n     utility of client n: |B_n| sqrt(mean loss^2) (T / t_n)^alpha if t_n > T, else without it
    B_n     the client's examples; t_n its estimated duration in s
    T       preferred round duration, raised by the pacer               s
    R, L_n  this round's number, the round in which n took part last    rounds
    eps     share of the round for clients not yet tried, decaying      1

Of a round's m clients (1 - eps) m are exploited: drawn in proportion to U_n + sqrt(0.1 ln R / L_n)
among those within `cutoff` of the lowest score that would make it, scores clipped at their 95 %
quantile. eps m are explored: clients never tried, fastest first; if eps m rounds to 0, one client
with that probability.

Departures
1. The loss is the mean over a client's data of the model that it got last, so that the mean of
   squares is the square of the mean. A client that was tried but has not answered in time counts
   with the mean loss of those that have. Without losses (a run without learning) it is 1.
2. T starts at the median estimated duration; after every `window` rounds the pacer raises it by
   `pace` times its start if their utility is below that of the `window` rounds before. This utility
   is the U_n of clients that had been tried before; in the paper slowness does not reduce it.
3. The fastest untried clients are taken directly; the paper draws them by speed.
4. Slowness does not reduce the bonus for waiting, and U_n is clipped after it was reduced. In the
   paper's Algorithm 1 utilities without slowness are clipped, and slowness reduces their sum with
   the bonus; the authors' code also scales them to at most 1 before it adds the bonus.

Limit: all chosen clients count as tried. With protocols that dispatch one of them (asynchronous,
buffered) use `count: 1`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.decisions.sampling import CountedSelection
from simfl.decisions.views import ClientView

LARGEST_LOSS = 1e30
"""The cap on losses: scores of a diverging model stay finite, so clients can be drawn."""


@dataclass(frozen=True)
class Pace:
    """Rounds so far, preferred duration (s) and its step, utilities of the last rounds that the
    pacer compares, and each client's last round.
    """

    rounds: int = 0
    preferred_s: float = math.nan
    step_s: float = 0.0
    utilities: tuple[float, ...] = ()
    last_round: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Oort(CountedSelection):
    """Clients with high loss and short rounds, and some that were never tried (Oort)."""

    needs_losses: ClassVar[bool] = True
    looks_at: ClassVar[frozenset[str] | None] = frozenset(
        {"estimated_duration_s", "last_loss", "num_examples"}
    )

    penalty: Annotated[float, ">= 0", "exponent on slowness (alpha)"] = 2.0
    exploration: Annotated[
        float, ">= 0", "<= 1", "share of untried clients in the first round (eps)"
    ] = 0.9
    exploration_decay: Annotated[
        float, "> 0", "<= 1", "factor on the share of untried clients per round"
    ] = 0.98
    exploration_min: Annotated[float, ">= 0", "<= 1", "lowest share of untried clients"] = 0.2
    cutoff: Annotated[
        float, "> 0", "<= 1", "share of the lowest winning score from which a client may be drawn"
    ] = 0.95
    pace: Annotated[
        float, ">= 0", "step of the preferred duration, as a share of its first value"
    ] = 0.2
    window: Annotated[int, ">= 1", "number of rounds that the pacer compares"] = 20

    def initial(self) -> Pace:
        """No rounds yet."""
        return Pace()

    def decide(
        self, memory: Pace, view: ClientView, rng: np.random.Generator
    ) -> tuple[Pace, IntArray]:
        """Exploit and explore."""
        count, number = self.wanted(view.clients.size), memory.rounds + 1
        memory = self._paced(memory, view)
        tried = np.array([client in memory.last_round for client in view.clients.tolist()])
        utility = self._utility(view, memory.preferred_s)

        share = max(self.exploration_min, self.exploration * self.exploration_decay ** (number - 1))
        explored = round(share * count)
        if not explored and not tried.all():
            explored = int(rng.random() < share * count)
        explored = min(explored, int((~tried).sum()))
        exploited = min(count - explored, int(tried.sum()))
        explored = count - exploited
        new = np.flatnonzero(~tried)
        quickest = np.argsort(view.estimated_duration_s[new], kind="stable")[:explored]
        picked = np.concatenate(
            [new[quickest], self._exploit(view, memory, utility, tried, exploited, rng)]
        )
        chosen = np.sort(view.clients[picked])
        last = {**memory.last_round, **dict.fromkeys(chosen.tolist(), number)}
        gained = (*memory.utilities, float(utility[picked][tried[picked]].sum()))
        gained = gained[-2 * self.window :]
        return replace(memory, rounds=number, utilities=gained, last_round=last), chosen

    def _utility(self, view: ClientView, preferred_s: float) -> FloatArray:
        """U_n."""
        loss = np.minimum(view.last_loss, LARGEST_LOSS)
        known = loss[~np.isnan(loss)]
        loss = np.nan_to_num(loss, nan=float(known.mean()) if known.size else 1.0)
        relative = np.nan_to_num(preferred_s / view.estimated_duration_s, nan=1.0)
        utility: FloatArray = view.num_examples * loss * np.minimum(relative, 1.0) ** self.penalty
        return utility

    def _exploit(
        self,
        view: ClientView,
        memory: Pace,
        utility: FloatArray,
        tried: BoolArray,
        count: int,
        rng: np.random.Generator,
    ) -> IntArray:
        """Positions of `count` tried clients, drawn by score."""
        known = np.flatnonzero(tried)
        if not count:
            return known[:0]
        last = np.array([memory.last_round[client] for client in view.clients[known].tolist()])
        clipped = np.minimum(utility[known], np.quantile(utility[known], 0.95))
        score = clipped + np.sqrt(0.1 * math.log(memory.rounds + 1) / last)
        threshold = self.cutoff * np.sort(score)[-count]
        open_to = np.flatnonzero(score >= threshold)
        weight = score[open_to] + np.finfo(float).tiny
        drawn = rng.choice(open_to, size=count, replace=False, p=weight / weight.sum())
        return np.asarray(known[drawn], dtype=np.int64)

    def _paced(self, memory: Pace, view: ClientView) -> Pace:
        """T at this round."""
        if math.isnan(memory.preferred_s):
            known = view.estimated_duration_s[~np.isnan(view.estimated_duration_s)]
            if not known.size:
                return memory
            start_s = float(np.median(known))
            return replace(memory, preferred_s=start_s, step_s=self.pace * start_s)
        utilities, window = memory.utilities, self.window
        if len(utilities) < 2 * window or memory.rounds % window:
            return memory
        stalls = sum(utilities[-window:]) < sum(utilities[-2 * window : -window])
        return replace(memory, preferred_s=memory.preferred_s + stalls * memory.step_s)
