"""The store of results shared between runs, by key.

Keys cover everything that a value depends on, so a what-if run that only changes hardware finds all
its trainings here. A store holds tensors (server states, client updates) and facts (evaluations,
prices); when it is full, the oldest tensors are deleted.
"""

from __future__ import annotations

import os
import pickle
import re
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import torch

from simfl.common.files import naming, open_line, replacing, sealed_line
from simfl.provenance.serialization import loaded, saved

DEFAULT_LIMIT_BYTES = 4 * 1024**3

_FACTS = re.compile(r"facts-[0-9a-f]{32}\.jsonl")
"""The names of the files of facts that stores write."""


class ResultStore(Protocol):
    """Stores results between runs.

    `damaged` counts stored values that differ from what was written; they are computed again.
    """

    damaged: int

    def get(self, key: str) -> Any | None:
        """The value with this key; None if there is none (any more)."""

    def put(self, key: str, value: Any) -> None:
        """Store a value that consists of tensors."""

    def __contains__(self, key: str) -> bool:
        """Whether `get` would find the key now."""

    def get_fact(self, key: str) -> Any | None:
        """The fact with this key, of JSON's types; None if there is none."""

    def put_fact(self, key: str, fact: Any) -> None:
        """Store a fact."""


class MemoryStore:
    """Results within one process, at most `limit_bytes` of tensors."""

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self.damaged = 0
        self._values: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._facts: dict[str, Any] = {}
        self._bytes = 0

    def get(self, key: str) -> Any | None:
        """The value with this key, which becomes the newest."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key][0]

    def put(self, key: str, value: Any) -> None:
        """Store a value; the least recently used ones make room."""
        if key in self._values:
            return
        size = tensor_bytes(value)
        self._values[key] = (value, size)
        self._bytes += size
        while self._bytes > self._limit_bytes:
            _, (_, freed) = self._values.popitem(last=False)
            self._bytes -= freed

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def get_fact(self, key: str) -> Any | None:
        """The fact with this key."""
        return self._facts.get(key)

    def put_fact(self, key: str, fact: Any) -> None:
        """Store a fact."""
        self._facts[key] = fact


class FolderStore:
    """Results in a folder that several runs may share, successively or simultaneously.

    One file per value, written whole or not at all; facts are lines of a file of each writer's
    own, so that writers on several machines never meet. When the values exceed `limit_bytes`, those
    used longest ago go; with a limit of 0 there are facts only. Values and facts carry digests, and
    `damaged` counts those that fail them, and are gone the next time. Raises `OSError` where the
    disk refuses.
    """

    def __init__(self, folder: Path, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.damaged = 0
        self._folder = folder
        self._limit_bytes = limit_bytes
        folder.mkdir(parents=True, exist_ok=True)
        self._sizes = {path.stem: size for path, size, _ in self._files()}
        self._bytes = sum(self._sizes.values())
        self._facts: dict[str, Any] = {}
        self._own = uuid4().hex
        self._facts_path = folder / f"facts-{self._own}.jsonl"
        for file in sorted(folder.glob("facts*.jsonl")):
            self._read_facts(file)

    def get(self, key: str) -> Any | None:
        """The value with this key; its file counts as used now."""
        path = self._path(key)
        try:
            value = loaded(path.read_bytes(), key, torch.device("cpu"))
            os.utime(path)
        except OSError:  # another run has deleted it to make room
            self._sizes.pop(key, None)
            return None
        except pickle.UnpicklingError:
            self.damaged += 1
            self._sizes.pop(key, None)
            return None
        return value

    def put(self, key: str, value: Any) -> None:
        """Write the value's file unless it exists."""
        if key in self or not self._limit_bytes:
            return
        content = saved(value, key)
        with replacing(self._path(key), f".{self._own}.partial") as partial:
            partial.write_bytes(content)
        self._sizes[key] = len(content)
        self._bytes += len(content)
        if self._bytes > self._limit_bytes:
            self._make_room()

    def __contains__(self, key: str) -> bool:
        return key in self._sizes

    def get_fact(self, key: str) -> Any | None:
        """The fact with this key."""
        return self._facts.get(key)

    def put_fact(self, key: str, fact: Any) -> None:
        """Append the fact's line."""
        if key not in self._facts:
            self._facts[key] = fact
            line = sealed_line(key, fact).encode()
            path = self._facts_path
            with naming(path), path.open("ab", buffering=0) as file:
                file.write(line)

    def _read_facts(self, file: Path) -> None:
        """Take over the facts of a file; damaged lines leave it, so that they are told of once."""
        # What follows the last line's end is being written by another run, or was cut off.
        *lines, rest = file.read_bytes().split(b"\n")
        sound = []
        for line in lines:
            if (opened := open_line(line)) is not None:
                self._facts[opened[0]] = opened[1]
                sound.append(line)
        damaged = len(lines) - len(sound)
        self.damaged += damaged
        if damaged and _FACTS.fullmatch(file.name):
            # A line that another run adds meanwhile may be lost, and is found out again.
            with suppress(OSError), replacing(file, f".{self._own}.partial") as partial:
                partial.write_bytes(b"\n".join([*sound, rest]))

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.pt"

    def _files(self) -> Iterator[tuple[Path, int, float]]:
        """The values' files with their sizes and times of last use."""
        for path in self._folder.glob("*.pt"):
            with suppress(FileNotFoundError):  # another run has just deleted it
                state = path.stat()
                yield path, state.st_size, state.st_mtime

    def _make_room(self) -> None:
        """Delete the least recently used files, down to nine tenths of the limit."""
        files = sorted(self._files(), key=lambda one: one[2])
        sizes = {path.stem: size for path, size, _ in files}
        total = sum(sizes.values())
        for path, size, _ in files:
            if total <= 0.9 * self._limit_bytes:
                break
            path.unlink(missing_ok=True)
            total -= size
            del sizes[path.stem]
        self._sizes, self._bytes = sizes, total


def tensor_bytes(value: Any) -> int:
    """Bytes of all tensors in nested containers and dataclasses."""
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, dict):
        return sum(tensor_bytes(item) for item in value.values())
    if isinstance(value, list | tuple):
        return sum(tensor_bytes(item) for item in value)
    if hasattr(value, "__dataclass_fields__"):
        return sum(tensor_bytes(getattr(value, name)) for name in value.__dataclass_fields__)
    return 0
