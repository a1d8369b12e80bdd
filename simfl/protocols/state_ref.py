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
        """The state of a key, if it is (still) there."""

    def put(self, key: str, value: ServerState) -> None:
        """Keep a state."""

    def __contains__(self, key: str) -> bool:
        """Whether the key is there."""


@dataclass(frozen=True)
class _Origin:
    """What a state that is not known yet is made from."""

    make: Callable[[], ServerState]
    parents: Sequence[StateRef]
    release: Callable[[], None]


class StateRef:
    """A server's state at some version: key and version are known, the value only if asked for.

    `parents` are the states that it is made from, and `make` makes it once they are known; after
    that what it was made from may go (`release`), not before: a snapshot may be taken then. A
    `state` that is at hand already (from a snapshot) needs neither; nor does one in the `store`.
    `tier` names the server. `upper` is the higher tier's state that this one took over, and `base`
    such a state that this one has come of since, where codecs act: what is sent is the change.
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
        # What a known state was made from is let go of, and with it all older states.
        self._origin = _Origin(make, parents, release) if state is None else None
        self._common: Any = None
        self._received: Parameters | None = None
        self._listeners: list[Callable[[], None]] = []

    @property
    def known(self) -> bool:
        """Whether the value is at hand without training anything."""
        kept = self._store is not None and self.key in self._store
        return self._state is not None or kept

    def when_known(self, call: Callable[[], None]) -> None:
        """Call once, as soon as the value is computed."""
        self._listeners.append(call)

    def value(self) -> ServerState:
        """The state; computes it, and what it depends on, the first time.

        Oldest first and without recursion: thousands of versions may lie unread behind this one.
        Those as far from what is known follow one another: when the first of them needs updates,
        the jobs of the others (of all edge servers) are at hand, too, and are trained along.
        """
        waiting = self._nearest_last()
        while waiting:  # nobody else here holds on to what has been computed
            ref = waiting.pop()
            if not ref._recalled():
                ref._compute()
        assert self._state is not None
        return self._state

    def _nearest_last(self) -> list[StateRef]:
        """What this depends on and is not known yet, and this, by distance from what is known."""
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
        """Whether the state is here, from the store if it has to be."""
        store = self._store
        if self._state is None and store is not None and self.key in store:
            kept = store.get(self.key)
            if kept is not None:  # another run may have made room since the store was listed
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
        """What all jobs of this state share: one object, made once."""
        if self._common is None:
            self._common = asked.common(self.value())
        return self._common

    def received(self, code: Callable[[Parameters], Parameters]) -> Parameters:
        """Its weights as whoever downloads them has them, behind the codec: made once."""
        if self._received is None:
            self._received = code(self.value().weights)
        return self._received
