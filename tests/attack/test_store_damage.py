"""35 damages to a result store: a run that shares it ends as one without it, or is refused."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from tests.attack import damages
from tests.attack.damages import Damage, contents, copied
from tests.attack.test_run_folder_damage import (
    assert_equal_ends,
    command,
    refused_in_one_line,
    scenario,
)

pytestmark = pytest.mark.slow

CASES = 35
PHONES = "population.groups=[{device: phone_mid_sd660, link: lte_2021, share: 1.0}]"
"""Other hardware: what was learned is found in the store, and when it happens is not."""


def another_type(path: Path, rng: random.Random, _other: Path) -> str:
    """A file that torch reads, of something else."""
    value: Any = rng.choice([None, 7, "text", [], {}, {"w": torch.zeros(3)}, torch.ones(2)])
    buffer = io.BytesIO()
    torch.save(value, buffer)
    path.write_bytes(buffer.getvalue())
    return f"of the type {type(value).__name__}"


def another_key(path: Path, _rng: random.Random, other: Path) -> str:
    """The whole entry of another key under this one's name."""
    path.write_bytes(other.read_bytes())
    return f"the entry {other.name}"


def add_lines(path: Path, rng: random.Random, _other: Path) -> str:
    """Lines that are no facts, at the end: one bad line in a shared store stops nobody."""
    line = rng.choice([b"\xff\xfe\n", b"null\n", b"[]\n", b"[1,2,3]\n", b'[["a"],1]\n', b"{}\n"])
    path.write_bytes(path.read_bytes() + line * 3)
    return f"{line!r} added"


def contradict(path: Path, rng: random.Random, _other: Path) -> str:
    """A fact is said a second time, with another number."""
    lines = path.read_text("utf-8").splitlines()
    key, *_ = json.loads(rng.choice(lines))
    path.write_text("".join(f"{line}\n" for line in [*lines, json.dumps([key, 0.125])]), "utf-8")
    return f"{key} said twice"


ENTRIES: tuple[Damage, ...] = (
    *[damages.flip_bits] * 4,
    damages.truncate,
    damages.empty,
    damages.fill_with_garbage,
    damages.overwrite_a_stretch,
    damages.append,
    damages.make_a_folder,
    damages.remove,
    another_type,
    another_type,
    another_key,
    another_key,
    another_key,
)
FACTS: tuple[Damage, ...] = (
    *[damages.change_a_line] * 6,
    damages.flip_bits,
    damages.flip_bits,
    damages.truncate,
    damages.empty,
    damages.fill_with_garbage,
    damages.encode_otherwise,
    damages.nest_deeply,
    damages.make_a_folder,
    add_lines,
    contradict,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a scenario, a store that another run has filled, and the run without it."""
    base = tmp_path_factory.mktemp("store")
    (base / "scenario.yaml").write_text(scenario().to_yaml())
    (base / "what-if.yaml").write_text(scenario().with_overrides([PHONES]).to_yaml())
    for file, out, reuse in (
        ("scenario.yaml", "first", ["--reuse", base / "store"]),
        ("what-if.yaml", "cold", []),
        ("what-if.yaml", "warm", ["--reuse", base / "copy"]),
    ):
        result = command("run", base / file, "--out", base / out, *reuse, "--quiet")
        assert result.exit_code == 0, result.output
        if out == "first":
            copied(base / "store", base / "copy")
    warm = yaml.safe_load((base / "warm" / "manifest.json").read_text())
    assert warm["counts"]["jobs_reused"] + warm["counts"]["facts_reused"] > 0
    return base


def damage_several(rng: random.Random, files: list[Path], ways: tuple[Damage, ...]) -> str:
    """One way, applied to most of the files: a run does not ask for all of them."""
    way = rng.choice(ways)
    chosen = [file for file in files if rng.random() < 0.7] or files[:1]
    originals = {file: file.read_bytes() for file in files}
    told = []
    for file in chosen:
        other = file.with_suffix(".other")
        other.write_bytes(originals[rng.choice([one for one in files if one != file] or files)])
        told.append(f"{file.name}: {way(file, rng, other)}")
        other.unlink()
    return "; ".join(told)


@pytest.mark.parametrize("number", range(CASES))
def test_a_damaged_store(made: Path, number: int, tmp_path: Path) -> None:
    """The same bytes as without a store, or one line; and so a second time."""
    rng = random.Random(number)
    store = copied(made / "store", tmp_path / "store")
    if number % 2:
        what = damage_several(rng, sorted(store.glob("*.pt")), ENTRIES)
    else:
        what = damage_several(rng, sorted(store.glob("facts*.jsonl")), FACTS)
    mine = {name: one for name, one in contents(store).items() if name.endswith("mine.txt")}

    for out in ("run", "again"):
        arguments = (made / "what-if.yaml", "--out", tmp_path / out, "--reuse", store, "--quiet")
        result = command("run", *arguments)

        case = f"{what}: {result.exit_code} {result.output}"
        error = result.exception
        if error is not None and not isinstance(error, SystemExit):
            raise AssertionError(case) from error
        assert result.exit_code == 0 or refused_in_one_line(result), case
        if result.exit_code == 0:
            assert_equal_ends(made / "cold", tmp_path / out)
    assert mine.items() <= contents(store).items(), what
