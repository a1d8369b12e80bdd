"""Keys of learned values, and the journal of learned facts.

The key of a learned value covers everything that it was computed from. A value that affects time or
a decision is *known*: a small record of numbers, written down under its key when first needed. A
run with the journal of an earlier one looks the records up instead of training.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TextIO

from simfl.common.files import naming, open_line, sealed_line
from simfl.common.plain import to_json

Fact = Any
"""A value that JSON can represent."""


def make_key(*parts: object) -> str:
    """A key, computed from the keys and plain values that something depends on."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


class FactStore(Protocol):
    """Facts that several runs share."""

    def get_fact(self, key: str) -> Fact | None:
        """The fact with this key; None if there is none."""

    def put_fact(self, key: str, fact: Fact) -> None:
        """Store a fact."""


@dataclass
class Snapshot:
    """The learned values that a run held at some moment, by key; sufficient to continue from there.

    `states`: server states; `updates`: updates that wait to be used; `memories`: what clients keep
    after jobs whose updates were used. `jobs_asked` is the number of jobs submitted by then, from
    which a replay knows whether it has reached that moment.
    """

    states: dict[str, Any] = field(default_factory=dict)
    updates: dict[str, Any] = field(default_factory=dict)
    memories: dict[str, Any] = field(default_factory=dict)
    jobs_asked: int = 0


class Journal:
    """Facts by key; with a path, each new one is appended to that file as a line of JSON.

    `shared` holds facts of other runs, which are looked up before a fact is computed. Floats
    survive the file bit for bit. Every line carries a digest; facts of lines that fail it are
    computed again, and `damaged` counts them. A last line that a crash cut off is ignored.
    """

    def __init__(
        self,
        path: Path | None = None,
        facts: dict[str, Fact] | None = None,
        shared: FactStore | None = None,
    ) -> None:
        self.facts: dict[str, Fact] = dict(facts or {})
        self.recalled = 0
        self.reused = 0
        self.damaged = 0
        self.shared = shared
        self._file: TextIO | None = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w", encoding="utf-8")
            for key, fact in self.facts.items():
                self._append(key, fact)

    @classmethod
    def resume(cls, path: Path, shared: FactStore | None = None) -> Journal:
        """Continue an interrupted journal; raises `OSError` if it cannot be read."""
        whole = path.read_bytes() if path.exists() else b""
        with path.open("ab") as file:
            file.truncate(whole.rfind(b"\n") + 1)  # a line without an end was cut off
        journal = cls(shared=shared)
        journal.facts, journal.damaged = cls.read(path)
        journal._file = path.open("a", encoding="utf-8")
        return journal

    @staticmethod
    def read(path: Path) -> tuple[dict[str, Fact], int]:
        """The facts of a journal file, and how many of its lines are damaged; raises `OSError`."""
        facts: dict[str, Fact] = {}
        damaged = 0
        whole_lines = path.read_bytes().split(b"\n")[:-1]
        for line in whole_lines:
            if (opened := open_line(line)) is None:
                damaged += 1
            else:
                facts[opened[0]] = opened[1]
        return facts, damaged

    def know(self, key: str, make: Callable[[], Fact]) -> Fact:
        """The fact with this key; a new one is computed and written."""
        if key in self.facts:
            self.recalled += 1
            return self.facts[key]
        fact = None if self.shared is None else self.shared.get_fact(key)
        if fact is None:
            fact = json.loads(to_json(make()))
            if self.shared is not None:
                self.shared.put_fact(key, fact)
        else:
            self.reused += 1
        self.facts[key] = fact
        self._append(key, fact)
        return fact

    def _append(self, key: str, fact: Fact) -> None:
        if self._file is not None:
            with naming(Path(self._file.name)):
                self._file.write(sealed_line(key, fact))
                self._file.flush()

    def close(self) -> None:
        """Flush the file to disk and close it."""
        if self._file is not None:
            with naming(Path(self._file.name)), self._file as file:
                self._file = None
                file.flush()
                os.fsync(file.fileno())
