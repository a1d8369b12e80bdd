"""The accepted values of a key in words, from a JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Schema = dict[str, Any]

BOUNDS = {
    "exclusiveMinimum": ">",
    "minimum": ">=",
    "exclusiveMaximum": "<",
    "maximum": "<=",
}

WORDS = {
    "number": "a number",
    "integer": "an integer",
    "string": "text",
    "boolean": "true or false",
}


def accepted_at(schema: Schema, path: Sequence[str | int]) -> str:
    """The accepted values at `path`, e.g. "a number > 0 (step size)"; empty if any value is."""
    phrases = [_phrase(node) for node in _nodes_at(schema, path)]
    return " or ".join(dict.fromkeys(filter(None, phrases)))


def keys_at(schema: Schema, path: Sequence[str | int]) -> list[str]:
    """The keys of the section at `path`."""
    nodes = _nodes_at(schema, path)
    return [
        key for node in nodes for branch in _branches(node) for key in branch.get("properties", {})
    ]


def _nodes_at(schema: Schema, path: Sequence[str | int]) -> list[Schema]:
    nodes = [schema]
    for step in path:
        branches = [branch for node in nodes for branch in _branches(node)]
        nodes = [inner for branch in branches for inner in _children(branch, step)]
    return nodes


def _branches(node: Schema) -> Iterator[Schema]:
    """The alternatives of a node."""
    if "anyOf" in node:
        for one in node["anyOf"]:
            yield from _branches(one)
    else:
        yield node


def _children(node: Schema, step: str | int) -> Iterator[Schema]:
    if isinstance(step, int):
        fixed = node.get("prefixItems", [])
        if step < len(fixed):
            yield fixed[step]
        elif isinstance(node.get("items"), dict):
            yield node["items"]
    elif step in node.get("properties", {}):
        yield node["properties"][step]
    elif isinstance(node.get("additionalProperties"), dict):
        yield node["additionalProperties"]


def _phrase(node: Schema) -> str:
    words = [_words(branch) for branch in _branches(node)]
    text = " or ".join(dict.fromkeys(word for word in words if word))
    description = node.get("description")
    return f"{text} ({description})" if text and description else text


def _words(node: Schema) -> str:
    if "const" in node:
        return str(node["const"])
    if "enum" in node:
        return "one of " + ", ".join(str(one) for one in node["enum"])
    kind: str = node.get("type", "")
    if kind == "array":
        if "prefixItems" in node:
            items = ", ".join(_phrase(one) or "anything" for one in node["prefixItems"])
            return f"a list of {len(node['prefixItems'])} ({items})"
        each = _phrase(node["items"]) if isinstance(node.get("items"), dict) else ""
        return f"a list, each {each}" if each else "a list"
    if kind == "object":
        keys = ", ".join(node.get("properties", {}))
        return f"a section with the keys {keys}" if keys else "a section"
    if kind == "string" and "examples" in node:
        return f'text such as "{node["examples"][0]}"'
    limits = [f"{sign} {node[name]}" for name, sign in BOUNDS.items() if name in node]
    return " ".join([WORDS.get(kind, kind), " and ".join(limits)]).strip()
