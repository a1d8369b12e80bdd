"""What each client contributes: the test accuracy of the model that it trains alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from simfl.algorithms.base import ClientFacts
from simfl.provenance.journal import Journal


class Contributions:
    """Found out by a run of its own when first asked for; passes the journalled door.

    `make` gives the fact: `accuracy` per client, and what finding it out took. `key` names what it
    was computed from, so that runs that share results share it.
    """

    def __init__(self, journal: Journal, key: str, make: Callable[[], Mapping[str, Any]]) -> None:
        self._journal = journal
        self._key = key
        self._make = make

    @property
    def fact(self) -> dict[str, Any]:
        """`accuracy` per client and, if they were found out here, time_s, energy_j and bytes."""
        return dict(self._journal.know(self._key, lambda: dict(self._make())))

    @property
    def known(self) -> dict[str, Any] | None:
        """The fact, if it has been found out."""
        return self._journal.facts.get(self._key)

    @property
    def accuracy(self) -> list[float]:
        """The contribution of each client, a share of right answers."""
        return [float(one) for one in self.fact["accuracy"]]

    def added_to(self, clients: Mapping[int, ClientFacts]) -> dict[int, ClientFacts]:
        """What is known of clients, with what each of them contributes."""
        found = self.accuracy
        return {i: replace(facts, contribution=found[i]) for i, facts in clients.items()}
