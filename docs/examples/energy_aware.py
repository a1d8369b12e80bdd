"""Energy-aware client selection, from what the server has observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from simfl.plugins import ClientView, CountedSelection, IntArray


@dataclass(frozen=True)
class EnergyAware(CountedSelection):
    """The `count` clients that would have spent the fewest joules after one more round.

    A client's next round is expected to cost its mean power so far times its estimated duration;
    one that was never seen costs nothing yet, so that everybody is tried once. Joules of phones
    count `phone_weight` times, and a battery below `lowest_battery` is left alone.
    """

    phone_weight: Annotated[float, "> 0", "what a phone's joule counts"] = 2.0
    lowest_battery: Annotated[float, ">= 0", "<= 1", "battery level that is left alone"] = 0.2

    def decide(
        self, memory: Any, view: ClientView, rng: np.random.Generator
    ) -> tuple[Any, IntArray]:
        """Ties go to the lowest client number."""
        seen = view.participations > 0
        power_w = view.past_energy_j / np.where(seen, view.past_seconds, 1.0)
        next_j = np.where(seen, power_w * view.estimated_duration_s, 0.0)
        weight = np.where(view.device_class == "phone", self.phone_weight, 1.0)
        score = weight * (view.past_energy_j + next_j)
        # NaN, which is mains power, is not below anything.
        score[view.battery_level < self.lowest_battery] = np.inf
        cheapest = np.argsort(score, kind="stable")[: self.wanted(view.clients.size)]
        return memory, np.sort(view.clients[cheapest])
