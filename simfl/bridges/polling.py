"""Detects polling servers: a question that is repeated means that the server waits."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any


class Polls:
    """Questions since anything has changed, with their answers."""

    def __init__(self) -> None:
        self._asked: dict[Hashable, tuple[Any, int]] = {}

    def changed(self) -> None:
        """Something has: whatever is asked now is asked for the first time."""
        self._asked.clear()

    def stands_still(self, question: Hashable, answer: Any, free: int) -> bool:
        """Whether the same answer was given `free` times already.

        An answer that says something (messages that have come) is never waited for.
        """
        before, times = self._asked.get(question, (None, 0))
        times = times + 1 if before == answer else 1
        self._asked[question] = answer, times
        return times > free

    def moved(self, question: Hashable, answer: Any, free: int) -> None:
        """Time has moved on because of this question; the next one of the same moves it again."""
        self._asked.clear()
        self._asked[question] = answer, free
