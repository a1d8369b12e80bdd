"""The text of a profile: its content, its errors, and the lines of its keys."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml


@lru_cache(maxsize=256)
def parsed(text: str) -> Any:
    """The content of a profile, cached, since a study reads the same profiles for every point."""
    return yaml.load(text, Loader=_Loader)


def about(text: str) -> str:
    """The first sentence of the comment lines at the head of a file."""
    lines = takewhile(lambda line: line.startswith("#"), text.splitlines())
    comment = " ".join(line.lstrip("# ").rstrip() for line in lines)
    return comment.partition(". ")[0].removesuffix(".")


def not_yaml(path: Path, error: Exception) -> str:
    """File, line and problem of text that is not YAML."""
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    place = f"{path}:{mark.line + 1}" if mark else f"{path}"
    problem = getattr(error, "problem", None) or str(error)
    return f"{place}: not valid YAML: {' '.join(problem.split())}"


def placed(path: Path, message: str) -> str:
    """`message` with the file, and the line of the key at its beginning if the file has it."""
    key = message.partition(": ")[0]
    node: Any = yaml.compose(path.read_text(encoding="utf-8-sig"), Loader=_Loader)
    line = None
    while isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if name.value == key or key.startswith(f"{name.value}."):
                line, node = name.start_mark.line + 1, value
                key = key[len(name.value) + 1 :]
                break
        else:
            break
    return f"{path}:{line}: {message}" if line else f"{path}: {message}"


class _Loader(yaml.SafeLoader):
    """YAML in which 7e-29 is a number (YAML 1.1 wants 7.0e-29) and a repeated key is an error.

    Aliases are errors, too, since a few of them can stand for billions of values. And 10:00 is
    text, where YAML 1.1 reads a base-60 number: 600.
    """

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        """The tag of a node."""
        tag: str = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        by_sixties = kind is yaml.ScalarNode and ":" in value and tag.endswith((":int", ":float"))
        return "tag:yaml.org,2002:str" if by_sixties else tag

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """The next node, which must not be an alias."""
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                None, None, f"found the alias *{event.anchor}, accepted: values", event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping with distinct keys."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        repeated = [key for key in keys if keys.count(key) > 1]
        if repeated:
            second = [key for key, _ in node.value][len(keys) - 1 - keys[::-1].index(repeated[0])]
            problem = f"{repeated[0]}: given twice"
            raise yaml.constructor.ConstructorError(None, None, problem, second.start_mark)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)
