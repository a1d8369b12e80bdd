"""A lazy, keyed handle of a server's state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from simfl.algorithms.base import Algorithm, ServerState


class StateRef:
    """A server's state at some version: key and version are known, the value only if asked for.

    `parents` are the states that it is made from, and `make` makes it once they are known. A
    `state` that is at hand already (from a snapshot) needs neither.
    """

    def __init__(
        self,
        key: str,
        version: int,
        make: Callable[[], ServerState],
        parents: Sequence[StateRef] = (),
        state: ServerState | None = None,
    ) -> None:
        self.key = key
        self.version = version
        self._state = state
        # What a known state was made from is let go of, and with it all older states.
        self._make: Callable[[], ServerState] | None = make if state is None else None
        self._parents: Sequence[StateRef] = parents if state is None else ()
        self._common: Any = None

    @property
    def known(self) -> bool:
        """Whether the value is at hand without training anything."""
        return self._state is not None

    def value(self) -> ServerState:
        """The state; computes it, and what it depends on, the first time.

        Oldest first and without recursion: thousands of versions may lie unread behind this one.
        """
        waiting = [self]
        while waiting:
            ref = waiting[-1]
            unknown = [parent for parent in ref._parents if not parent.known]
            if ref.known or not unknown:
                ref._compute()
                waiting.pop()
            else:
                waiting.extend(unknown)
        assert self._state is not None
        return self._state

    def _compute(self) -> None:
        if self._make is not None:
            self._state = replace(self._make(), version=self.version)
            self._make, self._parents = None, ()

    def common(self, algorithm: Algorithm) -> Any:
        """What all jobs of this state share: one object, made once."""
        if self._common is None:
            self._common = algorithm.common(self.value())
        return self._common
