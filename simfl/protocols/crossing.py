"""Values that cross a link: what the codecs make of them, on the way to clients and between tiers.

Uploads of clients are coded where they are made, by the trainer; all else is here. Codecs act on
parameters: running statistics, step counters and private tensors stay as they are.
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
    """What arrives of states that are sent. A state is coded once, for everybody who gets it."""

    def __init__(self, asked: Asked, coding: Coding, streams: Streams) -> None:
        self.coding = coding
        self._asked = asked
        self._streams = streams

    def start(self, ref: StateRef, brief: Brief) -> Parameters:
        """What a client has of its brief's start, which was made from this state."""
        if brief.start is ref.value().weights:
            return self.weights(ref)
        return self._down(ref, brief.start, brief.price.down_bytes)

    def weights(self, ref: StateRef) -> Parameters:
        """What whoever downloads this state has of its weights."""
        if self.coding.downlink is None:
            return ref.value().weights
        price = self._asked.tier_price(ref.version)
        return ref.received(lambda whole: self._down(ref, whole, price.down_bytes))

    def downwards(self, ref: StateRef) -> ServerState:
        """The state that a lower tier takes over."""
        state = ref.value()
        return state if self.coding.downlink is None else replace(state, weights=self.weights(ref))

    def upwards(self, ref: StateRef) -> ServerState:
        """The state that a higher tier gets of a lower one: its change since it took over.

        That is added to what had been sent, as of clients, and not to what had arrived of it.
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
        # What clients train beside the model may begin as one of its tensors: as they have it.
        had = {id(tensor): arrived[name] for name, tensor in named.items()}
        return {name: had.get(id(tensor), tensor) for name, tensor in weights.items()}

    def _seed(self, direction: str, ref: StateRef) -> int:
        """That of this server's version: the same in every variant of a run, on any machine."""
        return self._streams.seed(f"{direction}.{ref.tier}", counter=ref.version)

    def _names(self, version: int) -> list[str]:
        """The parameters that cross links at this version, in the model's order."""
        private = self._asked.recipe(version).private
        return [name for name in self._asked.network.parameter_names if name not in private]
