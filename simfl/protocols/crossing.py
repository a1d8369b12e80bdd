"""Codecs applied to values that cross a link, to clients and between tiers.

Clients' uploads are coded by the trainer; all other messages are coded here. Codecs act on
parameters: running statistics, step counters and private tensors stay unchanged.
"""

from __future__ import annotations

from dataclasses import replace

from simfl.algorithms.asked import Asked
from simfl.algorithms.base import ServerState
from simfl.learning.codecs.messages import Coding, decoded
from simfl.learning.job import Brief
from simfl.learning.parameters import Parameters
from simfl.protocols.state_ref import StateRef
from simfl.streams import Streams


class Crossing:
    """States as they arrive after coding. A state is coded once, for all receivers."""

    def __init__(self, asked: Asked, coding: Coding, streams: Streams) -> None:
        self.coding = coding
        self._asked = asked
        self._streams = streams

    def start(self, ref: StateRef, brief: Brief) -> Parameters:
        """The start of a brief made from this state, as the client receives it."""
        if brief.start is ref.value().weights:
            return self.weights(ref)
        return self._down(ref, brief.start, brief.price.down_bytes)

    def weights(self, ref: StateRef) -> Parameters:
        """The weights of this state, as its receivers have them."""
        if self.coding.downlink is None:
            return ref.value().weights
        price = self._asked.tier_price(ref.version)
        return ref.received(lambda whole: self._down(ref, whole, price.down_bytes))

    def downwards(self, ref: StateRef) -> ServerState:
        """The state that a lower tier takes over."""
        state = ref.value()
        return state if self.coding.downlink is None else replace(state, weights=self.weights(ref))

    def upwards(self, ref: StateRef) -> ServerState:
        """The state that a higher tier gets from a lower one: its change since it took over.

        The change is added to the state that was sent (as for clients), not to the decoded one.
        """
        state, adopted = ref.value(), ref.base
        if adopted is None or adopted.upper is None:
            return state
        base, names = adopted.value().weights, self._names(ref.version)
        changes = {name: state.weights[name] - base[name] for name in names}
        if self.coding.uplink is not None:
            raw_bytes = self._asked.tier_price(ref.version).up_bytes
            changes = decoded(self.coding.uplink, changes, raw_bytes, self._seed("uplink", ref))
        if self.coding.downlink is not None:
            sent, received = adopted.upper.value().weights, self.weights(adopted.upper)
            base = {name: base[name] + (sent[name] - received[name]) for name in names}
        weights = {name: base[name] + change for name, change in changes.items()}
        return replace(state, weights={**state.weights, **weights})

    def _down(self, ref: StateRef, weights: Parameters, raw_bytes: int) -> Parameters:
        codec = self.coding.downlink
        assert codec is not None
        named = {name: weights[name] for name in self._names(ref.version)}
        arrived = decoded(codec, named, raw_bytes, self._seed("downlink", ref))
        # Tensors trained beside the model may start as one of its tensors, as the clients received
        # it.
        had = {id(tensor): arrived[name] for name, tensor in named.items()}
        return {name: had.get(id(tensor), tensor) for name, tensor in weights.items()}

    def _seed(self, direction: str, ref: StateRef) -> int:
        """The seed of this server's version: the same in every variant of a run, on any machine."""
        return self._streams.seed(f"{direction}.{ref.tier}", counter=ref.version)

    def _names(self, version: int) -> list[str]:
        """The parameters that cross links at this version, in the model's order."""
        private = self._asked.recipe(version).private
        return [name for name in self._asked.network.parameter_names if name not in private]
