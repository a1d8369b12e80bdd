"""YAML text -> plain values with the line of each, and back.

The dialect is plain YAML 1.2: `true`/`false` are the only booleans, `7e-29` and `1e3` are numbers,
dates are text, every key is text. Every error becomes one `ScenarioError`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from simfl.scenario.yaml_source.error import ScenarioError, show

Key = str | int

MAXIMUM_NODES = 200_000
"""The most values of a scenario: stops aliases of aliases from filling the memory."""

LARGEST_INTEGER = 2**63 - 1
"""The largest integer that tables and tensors can hold."""


def parse(text: str, file: str, key: str = "") -> tuple[Any, dict[tuple[Key, ...], int]]:
    """The value of one YAML document and the line of every key path in it.

    `file` and `key` are the place of the text, for errors.
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
    """`content` as YAML text that `parse`, or any reader of YAML, reads back to the same values."""
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
                    number = int(text, 16) if "x" in text else int(text)
                    if abs(number) <= LARGEST_INTEGER:
                        return number
                    accepted = f"an integer up to {LARGEST_INTEGER}; larger numbers as 1e20"
                    raise self.error(node, path, show(text), accepted)
                case "float":
                    return float(re.sub(r"\.(?=inf|nan)", "", text.lower()))
        except ScenarioError:
            raise
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


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    """Text, quoted if readers of YAML 1.1 would read something else, such as 1320 in 22:00."""
    tag = "tag:yaml.org,2002:str"
    elsewhere = yaml.resolver.Resolver().resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return dumper.represent_scalar(tag, text, style=None if elsewhere == tag else "'")


_Dumper.add_representer(str, _text)

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
