"""Where a scenario's values come from: YAML text with line numbers, and overrides on top of it.

The dialect is plain YAML 1.2: `true`/`false` are the only booleans, `7e-29` and `1e3` are numbers,
dates are text, every key is text. Everything that is wrong becomes one `ScenarioError`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

Key = str | int

MAXIMUM_NODES = 200_000
"""More values than any scenario has: stops aliases of aliases from filling the memory."""


class ScenarioError(ValueError):
    """One thing that is wrong with a scenario; its text is one line.

    `file` is the scenario file (or `--set`, `--seed`), `line` counts from 1 (None: unknown), `key`
    is the dotted path, `found` what stands there and `accepted` what may stand there. `message`
    takes the place of "found ..., accepted: ..." where that would read badly.
    """

    def __init__(
        self,
        file: str,
        line: int | None,
        key: str,
        found: str,
        accepted: str,
        message: str | None = None,
    ) -> None:
        super().__init__(file, line, key, found, accepted, message)  # args make it picklable
        self.file = file
        self.line = line
        self.key = key
        self.found = found
        self.accepted = accepted
        comma = "" if found.endswith("?") else ","
        self.message = message or f"found {found}{comma} accepted: {accepted}"

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return " ".join(": ".join(filter(None, (place, self.key, self.message))).split())


def show(value: object) -> str:
    """`value` as a short piece of one-line text, for an error message."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            text = repr(value)
        case Mapping():
            text = "{" + ", ".join(f"{key}: {show(item)}" for key, item in value.items()) + "}"
        case list() | tuple():
            text = "[" + ", ".join(show(item) for item in value) + "]"
        case _:
            text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."


@dataclass(frozen=True)
class Source:
    """A scenario's raw content, with the line of every key path.

    `origins` names, for a key path that did not come from the file, the option that set it.
    """

    file: str
    base_dir: Path
    content: dict[str, Any]
    lines: Mapping[tuple[Key, ...], int] = field(default_factory=dict)
    origins: Mapping[tuple[Key, ...], str] = field(default_factory=dict)

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
            name, equals, text = override.partition("=")
            if not equals or not all(step.strip() for step in name.split(".")):
                raise ScenarioError("--set", None, "", show(override), "KEY=VALUE")
            value, _ = parse(text, "--set", key=name.strip())
            result = result.with_value(name.strip(), value, "--set")
        return result

    def with_value(self, key: str, value: object, origin: str) -> Source:
        """This content with one value at the dotted path `key`, said to come from `origin`.

        Sections on the way that are absent are made; a part given by its bare name becomes a
        section with that name, so that a parameter can stand beside it.
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
        origins = {**self.origins, (*path, index): origin}
        return replace(self, content=content, origins=origins)

    @staticmethod
    def _index(section: dict[str, Any] | list[Any], step: str, key: str, origin: str) -> Key:
        if isinstance(section, dict):
            return step
        if not step.isdecimal() or int(step) >= len(section):
            accepted = f"an index from 0 to {len(section) - 1}"
            raise ScenarioError(origin, None, key, show(step), accepted)
        return int(step)


@dataclass(frozen=True)
class KeyPath:
    """A place in a scenario: what an error about it needs to say where it is."""

    source: Source
    keys: tuple[Key, ...] = ()

    def child(self, *keys: Key) -> KeyPath:
        """The place `keys` below this one."""
        return KeyPath(self.source, (*self.keys, *keys))

    def error(self, found: str, accepted: str, message: str | None = None) -> ScenarioError:
        """The error to raise about this place."""
        file, line = self.source.place(self.keys)
        return ScenarioError(file, line, str(self), found, accepted, message)

    def __str__(self) -> str:
        return ".".join(str(key) for key in self.keys)


@contextmanager
def blame(where: KeyPath, part: object = None) -> Iterator[None]:
    """Turn a part's `ValueError` or `OSError` into a scenario error at `where`.

    Where the message begins with the (dotted) name of one of the part's fields, or of the last key
    of `where`, the error is placed at that key.
    """
    try:
        yield
    except ScenarioError:
        raise
    except (ValueError, OSError) as error:
        place, reason = where, str(error)
        names = {*getattr(part, "__dataclass_fields__", ()), *map(str, where.keys[-1:])}
        named = re.fullmatch(r"(\w+(?:\.\w+)*): (.*)", reason, re.DOTALL)
        if named and named[1].partition(".")[0] in names:
            steps = [int(step) if step.isdecimal() else step for step in named[1].split(".")]
            place = where.child(*(steps[1:] if steps[0] in where.keys[-1:] else steps))
            reason = named[2]
        raise place.error(reason, "", reason) from error


def read_source(path: Path | str) -> Source:
    """The scenario file at `path`; raises ScenarioError for anything that is not a mapping."""
    file = str(path)
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ScenarioError(file, None, "", "no such file", "a scenario file") from None
    except OSError as error:
        found = f"an unreadable file ({error.strerror})"
        raise ScenarioError(file, None, "", found, "a scenario file") from None
    except UnicodeDecodeError as error:
        found = f"a byte that is not UTF-8 at offset {error.start}"
        raise ScenarioError(file, None, "", found, "YAML text in UTF-8") from None
    content, lines = parse(text, file)
    if not isinstance(content, dict):
        found = "an empty file" if content is None else show(content)
        accepted = "a mapping with the keys data, model, population, ..."
        raise ScenarioError(file, 1, "", found, accepted)
    return Source(file, Path(path).absolute().parent, content, lines)


def parse(text: str, file: str, key: str = "") -> tuple[Any, dict[tuple[Key, ...], int]]:
    """The value of one YAML document and the line of every key path in it.

    `file` and `key` say in an error where the text stands.
    """
    try:
        node = _Loader(text).get_single_node()
        if node is None:
            return None, {}
        lines: dict[tuple[Key, ...], int] = {}
        return _Construction(file, key, lines).value(node, (), ()), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark and file != "--set" else None
        problem = error.problem or error.context or "a syntax error"
        if "'\\t'" in problem:
            raise ScenarioError(file, line, key, "a tab", "spaces as indentation") from None
        message = f"not valid YAML: {problem}"
        raise ScenarioError(file, line, key, problem, "valid YAML", message) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        found = f"the character {error.character!r}"
        raise ScenarioError(file, line, key, found, "printable text") from None
    except RecursionError:
        raise ScenarioError(file, None, key, "endless nesting", "a few levels") from None


def dump(content: Mapping[str, Any]) -> str:
    """`content` as YAML text that `parse` reads back to the same values."""
    return yaml.dump(
        content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False
    )


class _Construction:
    """Turns YAML nodes into plain values and notes the line of each key path."""

    def __init__(self, file: str, key: str, lines: dict[tuple[Key, ...], int]) -> None:
        self.file = file
        self.key = key
        self.lines = lines
        self.nodes = 0

    def value(self, node: yaml.Node, path: tuple[Key, ...], above: tuple[int, ...]) -> Any:
        self.nodes += 1
        if self.nodes > MAXIMUM_NODES or id(node) in above:
            raise self.error(node, path, "aliases without end", "fewer aliases")
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode) and node.tag.endswith(":map"):
            return {
                name: self.value(item, (*path, name), (*above, id(node)))
                for name, item in self.items(node, path)
            }
        if isinstance(node, yaml.SequenceNode) and node.tag.endswith(":seq"):
            return [
                self.value(item, (*path, index), (*above, id(node)))
                for index, item in enumerate(node.value)
            ]
        return self.scalar(node, path)

    def items(
        self, node: yaml.MappingNode, path: tuple[Key, ...]
    ) -> Iterator[tuple[str, yaml.Node]]:
        seen: dict[str, int] = {}
        for key_node, item in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise self.error(key_node, path, "a list or section as a key", "text as a key")
            name = key_node.value
            if name in seen:
                found = f"the key twice (also in line {seen[name]})"
                raise self.error(key_node, (*path, name), found, "each key once")
            seen[name] = line
            self.lines[(*path, name)] = line
            yield name, item

    def scalar(self, node: yaml.Node, path: tuple[Key, ...]) -> Any:
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        text = str(node.value)
        try:
            match kind:
                case "str":
                    return text
                case "null":
                    return None
                case "bool":
                    return {"true": True, "false": False}[text.lower()]
                case "int":
                    return int(text, 16) if "x" in text else int(text)
                case "float":
                    return float(re.sub(r"\.(?=inf|nan)", "", text.lower()))
        except (KeyError, ValueError):
            raise self.error(node, path, show(text), f"a value of the tag {kind}") from None
        raise self.error(node, path, f"the tag {node.tag}", "plain YAML without tags")

    def error(
        self, node: yaml.Node, path: tuple[Key, ...], found: str, accepted: str
    ) -> ScenarioError:
        line = None if self.file == "--set" else node.start_mark.line + 1
        key = ".".join([*filter(None, [self.key]), *map(str, path)])
        return ScenarioError(self.file, line, key, found, accepted)


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers = {}

    def ignore_aliases(self, data: Any) -> bool:
        return True


_PLAIN = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?[0-9]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
        r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
}
for _tag, (_pattern, _first) in _PLAIN.items():
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(
            f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), _first
        )
