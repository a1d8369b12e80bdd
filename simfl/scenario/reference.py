"""The keys of a part as rows of a reference, from its JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from simfl.scenario.accepted import accepted_at
from simfl.scenario.sections import PART_SCHEMA

Schema = Mapping[str, Any]


class KeyRow(NamedTuple):
    """A key's path, accepted values, default ("" if required) and meaning."""

    key: str
    accepted: str
    default: str
    meaning: str


def key_rows(nodes: Schema, needed: Sequence[str], prefix: str = "") -> Iterator[KeyRow]:
    """A row for each key of a section; keys of inner sections with their paths."""
    for key, node in nodes.items():
        inner, path = node, prefix + key
        if node.get("type") == "array" and isinstance(node.get("items"), dict):
            inner, path = node["items"], f"{prefix}{key}[]"
        section = next((one for one in node.get("anyOf", ()) if one.get("properties")), None)
        if section is not None:
            default = default_text(node.get("default"))
            yield KeyRow(path, "a section or null", default, node["description"])
            inner = section
        if inner.get("properties"):
            default_section = node.get("default")
            filled = default_section if isinstance(default_section, dict) else {}
            needed_inside = [] if filled else inner.get("required", [])
            inside = {
                name: {**one, "default": filled[name]} if name in filled else one
                for name, one in inner["properties"].items()
            }
            yield from key_rows(inside, needed_inside, f"{path}.")
            continue
        default = "" if key in needed else default_text(node.get("default"))
        yield KeyRow(prefix + key, accepted_text(node), default, node.get("description", ""))


def accepted_text(node: Schema, root: Schema | None = None) -> str:
    """The accepted values at a node of a schema, in words; `root` has its definitions."""
    bare = {name: value for name, value in node.items() if name != "description"}
    text = accepted_at({**bare, "$defs": (root or {}).get("$defs", {})}, ())
    return text.replace(f" ({PART_SCHEMA['description']})", "")


def default_text(value: Any) -> str:
    """A default as YAML has it."""
    return json.dumps(list(value) if isinstance(value, tuple) else value).replace('"', "")
