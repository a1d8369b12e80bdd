"""FedProx with stragglers that do part of the work (Li et al., MLSys 2020, section 5.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from simfl.plugins import Algorithm, Brief, Network, Price, Recipe, ServerState, Streams


@dataclass(frozen=True)
class Stragglers(Algorithm):
    """In each round, a share of the clients trains 1 to E epochs, drawn uniformly, instead of E.

    Their updates are merged like all others.
    """

    mu: Annotated[float, ">= 0", "weight of the proximal term"] = 0.01
    stragglers: Annotated[float, ">= 0", "<= 1", "share of the clients that train less"] = 0.5
    draw: Annotated[int, ">= 0", "seed of who trains less, and by how much"] = 0

    def recipe(self, network: Network, version: int) -> Recipe:
        """The local work of clients that are not stragglers."""
        return replace(super().recipe(network, version), proximal=self.mu)

    def brief(self, network: Network, state: ServerState, client: int, held: int) -> Brief:
        """The server's model, and this client's number of epochs."""
        brief = super().brief(network, state, client, held)
        local = replace(brief.recipe.local, epochs=self._epochs(client, state.version))
        return replace(brief, recipe=replace(brief.recipe, local=local))

    def price(self, network: Network, client: int, version: int) -> Price:
        """The usual bytes; computing takes the time and energy of this client's epochs."""
        work = self._epochs(client, version) / (self.local.epochs or 1)
        return replace(super().price(network, client, version), work=work)

    def _epochs(self, client: int, version: int) -> int:
        streams, most = Streams(self.draw), self.local.epochs or 1
        if float(streams.uniform("straggles", client, version)) >= self.stragglers:
            return most
        return 1 + int(most * float(streams.uniform("epochs", client, version)))
