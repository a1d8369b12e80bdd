"""The sources of a scenario's values: YAML text with line numbers, and overrides."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from simfl.common.contract import deed, is_users_own, name_of, placed, told
from simfl.common.files import NO_HANDLES
from simfl.scenario.yaml_source.error import ScenarioError, show
from simfl.scenario.yaml_source.text import Key, parse

_ABSENT = object()


@dataclass(frozen=True)
class Source:
    """A scenario's raw content, with the line of every key path.

    `origins` names, for a key path that did not come from the file, the option that set it;
    `data_root` is the folder of data that an option named.
    """

    file: str
    base_dir: Path
    content: dict[str, Any]
    lines: Mapping[tuple[Key, ...], int] = field(default_factory=dict)
    origins: Mapping[tuple[Key, ...], str] = field(default_factory=dict)
    data_root: Path | None = None

    @property
    def root(self) -> Path | None:
        """The folder of data: that of the option, else of `data.root`, else of SIMFL_DATA."""
        written = self._at(("data", "root"))
        written = written if isinstance(written, str) else None
        root = self.data_root or written or os.environ.get("SIMFL_DATA")
        return Path(root) if root else None

    def place(self, keys: tuple[Key, ...]) -> tuple[str, int | None]:
        """File (or option) and line that `keys`, or the nearest section above it, came from."""
        prefixes = [keys[:length] for length in range(len(keys), -1, -1)]
        for prefix in prefixes:
            if prefix in self.origins:
                return self.origins[prefix], None
        if keys not in self.lines:
            # A section that only an override made: its place is that override.
            below = [one for path, one in self.origins.items() if path[: len(keys)] == keys]
            if below:
                return below[0], None
        return self.file, next((self.lines[one] for one in prefixes if one in self.lines), None)

    def with_overrides(self, overrides: Sequence[str]) -> Source:
        """This content after `KEY=VALUE` overrides; KEY is a dotted path, VALUE is YAML."""
        result = replace(self, content=copy.deepcopy(self.content))
        for override in overrides:
            result = result.with_value(*key_and_value(override), "--set")
        return result

    def with_value(self, key: str, value: object, origin: str) -> Source:
        """This content with one value at the dotted path `key`, said to come from `origin`.

        Sections on the way that are absent are made; a part given by its bare name becomes a
        section with that name, so that a parameter can stand beside it. What was set below the path
        before is gone.
        """
        content = copy.deepcopy(self.content)
        section: Any = content
        path: tuple[Key, ...] = ()
        *sections, last = key.split(".")
        for depth, step in enumerate(sections):
            index = self._index(section, step, key, origin)
            inner = section.get(index) if isinstance(section, dict) else section[index]
            if inner is None or isinstance(inner, str):
                inner = {} if inner is None else {"name": inner}
                section[index] = inner
            if not isinstance(inner, dict | list):
                upper = ".".join(sections[: depth + 1])
                raise ScenarioError(origin, None, key, f"{upper} = {show(inner)}", "a section")
            section, path = inner, (*path, index)
        index = self._index(section, last, key, origin)
        section[index] = value
        path = (*path, index)
        kept = {keys: one for keys, one in self.origins.items() if keys[: len(path)] != path}
        return replace(self, content=content, origins={**kept, path: origin})

    def holds(self, keys: tuple[Key, ...]) -> bool:
        """Whether the content has a value at `keys`."""
        return self._at(keys) is not _ABSENT

    def is_null(self, keys: tuple[Key, ...]) -> bool:
        """Whether that value is null."""
        return self._at(keys) is None

    def _at(self, keys: tuple[Key, ...]) -> Any:
        section: Any = self.content
        for key in keys:
            is_key = isinstance(section, dict) and key in section
            is_index = isinstance(section, list) and isinstance(key, int) and key < len(section)
            if not (is_key or is_index):
                return _ABSENT
            section = section[key]
        return section

    def without(self, paths: Collection[tuple[Key, ...]]) -> Source:
        """This content without the keys at these paths, if present."""
        content = copy.deepcopy(self.content)
        remove(content, paths)
        gone = [
            named for named in self.origins if any(named[: len(path)] == path for path in paths)
        ]
        origins = {keys: origin for keys, origin in self.origins.items() if keys not in gone}
        return replace(self, content=content, origins=origins)

    @staticmethod
    def _index(section: dict[str, Any] | list[Any], step: str, key: str, origin: str) -> Key:
        if isinstance(section, dict):
            return step
        if not step.isdecimal() or int(step) >= len(section):
            accepted = f"an index from 0 to {len(section) - 1}"
            raise ScenarioError(origin, None, key, show(step), accepted)
        return int(step)


def key_and_value(override: str) -> tuple[str, Any]:
    """The dotted path and the value of `KEY=VALUE`, as `--set` takes it; raises ScenarioError."""
    name, equals, text = override.partition("=")
    if not equals or not all(step.strip() for step in name.split(".")):
        raise ScenarioError("--set", None, "", show(override), "KEY=VALUE")
    value, _ = parse(text, "--set", key=name.strip())
    return name.strip(), value


@dataclass(frozen=True)
class KeyPath:
    """A place in a scenario, for errors about it."""

    source: Source
    keys: tuple[Key, ...] = ()

    def child(self, *keys: Key) -> KeyPath:
        """The place `keys` below this one."""
        return KeyPath(self.source, (*self.keys, *keys))

    def error(self, found: str, accepted: str, message: str | None = None) -> ScenarioError:
        """The error about this place."""
        file, line = self.source.place(self.keys)
        return ScenarioError(file, line, str(self), found, accepted, message)

    def __str__(self) -> str:
        return ".".join(str(key) for key in self.keys)


def remove(content: dict[str, Any], paths: Iterable[tuple[Key, ...]]) -> None:
    """Removes the keys at these paths from nested sections, if present."""
    for *above, last in paths:
        section: Any = content
        for step in above:
            if isinstance(section, list) and isinstance(step, int) and step < len(section):
                section = section[step]
            else:
                section = section.get(step) if isinstance(section, dict) else None
        if isinstance(section, dict):
            section.pop(last, None)


@contextmanager
def blame(where: KeyPath, part: object = None) -> Iterator[None]:
    """Turns a part's `ValueError` or `OSError` into a scenario error at `where`.

    For a user's own part, turns any error, with the part's name in the text. If the message begins
    with the (dotted) name of one of the part's fields, or of the last key of `where`, the error is
    placed at that key.
    """
    try:
        yield
    except ScenarioError:
        raise
    except (Exception, SystemExit) as error:  # a user's part may raise anything, or leave
        foreign = part is not None and is_users_own(part)
        expected = isinstance(error, ValueError | OSError)
        if not expected and not foreign:
            raise
        place, reason = where, str(error) if expected else ""
        reason = reason or (told(part, "", error) if foreign else deed(error))
        names = {*getattr(part, "__dataclass_fields__", ()), *map(str, where.keys[-1:])}
        named = re.fullmatch(r"(\w+(?:\.\w+)*): (.*)", reason, re.DOTALL)
        if named and named[1].partition(".")[0] in names:
            steps = [int(step) if step.isdecimal() else step for step in named[1].split(".")]
            place = where.child(*(steps[1:] if steps[0] in where.keys[-1:] else steps))
            reason = named[2]
        elif foreign and name_of(part) not in reason:
            reason = f"{placed(part, error)}: {reason}"
        raise place.error(reason, "", reason) from error


def read_source(path: Path | str, what: str = "a scenario file") -> Source:
    """The content of the file at `path` (`what` it should be); raises ScenarioError."""
    file = str(path)
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ScenarioError(file, None, "", "no such file", what) from None
    except OSError as error:
        if error.errno in NO_HANDLES:
            raise
        found = f"an unreadable file ({error.strerror})"
        raise ScenarioError(file, None, "", found, what) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        found = f"a byte that is not UTF-8 ({error.object[error.start]:#04x})"
        raise ScenarioError(file, line, "", found, "YAML text in UTF-8") from None
    content, lines = parse(text, file)
    if not isinstance(content, dict):
        found = "an empty file" if content is None else show(content)
        accepted = "a mapping with the keys data, model, population, ..."
        raise ScenarioError(file, 1, "", found, accepted)
    return Source(file, Path(path).absolute().parent, content, lines)
