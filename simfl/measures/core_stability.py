"""Core stability of a run's final model, for any algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.learning.federation import Federation
from simfl.learning.players import players_of
from simfl.measures.base import ModelMeasure
from simfl.measures.core.agents import Agents
from simfl.measures.core.answer import Answer
from simfl.measures.core.blocking import least_margin_possible
from simfl.measures.core.bootstrap import Bootstrap
from simfl.measures.core.certificate import Certificate, certificate
from simfl.measures.core.coalition import feasible
from simfl.measures.core.radius import pseudo_core
from simfl.measures.core.search import (
    MOST_AGENTS,
    Coalitions,
    every_coalition,
    pareto_optimal,
    proportional,
)
from simfl.measures.per_client import require_one_each
from simfl.runs.runfolder import LoadedRun


@dataclass(frozen=True)
class CoreStability(ModelMeasure):
    """Core stability of the final model on the clients' training data (arXiv 2211.02091).

    Figures: `utility_min`, `utility_mean`, `utility_product` (NaN if one is negative); then for
    each question `..._stable` (1 yes, 0 no, NaN undecided), `..._margin` and, with `draws`, from
    `..._low` to `..._high` the 90 % interval of the margin on new examples of the clients (none for
    all clients together: their margin is at least the certificate's). A model suits the examples
    that it was trained on best, so a certificate's interval may lie below its margin: the model is
    stable for these examples, and not for the clients' new ones; with 20 or 50 examples per client
    the interval is too narrow, and held in 31 and 33 of 40 simulated tasks. A certificate's margin
    is 1 - the largest sum of ratios / W, and `certificate_blocking_margin` that of the coalition
    that blocks, NaN without one; `certificate_only_all_block` is 1 if all together block and no
    smaller coalition does, by any of the answers. `least_margin_possible` is a lower bound on the
    margin of coalitions of some clients, because losses are not negative: if it is 0 or more, none
    of them could block with any model, and `..._stable` says nothing about them (M is too far above
    the losses). For a linear model the questions are `certificate` (over all predictors),
    `proportional`, `pareto` and, for few clients, `coalitions` (all of them). With `k`, for any
    model: `pseudo_core`, whose margin is the radius d and whose `..._stable` is always 1, because
    every model has such a radius. d depends on a smoothness that is searched in random directions:
    an estimate, not a bound, and networks with ReLU are not smooth. If clients are served their own
    models, only `coalitions` is computed, if there is a common model without negative utilities.
    Without positive utilities, or for an ensemble, there are no answers.
    """

    offset: Annotated[
        float | tuple[float, ...],
        "> 0",
        "M, above any loss: one for all clients, or a list with one for each",
    ] = 3.0
    weights: Annotated[
        Literal["uniform", "examples"] | tuple[float, ...],
        "> 0",
        "weights of clients, as in CoreFed",
    ] = "uniform"
    k: Annotated[float | None, "> 1", "pseudo-core factor; null: no radius"] = None
    draws: Annotated[int, ">= 0", "bootstrap draws of the clients' samples; 0: no intervals"] = 0
    search_up_to: Annotated[
        int, ">= 0", f"<= {MOST_AGENTS}", "the most clients for which all coalitions are searched"
    ] = MOST_AGENTS

    def check_clients(self, client_count: int) -> None:
        """Checks that lists of offsets and weights have one entry per client."""
        require_one_each("offset", self.offset, client_count)
        require_one_each("weights", self.weights, client_count)

    def assess(
        self, run: LoadedRun, federation: Federation, rng: np.random.Generator
    ) -> dict[str, float]:
        """The answers as numbers."""
        served = np.asarray(self.offset) - run.clients["served_loss"].to_numpy(dtype=float)
        shared = np.asarray(self.offset) - run.clients["global_loss"].to_numpy(dtype=float)
        figures = {
            "utility_min": float(served.min()),
            "utility_mean": float(served.mean()),
            # The product of two negative utilities is positive.
            "utility_product": float(served.prod()) if (served >= 0).all() else float("nan"),
        }
        if not (served > 0).all() or players_of(federation.weights):
            return figures
        weights = self._weights([len(own) for own in federation.agents])
        figures["least_margin_possible"] = least_margin_possible(
            served, np.asarray(self.offset), weights
        )
        own_models = not np.allclose(served, shared)
        answers = self.answers(federation, rng, served if own_models else None)
        for name, answer in answers.items():
            stable = float("nan") if answer.stable is None else float(answer.stable)
            figures |= {f"{name}_stable": stable, f"{name}_margin": answer.margin}
            if isinstance(answer, Certificate):
                figures[f"{name}_blocking_margin"] = answer.blocking_margin
                only_all = len(answer.blocked_by) == len(served)
                only_all &= not any(_smaller_blocks(one, len(served)) for one in answers.values())
                figures[f"{name}_only_all_block"] = float(only_all)
            if answer.interval is not None:
                figures |= {f"{name}_low": answer.interval[0], f"{name}_high": answer.interval[1]}
        return figures

    def answers(
        self,
        federation: Federation,
        rng: np.random.Generator,
        served: FloatArray | None = None,
    ) -> dict[str, Answer]:
        """The answers in full, with coalitions and predictors, by question.

        `served` are the clients' utilities if they are served their own models. Raises ValueError
        if a utility is not positive.
        """
        convex = federation.network.affine
        model = federation.losses(exact=convex)
        agents = Agents.of(model, self.offset, self._weights(model.sizes))
        bootstrap = Bootstrap(rng, self.draws) if self.draws else None
        few, theta = agents.count <= self.search_up_to, model.theta
        answers: dict[str, Answer] = {}
        if served is not None:
            # The common model may serve some clients so badly that no coalition could propose it.
            start = feasible(agents, theta) if convex and few else None
            if start is not None:
                answers["coalitions"] = every_coalition(agents, start, current=served)
            return answers
        if convex:
            answers["certificate"] = certificate(agents, theta, bootstrap)
            answers["proportional"] = proportional(agents, theta, bootstrap)
            answers["pareto"] = pareto_optimal(agents, theta)
            if few:
                answers["coalitions"] = every_coalition(agents, theta, bootstrap)
        if self.k is not None:
            answers["pseudo_core"] = pseudo_core(agents, theta, rng, self.k, bootstrap)
        return answers

    def _weights(self, sizes: list[int]) -> list[float] | None:
        if self.weights == "examples":
            return [float(size) for size in sizes]
        return list(self.weights) if isinstance(self.weights, tuple) else None


def _smaller_blocks(answer: Answer, clients: int) -> bool:
    """Whether the answer found a blocking coalition of fewer than all clients."""
    if isinstance(answer, Coalitions) and answer.smaller_margin < -answer.tolerance:
        return True
    return 0 < len(answer.blocked_by) < clients
