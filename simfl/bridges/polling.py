"""Detects polling servers: a repeated question means that the server waits."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any


class Polls:
    """Questions asked since the last change, with their answers."""

    def __init__(self) -> None:
        self._asked: dict[Hashable, tuple[Any, int]] = {}

    def changed(self) -> None:
        """Something has changed: every question counts as new."""
        self._asked.clear()

    def stands_still(self, question: Hashable, answer: Any, free: int) -> bool:
        """Whether the same answer was already given `free` times.

        A different answer (messages that have arrived) resets the count.
        """
        before, times = self._asked.get(question, (None, 0))
        times = times + 1 if before == answer else 1
        self._asked[question] = answer, times
        return times > free

    def moved(self, question: Hashable, answer: Any, free: int) -> None:
        """Time has moved on because of this question; if it is repeated, time moves on at once."""
        self._asked.clear()
        self._asked[question] = answer, free
