"""A cluster within the process of a test, whose workers do what they are told to."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simfl.learning.workers.answering import Answering
from simfl.learning.workers.early_sums import Wanted
from simfl.learning.workers.packed_requests import Bundle, PackedValues
from simfl.learning.workers.remote_pool import WorkerLost


@dataclass(eq=False)
class Handle:
    """What will have been answered, worked out when it is waited for."""

    work: Callable[[], Any]
    hangs: bool = False
    done: bool = False
    value: Any = None


class Cluster:
    """`fates` say what befalls workers, in the order in which they are started.

    "killed" and "hangs": with its first request; "fades": is killed after a tenth of a second of
    it; "absent": there is no room for it; "queues": there is none until another one is ended;
    "stillborn": is lost as it begins; a mapping: its platform differs in that. Others work as they
    should. `waits_s` are the longest waits that were asked for.
    """

    def __init__(self, *fates: str | Mapping[str, Any], room: int = 1) -> None:
        self.fates = fates
        self.lines: list[Line] = []
        self.put_bundles: list[Bundle] = []
        self.waits_s: list[float] = []
        self._room = room

    def room(self) -> int:
        """As was said."""
        return self._room

    def line(self) -> Line:
        """A new worker."""
        number = len(self.lines)
        fate = self.fates[number] if number < len(self.fates) else ""
        self.lines.append(Line(f"machine {number}", fate))
        return self.lines[-1]

    def put(self, value: Any) -> Handle:
        """A handle that is done; bundles are remembered."""
        if isinstance(value, Bundle):
            self.put_bundles.append(value)
        return Handle(lambda: value, done=True, value=value)

    def wait(self, handles: Sequence[Handle], longest_s: float) -> list[Handle]:
        """Works out those that do not hang."""
        self.waits_s.append(longest_s)
        for line in self.lines:
            if line.fate == "queues" and any(one.ended for one in self.lines):
                line.beginning.hangs = False
        for handle in handles:
            if not (handle.done or handle.hangs):
                handle.value, handle.done = handle.work(), True
        done = [handle for handle in handles if handle.done]
        if not done:
            time.sleep(longest_s)
        return done

    def get(self, handle: Handle) -> Any:
        """The value; raises it if that is what it is."""
        if isinstance(handle.value, Exception):
            raise handle.value
        return handle.value

    def what_is_asked(self) -> str:
        """Of every worker."""
        return "1 CPU"


class Line:
    """A worker of it; `asked` are the requests that it was sent, `wanted` what sums with them."""

    def __init__(self, name: str, fate: str | Mapping[str, Any]) -> None:
        self.name = name
        self.fate = fate
        self.asked: list[PackedValues] = []
        self.wanted: list[Wanted] = []
        self.sums: list[Handle] = []
        self.ended = self.gone = False
        self.beginning: Handle
        self._worker = Answering(lambda handle: handle.value)

    def begin(self, prepare: Sequence[Any], setup: Handle, shared: Handle) -> Handle:
        """Its platform, differing as its fate says."""
        other = self.fate if isinstance(self.fate, Mapping) else {}

        def platform() -> dict[str, Any] | WorkerLost:
            if self.fate == "stillborn":
                return WorkerLost("it never lived")
            return {**self._worker.begin(prepare, setup.value, shared.value), **other}

        self.beginning = Handle(platform, hangs=self.fate in ("absent", "queues"))
        return self.beginning

    def ask(
        self, packed: PackedValues, held: int | None, forgotten: Sequence[int], wanted: Wanted
    ) -> Handle:
        """The answer, or what befalls the worker instead."""
        self.asked.append(packed)
        self.wanted.append(wanted)
        if self.fate in ("killed", "fades"):
            time.sleep(0.1 * (self.fate == "fades"))
            return Handle(lambda: WorkerLost("it was killed"))
        return Handle(
            lambda: self._worker.answer(packed, held, forgotten, wanted),
            hangs=self.fate == "hangs",
        )

    def fetch(self, held: int) -> Handle:
        """What it holds."""
        return self._still(lambda: self._worker.fetch(held))

    def partial_sum(self, weights: Sequence[float], members: Mapping[int, Any]) -> Handle:
        """A part of a sum; all are remembered."""
        handle = self._still(lambda: self._worker.partial_sum(weights, members))
        self.sums.append(handle)
        return handle

    def _still(self, work: Callable[[], Any]) -> Handle:
        return Handle(lambda: WorkerLost("it is gone") if self.ended or self.gone else work())

    def where(self) -> str:
        """Its name."""
        return self.name

    def end(self) -> None:
        """It is not asked any more."""
        self.ended = True
