"""Damages to files: what a disk, a crash, another program or a person may have done to them."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

Damage = Callable[[Path, random.Random, Path], str]
"""Damages a file, given random numbers and an untouched other file; says what it did."""


def flip_bits(path: Path, rng: random.Random, _other: Path) -> str:
    """One to three bits, as a bad disk or memory flips them."""
    content = bytearray(path.read_bytes())
    places = [rng.randrange(8 * len(content)) for _ in range(rng.randint(1, 3))] if content else []
    for place in places:
        content[place // 8] ^= 1 << place % 8
    path.write_bytes(content)
    return f"bits {places} flipped"


def truncate(path: Path, rng: random.Random, _other: Path) -> str:
    """The end is gone."""
    content = path.read_bytes()
    kept = rng.randrange(len(content)) if content else 0
    path.write_bytes(content[:kept])
    return f"{kept} of {len(content)} bytes left"


def empty(path: Path, _rng: random.Random, _other: Path) -> str:
    """Nothing is left."""
    path.write_bytes(b"")
    return "emptied"


def fill_with_garbage(path: Path, rng: random.Random, _other: Path) -> str:
    """As many bytes, all of them others."""
    path.write_bytes(rng.randbytes(path.stat().st_size))
    return "filled with garbage"


def overwrite_a_stretch(path: Path, rng: random.Random, _other: Path) -> str:
    """A stretch of zeros, as a file system leaves after a power cut."""
    content = bytearray(path.read_bytes())
    begin = rng.randrange(len(content)) if content else 0
    length = min(rng.randint(1, 512), len(content) - begin)
    content[begin : begin + length] = bytes(length)
    path.write_bytes(content)
    return f"{length} zeros from byte {begin} on"


def append(path: Path, rng: random.Random, _other: Path) -> str:
    """Bytes that do not belong there, at the end."""
    path.write_bytes(path.read_bytes() + rng.randbytes(rng.randint(1, 200)))
    return "bytes appended"


def exchange(path: Path, _rng: random.Random, other: Path) -> str:
    """The file of the same name of another run."""
    path.write_bytes(other.read_bytes())
    return f"replaced by {other}"


def remove(path: Path, _rng: random.Random, _other: Path) -> str:
    """Not there any more."""
    path.unlink()
    return "removed"


def make_a_folder(path: Path, _rng: random.Random, _other: Path) -> str:
    """A folder of that name."""
    path.unlink()
    path.mkdir()
    (path / "mine.txt").write_text("kept")
    return "a folder in its place"


def encode_otherwise(path: Path, rng: random.Random, _other: Path) -> str:
    """Text in another encoding."""
    text = path.read_text("utf-8", errors="replace")
    encoding = rng.choice(["utf-16", "utf-32", "cp500"])
    path.write_bytes(text.encode(encoding, errors="replace"))
    return f"encoded in {encoding}"


def nest_deeply(path: Path, rng: random.Random, _other: Path) -> str:
    """JSON (and YAML) that is nested beyond what a parser follows, or a number of 5,000 digits."""
    content = rng.choice(["[" * 100_000, '{"a":' * 50_000, "9" * 5000, '["a", ' + "9" * 5000 + "]"])
    path.write_text(content + "\n", encoding="utf-8")
    return f"{content[:8]}..."


WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    1.5,
    float("nan"),
    10**400,
    "",
    "text",
    [],
    [1],
    {},
    {"a": 1},
)
"""Values of every type of JSON, for places where another one belongs."""


def change_a_key(path: Path, rng: random.Random, _other: Path) -> str:
    """A key of a JSON object is dropped, or has a value of another type; or the whole has."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError:
        return empty(path, rng, _other)
    section, names = content, []
    while isinstance(section, dict) and section and (not names or rng.random() < 0.4):
        names.append(rng.choice(sorted(section)))
        if not isinstance(section[names[-1]], dict) or rng.random() < 0.5:
            break
        section = section[names[-1]]
    wrong = rng.choice(WRONG)
    what = f"{'.'.join(names)} = {str(wrong)[:20]}"
    if rng.random() < 0.1:
        content, what = wrong, f"the whole is {str(wrong)[:20]}"
    elif rng.random() < 0.5:
        del section[names[-1]]
        what = f"{'.'.join(names)} dropped"
    else:
        section[names[-1]] = wrong
    path.write_text(json.dumps(content), encoding="utf-8")
    return what


def change_a_line(path: Path, rng: random.Random, _other: Path) -> str:
    """A line of JSON is of another shape, has another number, stands twice or is gone."""
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    if not lines:
        return "no line to change"
    place, wrong = rng.randrange(len(lines)), rng.choice(WRONG)
    way = rng.choice(["shape", "number", "gone", "other"])
    key, fact, *rest = lines[place]
    if way == "shape":
        lines[place] = rng.choice([wrong, [key], [key, wrong, *rest], [wrong, fact, *rest]])
    elif way == "number":
        lines[place] = [key, _another_number(fact), *rest]
    elif way == "gone":
        del lines[place]
    else:
        lines[place] = [key, rng.choice(lines)[1], *rest]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return f"line {place + 1}: {way}"


def _another_number(fact: Any) -> Any:
    """The fact with its numbers a little larger."""
    if isinstance(fact, dict):
        return {key: _another_number(one) for key, one in fact.items()}
    if isinstance(fact, list):
        return [_another_number(one) for one in fact]
    return fact * 1.001 + 1e-3 if isinstance(fact, float) else fact


def link_outside(path: Path, _rng: random.Random, other: Path) -> str:
    """A link to a file that belongs to somebody else."""
    path.unlink()
    path.symlink_to(other)
    return f"a link to {other}"


BYTES: tuple[Damage, ...] = (
    flip_bits,
    flip_bits,
    flip_bits,
    truncate,
    empty,
    fill_with_garbage,
    overwrite_a_stretch,
    append,
    exchange,
    exchange,
    remove,
    make_a_folder,
    link_outside,
)
"""What can happen to any file; what is likelier, or harder to notice, stands there more often."""

TEXT: tuple[Damage, ...] = (*BYTES, encode_otherwise, nest_deeply)
OBJECT: tuple[Damage, ...] = (*TEXT, *[change_a_key] * 8)
LINES: tuple[Damage, ...] = (*TEXT, *[change_a_line] * 6)


def damages_of(path: Path) -> tuple[Damage, ...]:
    """What can happen to a file of this name."""
    by_suffix = {".json": OBJECT, ".jsonl": LINES, ".yaml": TEXT}
    return by_suffix.get(path.suffix, BYTES)


def files_below(folder: Path) -> list[Path]:
    """Every file in a folder, locks aside, in order of their names."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return sorted(found)


def contents(folder: Path) -> dict[str, bytes | str]:
    """What lies in a folder, locks aside: bytes of files, targets of links."""
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if (path.is_symlink() or path.is_file()) and path.suffix != ".lock"
    }


def copied(folder: Path, to: Path) -> Path:
    """A copy to damage."""
    shutil.copytree(folder, to, symlinks=True)
    return to
