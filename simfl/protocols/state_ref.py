"""A lazy, keyed handle of a server's state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from simfl.algorithms.asked import Asked
from simfl.algorithms.base import ServerState
from simfl.learning.parameters import Parameters


class StateStore(Protocol):
    """States by key, kept for this run and others."""

    def get(self, key: str) -> ServerState | None:
        """The state of a key, if it is (still) stored."""

    def put(self, key: str, value: ServerState) -> None:
        """Stores a state."""

    def __contains__(self, key: str) -> bool:
        """Whether the key is stored."""


@dataclass(frozen=True)
class _Origin:
    """The inputs of a state that is not computed yet."""

    make: Callable[[], ServerState]
    parents: Sequence[StateRef]
    release: Callable[[], None]


class StateRef:
    """A server's state at some version: key and version are known, the value is computed on demand.

    `parents` are the states that it is made from, and `make` computes it once they are known; only
    after that its inputs may be released (`release`), because a snapshot may be taken before. A
    `state` that is available already (from a snapshot or the `store`) needs neither. `tier` names
    the server. `upper` is the higher tier's state that this one took over; `base` is such a state
    from which this one has developed, if codecs act: the change is sent.
    """

    def __init__(
        self,
        key: str,
        version: int,
        make: Callable[[], ServerState],
        parents: Sequence[StateRef] = (),
        state: ServerState | None = None,
        store: StateStore | None = None,
        release: Callable[[], None] = lambda: None,
        *,
        tier: str = "cloud",
        base: StateRef | None = None,
        upper: StateRef | None = None,
    ) -> None:
        self.key = key
        self.tier = tier
        self.base = base
        self.upper = upper
        self.version = version
        self._state = state
        self._store = store
        # The inputs of a known state are released, and with them all older states.
        self._origin = _Origin(make, parents, release) if state is None else None
        self._common: Any = None
        self._received: Parameters | None = None
        self._listeners: list[Callable[[], None]] = []

    @property
    def known(self) -> bool:
        """Whether the value is available without training."""
        kept = self._store is not None and self.key in self._store
        return self._state is not None or kept

    def when_known(self, call: Callable[[], None]) -> None:
        """Calls `call` once, as soon as the value is computed."""
        self._listeners.append(call)

    def value(self) -> ServerState:
        """The state; the first call computes it and everything it depends on.

        Oldest first and without recursion: thousands of versions may be uncomputed before this one.
        States at the same distance from known ones follow one another: when the first of them needs
        updates, the jobs of the others (of all edge servers) are ready, too, and are trained with
        them.
        """
        waiting = self._nearest_last()
        while waiting:  # nothing else here keeps computed states
            ref = waiting.pop()
            if not ref._recalled():
                ref._compute()
        assert self._state is not None
        return self._state

    def _nearest_last(self) -> list[StateRef]:
        """This state and its unknown ancestors, by distance from known states."""
        distances: dict[StateRef, int] = {}
        waiting = [self]
        while waiting:
            ref = waiting[-1]
            if ref in distances or ref._recalled():
                waiting.pop()
                continue
            unknown = [parent for parent in ref._parents if not parent._recalled()]
            if further := [parent for parent in unknown if parent not in distances]:
                waiting.extend(further)
            else:
                distances[ref] = 1 + max((distances[parent] for parent in unknown), default=0)
                waiting.pop()
        return sorted(distances, key=distances.__getitem__, reverse=True)

    @property
    def _parents(self) -> Sequence[StateRef]:
        return () if self._origin is None else self._origin.parents

    def _recalled(self) -> bool:
        """Whether the state is available, possibly from the store."""
        store = self._store
        if self._state is None and store is not None and self.key in store:
            kept = store.get(self.key)
            if kept is not None:  # another run may have evicted it since the store was listed
                self._settle(kept)
        return self._state is not None

    def _compute(self) -> None:
        origin = self._origin
        assert origin is not None
        state = replace(origin.make(), version=self.version)
        if self._store is not None:
            self._store.put(self.key, state)
        self._settle(state)
        origin.release()

    def _settle(self, state: ServerState) -> None:
        self._state, self._origin = state, None
        listeners, self._listeners = self._listeners, []
        for call in listeners:
            call()

    def common(self, asked: Asked) -> Any:
        """The tensors that all jobs of this state share: one object, made once."""
        if self._common is None:
            self._common = asked.common(self.value())
        return self._common

    def received(self, code: Callable[[Parameters], Parameters]) -> Parameters:
        """Its weights as receivers have them, after the codec; made once."""
        if self._received is None:
            self._received = code(self.value().weights)
        return self._received
