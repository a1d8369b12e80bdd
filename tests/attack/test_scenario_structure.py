"""Shipped scenarios whose structure is broken at random: accepted or refused, in one line."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simfl.scenario.yaml_source.text import dump, parse
from tests.attack.commands import ended

SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios").glob("*.yaml"))
CASES, PER_TEST = 300, 30
OTHERS: list[Any] = [
    None,
    True,
    0,
    -1,
    0.5,
    "",
    "x",
    "null",
    "\u202e",
    [],
    {},
    [[]],
    [None],
    {"name": None},
    {"name": []},
    {"name": ""},
    {"": 1},
    "../../etc/passwd:Class",
    "os:system",
    [1, "a", {}],
]

Section = dict[str, Any] | list[Any]


def sections(value: Any) -> list[Section]:
    """Every section and list in `value`, itself first."""
    if not isinstance(value, dict | list):
        return []
    inner = value.values() if isinstance(value, dict) else value
    return [value, *(found for one in inner for found in sections(one))]


def keys(section: Section) -> list[Any]:
    """What leads to its values."""
    return list(section) if isinstance(section, dict) else list(range(len(section)))


def nested(value: Any, depth: int) -> Any:
    """`value` inside so many lists."""
    for _ in range(depth):
        value = [value]
    return value


def drop(content: dict[str, Any], rng: random.Random) -> str:
    """A key less."""
    section = rng.choice([one for one in sections(content) if one])
    del section[rng.choice(keys(section))]
    return dump(content)


def rename(content: dict[str, Any], rng: random.Random) -> str:
    """A key with another name."""
    section = rng.choice([one for one in sections(content) if one and isinstance(one, dict)])
    key = rng.choice(list(section))
    name = rng.choice([key + "s", key[:-1], key.upper(), " ", "__class__", "name", "self", "0"])
    section[name] = section.pop(key)
    return dump(content)


def replace(content: dict[str, Any], rng: random.Random) -> str:
    """Something of another type."""
    section = rng.choice([one for one in sections(content) if one])
    section[rng.choice(keys(section))] = rng.choice(OTHERS)
    return dump(content)


def wrap(content: dict[str, Any], rng: random.Random) -> str:
    """A value inside lists or a section of its own name."""
    section = rng.choice([one for one in sections(content) if one])
    key = rng.choice(keys(section))
    inside: list[Any] = [nested(section[key], rng.choice([1, 2, 90])), {str(key): section[key]}]
    section[key] = rng.choice(inside)
    return dump(content)


def swap(content: dict[str, Any], rng: random.Random) -> str:
    """A whole section in another's place."""
    left, right = rng.choices([one for one in sections(content) if one], k=2)
    left[rng.choice(keys(left))] = parse(dump({"copy": right}), "copy")[0]["copy"]
    return dump(content)


def double(content: dict[str, Any], rng: random.Random) -> str:
    """A line that stands there twice."""
    lines = dump(content).splitlines()
    line = rng.choice(lines)
    lines.insert(rng.randrange(len(lines)), line)
    return "\n".join(lines)


def cut(content: dict[str, Any], rng: random.Random) -> str:
    """A file that ends too early."""
    text = dump(content)
    return text[: rng.randrange(len(text))]


def character(content: dict[str, Any], rng: random.Random) -> str:
    """A character that does not belong there."""
    text = dump(content)
    place = rng.randrange(len(text))
    odd = rng.choice(
        ["\x00", "\x1b[2J", "\t", "\x07", "{", "]", "&a ", "*a", "!!python/name:os ", ":"]
    )
    return text[:place] + odd + text[place:]


def aliases(content: dict[str, Any], rng: random.Random) -> str:
    """Aliases of aliases, or of the values that contain them."""
    many = [
        "a0: &a0 [1, 1]",
        *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)),
    ]
    own = ["loop: &loop {loop: *loop}"]
    return dump(content) + "\n".join(rng.choice([many, own])) + "\n"


def deep(content: dict[str, Any], rng: random.Random) -> str:
    """A thousand levels."""
    key = rng.choice(list(content))
    return f"{dump(content)}{key}2: {'[' * 1000}{']' * 1000}\n"


def latin(content: dict[str, Any], rng: random.Random) -> bytes:
    """Bytes that are no UTF-8."""
    raw = dump(content).encode()
    place = rng.randrange(len(raw))
    return raw[:place] + rng.choice([b"\xff", b"\xc3\x28", b"\xfe\xff", b"\xe9"]) + raw[place:]


Mutation = Callable[[dict[str, Any], random.Random], str | bytes]
MUTATIONS: tuple[Mutation, ...] = (
    drop,
    rename,
    replace,
    replace,
    replace,
    wrap,
    swap,
    double,
    cut,
    character,
    aliases,
    deep,
    latin,
)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, CASES, PER_TEST))
def test_a_broken_structure_is_accepted_or_refused_in_one_line(first, tmp_path):
    """Never a traceback, a hang, or a raw control character on the terminal."""
    wrong = []
    for number in range(first, first + PER_TEST):
        rng = random.Random(number)
        source = rng.choice(SCENARIOS)
        mutation = MUTATIONS[number % len(MUTATIONS)]
        broken = mutation(parse(source.read_text(), source.name)[0], rng)
        file = tmp_path / f"{number}.yaml"
        file.write_bytes(broken if isinstance(broken, bytes) else broken.encode())
        end = ended(["validate", str(file)])
        raw = any(ord(one) < 32 and one != "\n" for one in end.stderr)
        if raw or not (end.accepted or end.refused):
            wrong.append((number, source.name, mutation.__name__, end))

    assert wrong == []
