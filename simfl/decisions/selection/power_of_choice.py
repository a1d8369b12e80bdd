"""Power-of-choice: clients are asked for their loss before the choice.

Source: Y. J. Cho, J. Wang, G. Joshi, arXiv 2010.01243 (AISTATS 2022), known from its published
form, the variant pow-d.

Symbols
    d      candidates, drawn without replacement in proportion to p_k     clients
    m      clients chosen (`count`, or `share`)                           clients
    p_k    k's share of the data
    F_k    k's mean loss on its data of the current global model

A round draws d candidates, sends them the model, gets F_k from each, and takes the m highest. The
query costs time, bytes and joules; a chosen client already has the model and downloads only the
rest of the round's message. Candidates that leave before the last answer, or whose answer is lost,
are not chosen; if fewer than m others remain, all of them are.

Departures
1. Clients answer with the loss on all their data, after one forward pass at their highest clock;
   its variants on a mini-batch (cpow-d) and with losses known from before (rpow-d) are left out.
2. The algorithm aggregates the chosen clients in its own way (FedAvg by data size); the paper takes
   the plain mean of its m clients.
3. Without learning there is no loss: m candidates are drawn at random.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from simfl.common.arrays import IntArray
from simfl.decisions.base import QueryingSelection
from simfl.decisions.sampling import CountedSelection, proportional_to_size
from simfl.decisions.views import ClientView


@dataclass(frozen=True)
class Asked:
    """The candidates of this round, and how many of them to choose."""

    candidates: tuple[int, ...] = ()
    wanted: int = 0


@dataclass(frozen=True)
class PowerOfChoice(CountedSelection, QueryingSelection):
    """Out of d candidates, drawn by data size, the m with the highest loss of the current model."""

    looks_at: ClassVar[frozenset[str] | None] = frozenset({"last_loss", "num_examples"})

    factor: Annotated[float, ">= 1", "candidates asked per client chosen (d / m)"] = 2.0

    def initial(self) -> Asked:
        """Nobody."""
        return Asked()

    def candidates(
        self, memory: Asked, view: ClientView, rng: np.random.Generator
    ) -> tuple[Asked, IntArray]:
        """d of the view's clients; all with data, if those are fewer."""
        wanted = self.wanted(view.clients.size)
        drawn = proportional_to_size(view, math.ceil(self.factor * wanted), rng)
        return Asked(tuple(drawn.tolist()), wanted), drawn

    def decide(
        self, memory: Asked, view: ClientView, rng: np.random.Generator
    ) -> tuple[Asked, IntArray]:
        """The m highest losses; ties are broken at random."""
        asked = np.flatnonzero(np.isin(view.clients, memory.candidates))
        loss = np.nan_to_num(view.last_loss[asked], nan=-np.inf, posinf=np.inf)
        order = np.lexsort((rng.random(asked.size), -loss))
        return Asked(), np.sort(view.clients[asked[order[: memory.wanted]]])
