"""Oort's rounds against a plain recomputation: utilities, bonus, clipping, cut-off and pacer."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from simfl.decisions.selection.oort import Oort
from simfl.decisions.views import ClientView
from tests.decisions.views import client_view

CLIENTS, ROUNDS = 15, 40


@dataclass
class Plain:
    """What Oort remembers, and one round of it, client by client."""

    rule: Oort
    rounds: int = 0
    preferred_s: float = 0.0
    first_s: float = 0.0
    last: dict[int, int] = field(default_factory=dict)
    gained: list[float] = field(default_factory=list)

    def choose(self, view: ClientView, rng: np.random.Generator) -> list[int]:
        """The clients of the next round, ascending."""
        rule, clients = self.rule, view.clients.tolist()
        self.rounds += 1
        self._pace(view)
        utility = self._utilities(view)
        tried = [client for client in clients if client in self.last]
        new = [client for client in clients if client not in self.last]
        eps = max(
            rule.exploration_min, rule.exploration * rule.exploration_decay ** (self.rounds - 1)
        )
        explored = round(eps * rule.count)
        if explored == 0 and new:
            explored = int(rng.random() < eps * rule.count)
        exploited = min(rule.count - min(explored, len(new)), len(tried))
        seconds = dict(zip(clients, view.estimated_duration_s.tolist(), strict=True))
        picked = sorted(new, key=lambda one: seconds[one])[: rule.count - exploited]
        if exploited:
            cap = np.quantile([utility[one] for one in tried], 0.95)
            bonus = {one: math.sqrt(0.1 * math.log(self.rounds) / self.last[one]) for one in tried}
            score = {one: min(utility[one], cap) + bonus[one] for one in tried}
            lowest = sorted(score.values(), reverse=True)[exploited - 1]
            open_to = [one for one in tried if score[one] >= rule.cutoff * lowest]
            weight = np.array([score[one] for one in open_to])
            drawn = rng.choice(open_to, exploited, replace=False, p=weight / weight.sum())
            picked += drawn.tolist()
        self.gained.append(sum(utility[one] for one in picked if one in tried))
        self.last |= dict.fromkeys(picked, self.rounds)
        return sorted(picked)

    def _pace(self, view: ClientView) -> None:
        window, gained = self.rule.window, self.gained
        if self.rounds == 1:
            self.preferred_s = self.first_s = float(np.median(view.estimated_duration_s))
            return
        due = len(gained) >= 2 * window and len(gained) % window == 0
        if due and sum(gained[-window:]) < sum(gained[-2 * window : -window]):
            self.preferred_s += self.rule.pace * self.first_s

    def _utilities(self, view: ClientView) -> dict[int, float]:
        known = view.last_loss[~np.isnan(view.last_loss)]
        mean = known.mean() if known.size else 1.0
        loss = np.where(np.isnan(view.last_loss), mean, view.last_loss)
        slow = np.where(
            view.estimated_duration_s > self.preferred_s,
            (self.preferred_s / view.estimated_duration_s) ** self.rule.penalty,
            1.0,
        )
        utility = view.num_examples * loss * slow
        return dict(zip(view.clients.tolist(), utility.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(4))
def test_oort_chooses_whom_its_formulas_choose(seed: int) -> None:
    """Clients come and go, some answer late, losses fall: T rises, exploration fades."""
    world = np.random.default_rng(seed)
    seconds, examples = world.uniform(1, 30, CLIENTS), world.integers(1, 5, CLIENTS)
    loss = np.full(CLIENTS, np.nan)
    rule = Oort(count=4, window=3, exploration_decay=0.9, exploration_min=0.05)
    memory, plain = rule.initial(), Plain(rule)

    for number in range(ROUNDS):
        there = np.sort(world.choice(CLIENTS, int(world.integers(4, CLIENTS)), replace=False))
        view = client_view(
            there,
            estimated_duration_s=seconds[there],
            last_loss=loss[there],
            num_examples=examples[there],
        )
        memory, chosen = rule.decide(memory, view, np.random.default_rng([seed, number]))
        expected = plain.choose(view, np.random.default_rng([seed, number]))
        assert chosen.tolist() == expected
        answers = chosen[world.random(chosen.size) < 0.9]
        loss[answers] = world.uniform(0, 1, answers.size) * 0.95**number

    assert memory.preferred_s == pytest.approx(plain.preferred_s)
    assert plain.preferred_s > plain.first_s
