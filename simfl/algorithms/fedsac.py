"""FedSAC: clients are rewarded with submodels, larger ones for larger contributions.

Wang, Wang, Lyu, Peng, Yang, Wen, Yu, Wang, Fan: FedSAC: Dynamic Submodel Allocation for
Collaborative Fairness in Federated Learning, KDD 2024, arXiv 2405.18291.

    c_i      contribution: test accuracy of the model client i trains alone  `contribution`
    beta     sharpness of reputations                                        `beta`
    V        the server's validation set                                     `data.validation_share`
    I_j      importance of hidden unit j (nats, then percent)                `importance`
    r_i      reputation (percent of the largest)                             `reputation`
    m_i      the parameters of submodel i, as a mask                         `unit_masks`
    theta_g  global weights                                                  `ServerState.weights`

    (3)    I_j = CE(V; theta_g without unit j) - CE(V; theta_g)
    (4)    I_j <- 100 I_j / sum_k I_k
    (5, 6) r_i = 100 exp(beta c_i) / max_k exp(beta c_k)
    (7)    submodel i: the longest run of units, least important first, whose I sum to r_i at most
    (8)    m_i = 1 for parameters of kept units and for the output bias
    (9)    theta_g[p] = sum_i theta_i[p] m_i[p] / sum_i m_i[p]

Algorithm 1: every `importance_every` rounds the server computes (3) and (4); clients get the
submodels of (5) to (8) and train them; the server aggregates by (9), every client counting alike.
Units are neurons of Linear layers and channels of convolutions.

Departures from the paper, which leaves these open: 1. negative importances count as 0, and if none
is positive all units are equally important; 2. a submodel keeps `min_units` of each hidden layer,
the least important ones; 3. a parameter that no client holds stays unchanged; 4. rewards are
submodels of the last global model, allocated by its own importances, or (`rewards: after_local`)
the model that each client sent last; 5. "every 10 epochs" counts versions, or (`importance_unit:
epochs`) local epochs, with `local.epochs` per version. `allocation: off` makes all units equally
important, in a random order. Without (9), `aggregation` is FedAvg's mean by data size n_i; the
paper does not say how a submodel counts for a parameter that it lacks: the mean is over the holders
(`by_size`), or over all, with missing values at theta_g (`kept`) or zero (`off`).

Known limits: under edge servers each of them evaluates importance on its own model, the cloud takes
the mean of what they found; reputations are over all clients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from simfl.algorithms.base import Algorithm, ClientFacts, ServerState, Unmodelled
from simfl.algorithms.positions import UnitPositions, message_bytes
from simfl.learning.ablation import full_passes
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Brief, Memory, Price, Update
from simfl.learning.network import Network
from simfl.learning.parameters import BYTES_PER_VALUE, Parameters
from simfl.learning.sums import weighted_mean, weighted_sum
from simfl.learning.task import MASK_PREFIX
from simfl.learning.units import Layout, unit_masks

UNITS = "units"
"""The name of a brief's tensor with the hidden units of the client's submodel."""

LEAST_SUM = 1e-12
"""Importances with a smaller sum count as equal."""

ROUNDING = 1e-6
"""The tolerance by which a sum of importances may exceed a reputation, in percent."""


@dataclass(frozen=True)
class FedSac(Algorithm):
    """Federated learning with submodel allocation for collaborative fairness.

    `mask` "incoming" leaves the columns that read a dropped unit in the submodel. `positions`
    "none" sends nothing that identifies a submodel's units, as in the paper's figures; "units"
    sends one bit per hidden unit.
    """

    name: ClassVar[str] = "fedsac"
    whole_work: ClassVar[str] = "its importance and its price are those of all local epochs"
    paper: ClassVar[str] = "arXiv 2405.18291"
    uncoded: ClassVar[Mapping[Unmodelled, str]] = {
        "error_feedback": "submodels change, so that a residual may belong to units no longer held"
    }
    learned_price: ClassVar[bool] = True
    personal: ClassVar[bool] = True
    needs_validation: ClassVar[bool] = True

    beta: Annotated[
        float, ">= 0", "sharpness of reputations; 0 gives everybody the whole model"
    ] = 10.0
    allocation: Literal["importance", "off"] = "importance"
    aggregation: Annotated[
        Literal["dynamic", "by_size", "kept", "off"],
        "the mean of a parameter: over its holders, equally or by data size, or over all by data"
        " size (see above)",
    ] = "dynamic"
    importance_every: Annotated[
        int, ">= 1", "versions or epochs between two evaluations of importance"
    ] = 10
    importance_unit: Annotated[
        Literal["versions", "epochs"],
        "the unit of importance_every; with local.steps or local.share a version counts as 1 epoch",
    ] = "versions"
    rewards: Annotated[
        Literal["submodel", "after_local"],
        "submodels of the last global model, or as each client last trained its own",
    ] = "submodel"
    mask: Literal["structured", "incoming"] = "structured"
    min_units: Annotated[int, ">= 0", "the fewest units of each hidden layer in a submodel"] = 1
    positions: Annotated[UnitPositions, "how a message encodes which values it holds"] = "none"

    @property
    def needs_contributions(self) -> bool:
        """True: reputations are computed from contributions."""
        return True

    def check_network(self, network: Network) -> None:
        """Refuses models whose hidden units cannot be identified."""
        _ = network.hidden_units

    def start(
        self, network: Network, clients: Mapping[int, ClientFacts], evaluator: Evaluator, seed: int
    ) -> ServerState:
        """Fresh weights, contributions, and importances of the untrained model."""
        state = super().start(network, clients, evaluator, seed)
        memory: dict[str, Any] = {
            "layout": network.hidden_units.layout,
            "contributions": {client: facts.contribution for client, facts in clients.items()},
        }
        if self.rewards == "after_local":
            memory["trained"] = {}
        if self.allocation == "off":
            count = network.hidden_units.count
            generator = torch.Generator().manual_seed(seed)
            memory["importance"] = torch.ones(count, dtype=torch.float64)
            memory["order"] = torch.randperm(count, generator=generator)
        else:
            memory["importance"] = raw_importance(state.weights, evaluator)
        return replace(state, memory=memory)

    def brief(self, network: Network, state: ServerState, client: int, held: int) -> Brief:
        """Submodel i: (5) to (8). Missing parameters are exactly zero, and stay zero."""
        units = network.hidden_units
        kept = self._kept(state.memory, client)
        masks = self._masks(state, kept)
        recipe = self.recipe(network, state.version)
        own = {UNITS: kept}
        # A silent ReLU unit gets no gradient, so its zeros need no protection.
        silent = units.relu_only and self.mask == "structured" and not recipe.local.keep_optimizer
        if not silent:
            own |= {f"{MASK_PREFIX}{name}": masks[name] for name in network.parameter_names}
        values = sum(int(mask.sum()) for name, mask in masks.items() if _is_sent(state, name))
        whole = network.size_bytes // BYTES_PER_VALUE
        size = message_bytes(whole, values, self.positions, units.count)
        price = Price(down_bytes=size, up_bytes=size, work=units.work(masks))
        return Brief(start=filled(state.weights, masks), recipe=recipe, price=price, own=own)

    def aggregate(
        self, state: ServerState, updates: Sequence[Update], evaluator: Evaluator
    ) -> ServerState:
        """(9) over the submodels that arrived; every `importance_every` also (3)."""
        payloads = [update.payload for update in updates]
        masks = [self._masks(state, update.brief.own[UNITS]) for update in updates]
        sizes = [float(update.num_examples) for update in updates]
        before = state.weights
        if self.aggregation == "dynamic":
            weights = holders_mean(before, payloads, masks, [1.0] * len(updates))
        elif self.aggregation == "by_size":
            weights = holders_mean(before, payloads, masks, sizes)
        else:
            absent = before if self.aggregation == "kept" else None
            whole = [filled(one, mask, absent) for one, mask in zip(payloads, masks, strict=True)]
            weights = {**before, **weighted_mean(whole, sizes)}
        memory = dict(state.memory)
        if self.rewards == "after_local":
            trained = dict(memory["trained"])
            for update, mask in zip(updates, masks, strict=True):
                trained[update.client] = filled({**before, **update.payload}, mask)
            memory["trained"] = trained
        if self._evaluates(state.version):
            memory["importance"] = raw_importance(weights, evaluator)
        return replace(state, weights=weights, memory=memory)

    def merge(
        self, state: ServerState, lower: Sequence[ServerState], shares: Sequence[float]
    ) -> ServerState:
        """Weights and raw importances are mixed in the same way; all contributions are kept."""
        merged = super().merge(state, lower, shares)
        members = [state, *lower]
        importance = [{"importance": one.memory["importance"]} for one in members]
        mixed = weighted_sum(importance, [1.0 - sum(shares), *shares])
        of_clients = [name for name in ("contributions", "trained") if name in state.memory]
        records = {
            name: {c: value for one in members for c, value in one.memory[name].items()}
            for name in of_clients
        }
        return replace(merged, memory={**state.memory, **mixed, **records})

    def adopt(self, state: ServerState, upper: ServerState) -> ServerState:
        """An edge server takes over everything: reputations are relative to all clients."""
        return replace(state, weights=upper.weights, memory=upper.memory)

    def concluded(self, state: ServerState, evaluator: Evaluator) -> ServerState:
        """(3) for the last model; or clients keep the model that they trained last."""
        memory = dict(state.memory)
        if self.rewards == "after_local":
            memory["rewards"] = memory["trained"]
        if self.allocation != "off":
            memory["importance"] = raw_importance(state.weights, evaluator)
        return replace(state, memory=memory)

    def served(self, state: ServerState, client: int, memory: Memory) -> list[Parameters]:
        """The client's submodel, as downloaded; after training possibly as it last trained it."""
        rewards: Mapping[int, Parameters] = state.memory.get("rewards", {})
        if client in rewards:
            return [rewards[client]]
        return [filled(state.weights, self._masks(state, self._kept(state.memory, client)))]

    def report(self, state: ServerState, updates: Sequence[Update]) -> dict[str, Any]:
        """`value` is the mean share of parameters; per client its reputation, units and parameters.

        `unit_holders`: the number of clients with each unit in their submodel; `importance`: of
        each unit (nats, raw), in the first version that has it.
        """
        kept = [update.brief.own[UNITS] for update in updates]
        masks = [self._masks(state, one) for one in kept]
        values = [sum(int(mask.sum()) for mask in one.values()) for one in masks]
        whole = sum(mask.numel() for mask in masks[0].values())
        reputations = self._reputations(state.memory)
        return {
            "value": float(np.mean(values)) / whole,
            "clients": [update.client for update in updates],
            "reputations": [reputations[update.client] for update in updates],
            "kept_units": [
                [int(one[first : first + count].sum()) for first, count, *_ in _layout(state)]
                for one in kept
            ],
            "unit_holders": torch.stack(kept).sum(0).tolist(),
            "kept_parameters": values,
            "importance": state.memory["importance"].tolist()
            if state.version == 0 or self._evaluates(state.version - 1)
            else [],
        }

    def validation_passes(self, network: Network, version: int, updates: int) -> float:
        """Passes of the ablation of all units, if this aggregation ends with one."""
        return full_passes(network.hidden_units) if self._evaluates(version) else 0.0

    def _evaluates(self, version: int) -> bool:
        """Whether the version after this one comes with new importances."""
        each = (self.local.epochs or 1) if self.importance_unit == "epochs" else 1
        passed = (version + 1) * each // self.importance_every
        return self.allocation != "off" and passed > version * each // self.importance_every

    def _reputations(self, memory: Mapping[str, Any]) -> dict[int, float]:
        return reputations(memory["contributions"], self.beta)

    def _kept(self, memory: Mapping[str, Any], client: int) -> Tensor:
        """Which hidden units client i's submodel has: (4), then (7)."""
        importance = normalised(memory["importance"])
        reputation = self._reputations(memory)[client]
        kept = cheapest_units(importance, reputation, memory.get("order"))
        order = ranking(importance, memory.get("order"))
        for first, count, *_ in memory["layout"]:
            of_layer = order[(order >= first) & (order < first + count)]
            kept[of_layer[: self.min_units]] = True
        return kept

    def _masks(self, state: ServerState, kept: Tensor) -> Parameters:
        outgoing = self.mask == "structured"
        return unit_masks(_layout(state), state.weights, kept, outgoing=outgoing)


def raw_importance(weights: Parameters, evaluator: Evaluator) -> Tensor:
    """(3) for every hidden unit: (units,), nats, float64."""
    return evaluator.ablation_losses(weights) - evaluator.loss([weights])


def normalised(importance: Tensor) -> Tensor:
    """(4): percent, negative ones 0; equal if none is positive."""
    positive = importance.clamp(min=0.0)
    total = positive.sum()
    if float(total) <= LEAST_SUM:
        return torch.full_like(importance, 100.0 / len(importance))
    return 100.0 * positive / total


def reputations(contributions: Mapping[int, float], beta: float) -> dict[int, float]:
    """(5, 6): percent of the largest, per client."""
    best = max(contributions.values())
    return {i: 100.0 * math.exp(-beta * (best - c)) for i, c in contributions.items()}


def ranking(importance: Tensor, order: Tensor | None = None) -> Tensor:
    """Units in increasing importance, ties by number; or in the given order."""
    return torch.argsort(importance, stable=True) if order is None else order


def cheapest_units(importance: Tensor, reputation: float, order: Tensor | None = None) -> Tensor:
    """(7): the longest prefix of the ranking whose importances sum to `reputation` at most.

    importance: (units,), percent. Returns (units,), bool.
    """
    if reputation >= 100.0:
        return torch.ones_like(importance, dtype=torch.bool)
    ranked = ranking(importance, order)
    prefix = torch.cumsum(importance[ranked], 0) <= reputation + ROUNDING
    kept = torch.zeros_like(prefix)
    kept[ranked] = prefix
    return kept


def holders_mean(
    before: Parameters,
    payloads: Sequence[Parameters],
    masks: Sequence[Parameters],
    counts: Sequence[float],
) -> Parameters:
    """Each parameter's mean over the clients that hold it; `before` if none does.

    `counts`, at least 1: the weight of each client; ones give (9). Integers (BatchNorm's step
    counter) are the first client's.
    """
    held = [filled(payload, mask) for payload, mask in zip(payloads, masks, strict=True)]
    holds = [{name: mask[name].to(one) for name, one in payloads[0].items()} for mask in masks]
    total, holders = weighted_sum(held, counts), weighted_sum(holds, counts)
    weights = {**before, **total}
    for name, count in holders.items():
        if count.is_floating_point():
            mean = total[name] / count.clamp(min=1.0)
            weights[name] = torch.where(count > 0, mean, before[name])
    return weights


def filled(weights: Parameters, masks: Parameters, absent: Parameters | None = None) -> Parameters:
    """`weights` with exact zeros, or the values of `absent`, where their mask is False."""
    kept = dict(weights)
    for name in weights.keys() & masks.keys():
        if absent is None:
            kept[name] = weights[name].masked_fill(~masks[name], 0)
        else:
            kept[name] = torch.where(masks[name], weights[name], absent[name])
    return kept


def _layout(state: ServerState) -> Layout:
    layout: Layout = state.memory["layout"]
    return layout


def _is_sent(state: ServerState, name: str) -> bool:
    return state.weights[name].is_floating_point()
